/* The queue of offset commits and its session. Knows nothing of groups: what may be committed is
 * decided in SQL. Must never report success before a commit. */
#include "log/commits.h"

#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "db/connection.h"
#include "db/database.h"
#include "db/health.h"

#define GROUP_MAX_ITEMS 256u
#define MAX_ATTEMPTS 10u /* of transactions that conflicted */
/* A group that is being rebalanced is asked again soon: that takes some milliseconds. */
#define BUSY_RETRY_MIN_US 1500
#define BUSY_RETRY_MAX_US 6000
#define TICK_SECONDS 0.002 /* while something queues */

/* As pgcursus.commit_result has them. */
enum { STATUS_COMMITTED, STATUS_REFUSED, STATUS_BUSY };

struct answer {
  bool given;
  int status;
  char *code;
  char *detail;
};

struct commits {
  struct db_batch batch; /* first: callbacks get it */
  const struct database *database;
  struct db_connection *connection;
  bool was_ready;
  bool in_flight;
  bool closing;
  struct commit_item *queue;
  struct commit_item **queue_tail;
  struct commit_item *items[GROUP_MAX_ITEMS]; /* in flight, in order of groups */
  struct db_call calls[GROUP_MAX_ITEMS];
  struct answer answers[GROUP_MAX_ITEMS];
  unsigned item_count;
  ev_prepare prepare; /* gathers what arrived in this turn of the loop */
  ev_timer tick;      /* deadlines and delayed retries, while something queues */
  bool prepare_active;
  const char *setup[4];
  struct metric_series *group_items;
  struct metric_series *retries_total;
};

static void pump(struct commits *commits);

static const Oid commit_types[COMMIT_PARAMETERS] = {DB_TEXT, DB_TEXT,       DB_TEXT,      DB_INT8,
                                                    DB_INT8, DB_INT4_ARRAY, DB_INT8_ARRAY};
static const struct db_statement statements[] = {
    {.name = "commit_offsets",
     .sql = "SELECT status, code, fields FROM pgcursus.commit_offsets($1,$2,$3,$4,$5,$6,$7)",
     .parameter_count = COMMIT_PARAMETERS,
     .parameter_types = commit_types},
};

/* ------------------------------------------------------------------ items */

void commit_item_add(struct commit_item *item, int32_t partition, int64_t next_offset) {
  if (item->partitions.count == 0) {
    db_array_begin(&item->partitions, DB_INT4);
    db_array_begin(&item->offsets, DB_INT8);
  }
  db_array_add_int4(&item->partitions, partition);
  db_array_add_int8(&item->offsets, next_offset);
}

void commit_item_release(struct commit_item *item) {
  db_array_release(&item->partitions);
  db_array_release(&item->offsets);
}

static void push(struct commits *commits, struct commit_item *item) {
  item->next = NULL;
  *commits->queue_tail = item;
  commits->queue_tail = &item->next;
}

static void answer(struct commit_item *item, enum control_status status, const char *code,
                   const char *detail) {
  /* Whether the attempt that got lost was the one that counted is not known to anybody. */
  if (item->maybe_committed && status != CONTROL_OK) status = CONTROL_UNKNOWN;
  const struct control_result result = {.status = status, .code = code, .detail = detail};
  commit_item_release(item);
  item->on_done(item, &result);
}

static struct commit_item *detach_queue(struct commits *commits) {
  struct commit_item *items = commits->queue;
  commits->queue = NULL;
  commits->queue_tail = &commits->queue;
  return items;
}

static void fail_queue(struct commits *commits, const char *reason) {
  struct commit_item *item = detach_queue(commits);
  while (item) {
    struct commit_item *next = item->next;
    answer(item, CONTROL_UNAVAILABLE, reason, "");
    item = next;
  }
}

/* ------------------------------------------------------------------ sending */

/* By group, then topic, so that the rows of one group are touched together and in one order
 * everywhere. */
static int compare_slices(struct slice a, struct slice b) {
  size_t shorter = a.length < b.length ? a.length : b.length;
  int order = shorter ? memcmp(a.data, b.data, shorter) : 0;
  if (order != 0) return order;
  return (a.length > b.length) - (a.length < b.length);
}

static int compare_items(const void *a, const void *b) {
  const struct commit_item *const *left = a, *const *right = b;
  int order = compare_slices((*left)->group, (*right)->group);
  return order ? order : compare_slices((*left)->topic, (*right)->topic);
}

static void choose_items(struct commits *commits) {
  int64_t now = clock_monotonic_us();
  struct commit_item **place = &commits->queue;
  commits->item_count = 0;
  while (*place && commits->item_count < GROUP_MAX_ITEMS) {
    struct commit_item *item = *place;
    if (item->not_before_us > now || (item->alone && commits->item_count > 0)) {
      place = &item->next;
      continue;
    }
    *place = item->next;
    commits->items[commits->item_count++] = item;
    if (item->alone) break;
  }
  commits->queue_tail = &commits->queue;
  while (*commits->queue_tail) commits->queue_tail = &(*commits->queue_tail)->next;
  qsort(commits->items, commits->item_count, sizeof *commits->items, compare_items);
}

static void encode(struct commit_item *item) {
  struct db_parameter *p = item->parameters;
  *p++ = db_bytes(item->group);
  *p++ = db_bytes(item->topic);
  *p++ = db_bytes(item->member);
  *p++ = db_int8(&item->scalars[0], item->generation);
  *p++ =
      item->registration_epoch ? db_int8(&item->scalars[1], item->registration_epoch) : db_null();
  *p++ = db_array_parameter(&item->partitions);
  *p++ = db_array_parameter(&item->offsets);
}

static void pump(struct commits *commits) {
  if (commits->queue && !ev_is_active(&commits->tick)) {
    ev_timer_again(commits->database->loop, &commits->tick);
  }
  if (commits->in_flight || commits->queue == NULL) return;
  if (!db_connection_can_send(commits->connection)) {
    if (db_connection_state(commits->connection) == DB_DOWN) {
      fail_queue(commits, "PostgreSQL is not available");
    }
    return;
  }
  choose_items(commits);
  if (commits->item_count == 0) return;
  for (unsigned i = 0; i < commits->item_count; i++) {
    encode(commits->items[i]);
    commits->calls[i] =
        (struct db_call){.statement = 0, .parameters = commits->items[i]->parameters};
  }
  commits->in_flight = true;
  db_connection_send(commits->connection, &commits->batch, commits->calls, commits->item_count);
}

/* ------------------------------------------------------------------ outcomes */

static char *copy_column(const PGresult *result, int column) {
  struct slice bytes = db_get_bytes(result, 0, column);
  char *text = memory_allocate(bytes.length + 1);
  if (bytes.length) memcpy(text, bytes.data, bytes.length);
  text[bytes.length] = '\0';
  return text;
}

static void on_result(struct db_batch *batch, unsigned call, const PGresult *result) {
  struct commits *commits = (struct commits *)batch;
  if (call >= commits->item_count || PQntuples(result) != 1) return;
  struct answer *given = &commits->answers[call];
  given->given = true;
  given->status = db_get_int4(result, 0, 0);
  if (given->status != STATUS_REFUSED) return;
  given->code = copy_column(result, 1);
  given->detail = copy_column(result, 2);
}

static void requeue(struct commits *commits, struct commit_item *item, int64_t delay_us) {
  item->not_before_us = delay_us ? clock_monotonic_us() + delay_us : 0;
  metric_add(commits->retries_total, 1);
  push(commits, item);
}

static int64_t busy_delay(void) {
  return BUSY_RETRY_MIN_US + (int64_t)(drand48() * (BUSY_RETRY_MAX_US - BUSY_RETRY_MIN_US));
}

static void group_committed(struct commits *commits) {
  metric_observe(commits->group_items, commits->item_count);
  for (unsigned i = 0; i < commits->item_count; i++) {
    struct commit_item *item = commits->items[i];
    const struct answer *given = &commits->answers[i];
    if (!given->given) {
      answer(item, CONTROL_FAILED, "the commit function gave no answer", "");
    } else if (given->status == STATUS_COMMITTED) {
      answer(item, CONTROL_OK, "", "");
    } else if (given->status == STATUS_REFUSED) {
      answer(item, CONTROL_REFUSED, given->code, given->detail);
    } else if (commits->closing) {
      answer(item, CONTROL_UNAVAILABLE, "the node is stopping", "");
    } else {
      requeue(commits, item, busy_delay());
    }
  }
}

static bool has_prefix(const char *sqlstate, const char *prefix) {
  return strncmp(sqlstate, prefix, strlen(prefix)) == 0;
}

/* Everything is rolled back. Conflicts are tried again; an error is the answer of the item that
 * made it, or, when it would meet everybody, of all. */
static void group_refused(struct commits *commits, const struct db_failure *failure) {
  const char *sqlstate = failure->sqlstate;
  bool conflict = has_prefix(sqlstate, "40") || has_prefix(sqlstate, "55");
  bool server_wide = has_prefix(sqlstate, "53") || has_prefix(sqlstate, "57") ||
                     has_prefix(sqlstate, "58") || has_prefix(sqlstate, "25006");
  bool is_known = failure->call < commits->item_count;
  if (!conflict) {
    log_event(LOG_WARN, "PostgreSQL refused offset commits", "sqlstate", sqlstate, "message",
              failure->message, NULL);
  }
  for (unsigned i = 0; i < commits->item_count; i++) {
    struct commit_item *item = commits->items[i];
    if (commits->closing || server_wide || (conflict && ++item->attempts > MAX_ATTEMPTS)) {
      answer(item, CONTROL_UNAVAILABLE, failure->message, "");
    } else if (!conflict && (commits->item_count == 1 || (is_known && i == failure->call))) {
      answer(item, CONTROL_FAILED, failure->message, "");
    } else {
      if (!conflict && !is_known) item->alone = true;
      requeue(commits, item, conflict ? busy_delay() : 0);
    }
  }
}

/* A commit may be sent twice: the second changes nothing. A refusal of the second says nothing of
 * the first. */
static void group_unknown(struct commits *commits, const struct db_failure *failure,
                          bool was_sent) {
  for (unsigned i = 0; i < commits->item_count; i++) {
    struct commit_item *item = commits->items[i];
    item->maybe_committed = item->maybe_committed || was_sent;
    if (commits->closing) {
      answer(item, CONTROL_UNAVAILABLE, failure->message, "");
    } else {
      requeue(commits, item, 0);
    }
  }
}

static void clear_answers(struct commits *commits) {
  for (unsigned i = 0; i < commits->item_count; i++) {
    free(commits->answers[i].code);
    free(commits->answers[i].detail);
    commits->answers[i] = (struct answer){0};
  }
  commits->item_count = 0;
}

static void on_done(struct db_batch *batch, enum db_outcome outcome,
                    const struct db_failure *failure) {
  struct commits *commits = (struct commits *)batch;
  switch (outcome) {
    case DB_COMMITTED:
      group_committed(commits);
      break;
    case DB_REFUSED:
      group_refused(commits, failure);
      break;
    case DB_UNKNOWN:
    case DB_UNSENT:
      group_unknown(commits, failure, outcome == DB_UNKNOWN);
      break;
  }
  clear_answers(commits);
  commits->in_flight = false;
  if (!commits->closing) pump(commits);
}

/* ------------------------------------------------------------------ the loop */

static void on_prepare(struct ev_loop *loop, ev_prepare *watcher, int events) {
  struct commits *commits = watcher->data;
  (void)events;
  ev_prepare_stop(loop, watcher);
  commits->prepare_active = false;
  pump(commits);
}

static void expire(struct commits *commits) {
  int64_t now = clock_monotonic_us();
  struct commit_item *item = detach_queue(commits);
  while (item) {
    struct commit_item *next = item->next;
    if (item->deadline_us > now) {
      push(commits, item);
    } else {
      answer(item, CONTROL_TIMED_OUT, "the request's time ran out", "");
    }
    item = next;
  }
}

static void on_tick(struct ev_loop *loop, ev_timer *timer, int events) {
  struct commits *commits = timer->data;
  (void)events;
  expire(commits);
  pump(commits);
  if (commits->queue == NULL) ev_timer_stop(loop, timer);
}

void commits_submit(struct commits *commits, struct commit_item *item) {
  item->not_before_us = 0;
  item->attempts = 0;
  item->alone = false;
  item->maybe_committed = false;
  push(commits, item);
  if (!commits->prepare_active) {
    commits->prepare_active = true;
    ev_prepare_start(commits->database->loop, &commits->prepare);
  }
}

static void on_state(struct db_connection *connection, void *owner, bool ready,
                     const char *reason) {
  struct commits *commits = owner;
  (void)connection;
  db_health_report(commits->database->health, commits->was_ready, ready, reason);
  commits->was_ready = ready;
  if (!commits->closing && !commits->in_flight) pump(commits);
}

/* ------------------------------------------------------------------ life */

static void register_metrics(struct commits *commits) {
  static const double sizes[] = {1, 2, 5, 10, 20, 50, 100, 200, 500};
  commits->group_items =
      metric_with(metric_histogram("pgcursus_commit_group_requests",
                                   "Offset commits that shared a transaction.", NULL, NULL, sizes,
                                   sizeof sizes / sizeof *sizes),
                  NULL, NULL);
  commits->retries_total =
      metric_with(metric_counter("pgcursus_commit_retries_total",
                                 "Offset commits sent to PostgreSQL again: their group was being "
                                 "rebalanced, or the transaction failed or got lost.",
                                 NULL, NULL),
                  NULL, NULL);
}

struct commits *commits_open(const struct database *database) {
  struct commits *commits = memory_allocate_zeroed(1, sizeof *commits);
  commits->database = database;
  commits->queue_tail = &commits->queue;
  commits->batch.on_result = on_result;
  commits->batch.on_done = on_done;
  commits->setup[0] = database->set_statement_timeout;
  commits->setup[1] = "SET default_transaction_isolation = 'read committed'";
  commits->setup[2] = DB_SETUP_PLANNER;
  register_metrics(commits);
  ev_prepare_init(&commits->prepare, on_prepare);
  ev_timer_init(&commits->tick, on_tick, 0., TICK_SECONDS);
  commits->prepare.data = commits->tick.data = commits;
  db_health_add_session(database->health);
  const struct db_connection_options connection_options = {
      .database = database,
      .setup = commits->setup,
      .statements = statements,
      .statement_count = sizeof statements / sizeof *statements,
      .answer_limit_ms = database_answer_limit_ms(database),
      .on_state = on_state,
      .owner = commits,
  };
  commits->connection = db_connection_open(&connection_options);
  return commits;
}

void commits_close(struct commits *commits) {
  commits->closing = true;
  ev_prepare_stop(commits->database->loop, &commits->prepare);
  ev_timer_stop(commits->database->loop, &commits->tick);
  fail_queue(commits, "the node is stopping");
  db_connection_close(commits->connection);
  fail_queue(commits, "the node is stopping");
  free(commits);
}
