/* The members this node hears of, and the statement that writes their heartbeats down. Never the
 * authority on who is a member: PostgreSQL is. */
#include "cluster/heartbeats.h"

#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "db/array.h"
#include "db/connection.h"
#include "db/database.h"
#include "db/health.h"

#define WRITE_SECONDS 1.0 /* overdue_before() in SQL allows for twice this delay */

struct member {
  char *key; /* group, NUL, member */
  size_t key_length;
  size_t group_length;
  char *topic; /* the topic that was confirmed, empty when none was named */
  int64_t group_id;
  int64_t generation;
  bool is_confirmed; /* the generation may be answered */
  bool has_beaten;   /* since the last statement */
  bool is_asked;     /* part of the statement in flight */
  unsigned idle_writes;
  UT_hash_handle hh;
};

struct heartbeats {
  struct db_batch batch; /* first: callbacks get it */
  struct heartbeats_options options;
  struct db_connection *connection;
  struct member *members;
  bool was_ready;
  bool in_flight;
  bool is_listening;
  uint64_t changes;
  struct member **asked;
  unsigned asked_count;
  struct db_array group_ids, member_ids;
  struct db_parameter parameters[2];
  struct db_call call;
  ev_timer timer;
  const char *setup[4];
  struct metric_series *written_total;
  struct metric_series *cached_total;
};

static const Oid types[] = {DB_INT8_ARRAY, DB_TEXT_ARRAY};
static const struct db_statement statements[] = {
    {"beat_members", "SELECT current_generation, is_written FROM pgcursus.beat_members($1,$2)", 2,
     types},
};

/* ------------------------------------------------------------------ members */

static size_t make_key(char *key, struct slice group, struct slice member) {
  memcpy(key, group.data, group.length);
  key[group.length] = '\0';
  memcpy(key + group.length + 1, member.data, member.length);
  return group.length + 1 + member.length;
}

static struct member *find_member(struct heartbeats *heartbeats, struct slice group,
                                  struct slice member) {
  char key[512]; /* names have at most 249 bytes */
  if (group.length + member.length + 1 > sizeof key) return NULL;
  size_t length = make_key(key, group, member);
  struct member *found;
  HASH_FIND(hh, heartbeats->members, key, length, found);
  return found;
}

static void free_member(struct member *member) {
  free(member->key);
  free(member->topic);
  free(member);
}

static void remove_member(struct heartbeats *heartbeats, struct member *member) {
  HASH_DEL(heartbeats->members, member);
  free_member(member);
}

bool heartbeats_beat(struct heartbeats *heartbeats, struct slice group, struct slice member,
                     struct slice topic, const int64_t *claimed, int64_t *generation) {
  if (!heartbeats->is_listening) return false;
  struct member *found = find_member(heartbeats, group, member);
  if (found == NULL || !found->is_confirmed || !slice_equals_text(topic, found->topic))
    return false;
  if (claimed && *claimed != found->generation) return false; /* who is behind is not known here */
  *generation = found->generation;
  found->has_beaten = true;
  metric_add(heartbeats->cached_total, 1);
  return true;
}

uint64_t heartbeats_changes(const struct heartbeats *heartbeats) {
  return heartbeats->changes;
}

static struct member *add_member(struct heartbeats *heartbeats, struct slice group,
                                 struct slice member) {
  struct member *added = memory_allocate_zeroed(1, sizeof *added);
  added->key = memory_allocate(group.length + member.length + 1);
  added->key_length = make_key(added->key, group, member);
  added->group_length = group.length;
  HASH_ADD_KEYPTR(hh, heartbeats->members, added->key, added->key_length, added);
  return added;
}

void heartbeats_learn(struct heartbeats *heartbeats, uint64_t changes, struct slice group,
                      struct slice member, struct slice topic, int64_t group_id,
                      int64_t generation) {
  if (changes != heartbeats->changes || !heartbeats->is_listening) return;
  struct member *known = find_member(heartbeats, group, member);
  if (known == NULL) known = add_member(heartbeats, group, member);
  free(known->topic);
  known->topic = memory_allocate(topic.length + 1);
  if (topic.length) memcpy(known->topic, topic.data, topic.length);
  known->topic[topic.length] = '\0';
  known->group_id = group_id;
  known->generation = generation;
  known->is_confirmed = true;
  known->idle_writes = 0;
}

void heartbeats_forget_group(struct heartbeats *heartbeats, struct slice group) {
  heartbeats->changes++;
  struct member *member, *next;
  HASH_ITER(hh, heartbeats->members, member, next) {
    if (slice_equals(group, slice_of(member->key, member->group_length)))
      member->is_confirmed = false;
  }
}

void heartbeats_set_listening(struct heartbeats *heartbeats, bool listening) {
  heartbeats->is_listening = listening;
  heartbeats->changes++;
  struct member *member, *next;
  HASH_ITER(hh, heartbeats->members, member, next) member->is_confirmed = false;
}

/* ------------------------------------------------------------------ writing down */

static bool is_idle(const struct heartbeats *heartbeats, const struct member *member) {
  return (double)member->idle_writes * WRITE_SECONDS * 1000. >
         (double)heartbeats->options.session_timeout_ms;
}

/* Takes the members that have beaten; lets go of those that are long silent. */
static void gather(struct heartbeats *heartbeats) {
  db_array_begin(&heartbeats->group_ids, DB_INT8);
  db_array_begin(&heartbeats->member_ids, DB_TEXT);
  heartbeats->asked = memory_resize(
      heartbeats->asked, (HASH_COUNT(heartbeats->members) + 1) * sizeof *heartbeats->asked);
  heartbeats->asked_count = 0;
  struct member *member, *next;
  HASH_ITER(hh, heartbeats->members, member, next) {
    if (!member->has_beaten) {
      member->idle_writes++;
      if (is_idle(heartbeats, member)) remove_member(heartbeats, member);
      continue;
    }
    member->has_beaten = false;
    member->idle_writes = 0;
    member->is_asked = true;
    heartbeats->asked[heartbeats->asked_count++] = member;
    db_array_add_int8(&heartbeats->group_ids, member->group_id);
    db_array_add_bytes(&heartbeats->member_ids,
                       slice_of(member->key + member->group_length + 1,
                                member->key_length - member->group_length - 1));
  }
}

static void write_down(struct heartbeats *heartbeats) {
  if (heartbeats->in_flight || !db_connection_can_send(heartbeats->connection)) return;
  gather(heartbeats);
  if (heartbeats->asked_count == 0) return;
  heartbeats->parameters[0] = db_array_parameter(&heartbeats->group_ids);
  heartbeats->parameters[1] = db_array_parameter(&heartbeats->member_ids);
  heartbeats->call = (struct db_call){.statement = 0, .parameters = heartbeats->parameters};
  heartbeats->in_flight = true;
  db_connection_send(heartbeats->connection, &heartbeats->batch, &heartbeats->call, 1);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events) {
  (void)loop;
  (void)events;
  write_down(timer->data);
}

static void on_result(struct db_batch *batch, unsigned call, const PGresult *result) {
  struct heartbeats *heartbeats = (struct heartbeats *)batch;
  (void)call;
  if (PQntuples(result) != (int)heartbeats->asked_count) return;
  for (unsigned i = 0; i < heartbeats->asked_count; i++) {
    struct member *member = heartbeats->asked[i];
    int row = (int)i;
    bool is_gone = db_is_null(result, row, 0);
    member->is_asked = false;
    /* A later generation than the one answered: the next heartbeat asks PostgreSQL. */
    if (is_gone || db_get_int8(result, row, 0) != member->generation) member->is_confirmed = false;
    if (!is_gone && !db_get_bool(result, row, 1)) member->has_beaten = true; /* again */
  }
  metric_add(heartbeats->written_total, heartbeats->asked_count);
}

/* Heartbeats that were not answered go with the next statement. */
static void on_done(struct db_batch *batch, enum db_outcome outcome,
                    const struct db_failure *failure) {
  struct heartbeats *heartbeats = (struct heartbeats *)batch;
  if (outcome == DB_REFUSED) {
    log_event(LOG_WARN, "PostgreSQL refused heartbeats", "sqlstate", failure->sqlstate, "message",
              failure->message, NULL);
  }
  for (unsigned i = 0; i < heartbeats->asked_count; i++) {
    struct member *member = heartbeats->asked[i];
    if (outcome != DB_COMMITTED || member->is_asked) member->has_beaten = true;
    member->is_asked = false;
  }
  heartbeats->asked_count = 0;
  heartbeats->in_flight = false;
}

static void on_state(struct db_connection *connection, void *owner, bool ready,
                     const char *reason) {
  struct heartbeats *heartbeats = owner;
  (void)connection;
  db_health_report(heartbeats->options.database->health, heartbeats->was_ready, ready, reason);
  heartbeats->was_ready = ready;
  if (ready) write_down(heartbeats); /* what waited for the session has waited long enough */
}

/* ------------------------------------------------------------------ life */

static void open_connection(struct heartbeats *heartbeats) {
  const struct heartbeats_options *options = &heartbeats->options;
  heartbeats->setup[0] = options->database->set_statement_timeout;
  heartbeats->setup[1] = "SET default_transaction_isolation = 'read committed'";
  heartbeats->setup[2] = DB_SETUP_PLANNER;
  db_health_add_session(options->database->health);
  const struct db_connection_options connection_options = {
      .database = options->database,
      .setup = heartbeats->setup,
      .statements = statements,
      .statement_count = sizeof statements / sizeof *statements,
      .answer_limit_ms = database_answer_limit_ms(options->database),
      .on_state = on_state,
      .owner = heartbeats,
  };
  heartbeats->connection = db_connection_open(&connection_options);
}

struct heartbeats *heartbeats_open(const struct heartbeats_options *options) {
  struct heartbeats *heartbeats = memory_allocate_zeroed(1, sizeof *heartbeats);
  heartbeats->options = *options;
  heartbeats->batch.on_result = on_result;
  heartbeats->batch.on_done = on_done;
  heartbeats->written_total =
      metric_with(metric_counter("pgcursus_heartbeats_written_total",
                                 "Members whose heartbeat was written down.", NULL, NULL),
                  NULL, NULL);
  heartbeats->cached_total =
      metric_with(metric_counter("pgcursus_heartbeats_from_memory_total",
                                 "Heartbeats answered without asking PostgreSQL.", NULL, NULL),
                  NULL, NULL);
  open_connection(heartbeats);
  ev_timer_init(&heartbeats->timer, on_timer, WRITE_SECONDS, WRITE_SECONDS);
  heartbeats->timer.data = heartbeats;
  ev_timer_start(options->database->loop, &heartbeats->timer);
  return heartbeats;
}

void heartbeats_close(struct heartbeats *heartbeats) {
  ev_timer_stop(heartbeats->options.database->loop, &heartbeats->timer);
  db_connection_close(heartbeats->connection);
  struct member *member, *next;
  HASH_ITER(hh, heartbeats->members, member, next) remove_member(heartbeats, member);
  db_array_release(&heartbeats->group_ids);
  db_array_release(&heartbeats->member_ids);
  free(heartbeats->asked);
  free(heartbeats);
}
