/* Collects what was appended and sends it in turns of a few milliseconds. Owns its session; must
 * never hold up an append or keep what cannot be sent. */
#include "log/announce.h"

#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <uthash.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "base/turn.h"
#include "db/connection.h"
#include "db/database.h"
#include "db/values.h"
#include "log/announcement.h"
#include "log/wake.h"

#define INTERVAL_US 2000
#define ANSWER_LIMIT_MS 5000
#define MAX_PAYLOADS 16u  /* in one transaction; the rest follows in the next */
#define MAX_CONTROL 1000u /* payloads waiting */

/* Nothing is lost when the server is: a notification is only a hint. Not waiting for the disk keeps
 * the lock that NOTIFY takes short. */
static const char *const setup[] = {"SET synchronous_commit = off", "SET jit = off",
                                    "SET statement_timeout = '3s'", DB_SETUP_CONTACT_SINCE, NULL};

static const Oid notify_types[] = {DB_TEXT, DB_TEXT};
static const struct db_statement statements[] = {
    {"notify", "SELECT pg_notify($1, $2)", 2, notify_types}};

struct end_key {
  int64_t log_id;
  int64_t partition;
};

struct pending_end {
  struct end_key key;
  int64_t end_offset;
  UT_hash_handle hh;
};

struct control_payload {
  char *text;
  struct control_payload *next;
};

struct payload {
  char text[ANNOUNCEMENT_SIZE];
  struct db_parameter parameters[2];
};

struct announce {
  struct db_batch batch; /* first */
  struct announce_options options;
  struct db_connection *connection;
  char sender[20]; /* this session of this node */
  struct pending_end *pending;
  struct control_payload *control; /* waiting, in order */
  unsigned control_count;
  struct payload *payloads; /* MAX_PAYLOADS, in flight */
  struct db_call calls[MAX_PAYLOADS];
  bool in_flight;
  int64_t sent_at_us;
  ev_timer timer;
  struct turn turn;
  struct metric_series *sent_total;
};

static bool can_send(const struct announce *announce) {
  return db_connection_can_send(announce->connection) &&
         announce->options.has_listeners(announce->options.owner);
}

/* ------------------------------------------------------------------ sending */

static void add_payload(struct announce *announce, unsigned index, const char *channel) {
  struct payload *payload = &announce->payloads[index];
  payload->parameters[0] = db_bytes(slice_text(channel));
  payload->parameters[1] = db_bytes(slice_text(payload->text));
  announce->calls[index] = (struct db_call){.statement = 0, .parameters = payload->parameters};
}

static unsigned take_control(struct announce *announce) {
  unsigned count = 0;
  while (announce->control && count < MAX_PAYLOADS / 2) {
    struct control_payload *first = announce->control;
    LL_DELETE(announce->control, first);
    announce->control_count--;
    snprintf(announce->payloads[count].text, ANNOUNCEMENT_SIZE, "%s", first->text);
    free(first->text);
    free(first);
    add_payload(announce, count++, ANNOUNCE_CONTROL_CHANNEL);
  }
  return count;
}

static struct partition_end *list_pending(const struct announce *announce, size_t *count) {
  *count = HASH_COUNT(announce->pending);
  if (*count == 0) return NULL;
  struct partition_end *ends = memory_allocate(*count * sizeof *ends);
  struct partition_end *end = ends;
  for (struct pending_end *p = announce->pending; p; p = p->hh.next) {
    *end++ = (struct partition_end){.log_id = p->key.log_id,
                                    .partition = (int32_t)p->key.partition,
                                    .end_offset = p->end_offset};
  }
  qsort(ends, *count, sizeof *ends, partition_end_compare);
  return ends;
}

static void forget(struct announce *announce, const struct partition_end *end) {
  struct end_key key = {.log_id = end->log_id, .partition = end->partition};
  struct pending_end *found;
  HASH_FIND(hh, announce->pending, &key, sizeof key, found);
  if (found == NULL) return;
  HASH_DEL(announce->pending, found);
  free(found);
}

static unsigned take_ends(struct announce *announce, unsigned used) {
  size_t count, done = 0;
  struct partition_end *ends = list_pending(announce, &count);
  while (done < count && used < MAX_PAYLOADS) {
    size_t taken = announcement_encode(announce->sender, ends + done, count - done,
                                       announce->payloads[used].text);
    for (size_t i = 0; i < taken; i++) forget(announce, &ends[done + i]);
    done += taken;
    add_payload(announce, used++, ANNOUNCE_APPEND_CHANNEL);
  }
  free(ends);
  return used;
}

static void send(struct announce *announce) {
  unsigned count = take_ends(announce, take_control(announce));
  if (count == 0) return;
  announce->in_flight = true;
  announce->sent_at_us = clock_monotonic_us();
  metric_add(announce->sent_total, count);
  db_connection_send(announce->connection, &announce->batch, announce->calls, count);
}

static void drop_pending(struct announce *announce) {
  struct pending_end *pending, *next;
  HASH_ITER(hh, announce->pending, pending, next) {
    HASH_DEL(announce->pending, pending);
    free(pending);
  }
  while (announce->control) {
    struct control_payload *first = announce->control;
    LL_DELETE(announce->control, first);
    free(first->text);
    free(first);
  }
  announce->control_count = 0;
}

static bool has_pending(const struct announce *announce) {
  return announce->pending || announce->control;
}

/* Sends at once after a pause, else when INTERVAL_US have passed and the last answer is there. */
static void pump(struct announce *announce) {
  if (!has_pending(announce) || announce->in_flight) return;
  if (!can_send(announce)) {
    drop_pending(announce);
    return;
  }
  int64_t wait_us = announce->sent_at_us + INTERVAL_US - clock_monotonic_us();
  if (wait_us <= 0) {
    send(announce);
  } else if (!ev_is_active(&announce->timer)) {
    ev_timer_set(&announce->timer, (double)wait_us / 1e6, 0.);
    ev_timer_start(announce->options.database->loop, &announce->timer);
  }
}

static void on_turn_end(void *owner) {
  pump(owner);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events) {
  (void)loop;
  (void)events;
  pump(timer->data);
}

static void on_done(struct db_batch *batch, enum db_outcome outcome,
                    const struct db_failure *failure) {
  struct announce *announce = (struct announce *)batch;
  (void)outcome;
  (void)failure;
  announce->in_flight = false;
  pump(announce);
}

/* ------------------------------------------------------------------ what is announced */

void announce_end(struct announce *announce, int64_t log_id, int32_t partition,
                  int64_t end_offset) {
  wake_signal(announce->options.wake, log_id, partition, end_offset);
  if (!can_send(announce)) return;
  struct end_key key = {.log_id = log_id, .partition = partition};
  struct pending_end *pending;
  HASH_FIND(hh, announce->pending, &key, sizeof key, pending);
  if (pending == NULL) {
    pending = memory_allocate_zeroed(1, sizeof *pending);
    pending->key = key;
    HASH_ADD(hh, announce->pending, key, sizeof pending->key, pending);
  }
  if (pending->end_offset < end_offset) pending->end_offset = end_offset;
  turn_request(&announce->turn);
}

bool announce_control(struct announce *announce, const char *text) {
  if (!can_send(announce) || announce->control_count >= MAX_CONTROL ||
      strlen(text) >= ANNOUNCEMENT_SIZE) {
    return false;
  }
  struct control_payload *payload = memory_allocate_zeroed(1, sizeof *payload);
  payload->text = memory_copy_text(text);
  LL_APPEND(announce->control, payload);
  announce->control_count++;
  turn_request(&announce->turn);
  return true;
}

const char *announce_sender(const struct announce *announce) {
  return announce->sender;
}

static void wake_end(void *context, const struct partition_end *end) {
  struct announce *announce = context;
  wake_signal(announce->options.wake, end->log_id, end->partition, end->end_offset);
}

void announce_receive(struct announce *announce, const char *payload) {
  if (!announcement_decode(payload, announce->sender, wake_end, announce)) {
    log_event(LOG_DEBUG, "a notification is malformed", "channel", ANNOUNCE_APPEND_CHANNEL, NULL);
  }
}

/* ------------------------------------------------------------------ life */

static void on_state(struct db_connection *connection, void *owner, bool ready,
                     const char *reason) {
  (void)connection;
  (void)owner;
  (void)ready;
  (void)reason;
}

static void choose_sender(struct announce *announce) {
  uint64_t number;
  if (getrandom(&number, sizeof number, 0) != sizeof number) {
    number = (uint64_t)clock_monotonic_us();
  }
  snprintf(announce->sender, sizeof announce->sender, "%llx", (unsigned long long)number);
}

struct announce *announce_open(const struct announce_options *options) {
  struct announce *announce = memory_allocate_zeroed(1, sizeof *announce);
  announce->options = *options;
  announce->batch.on_done = on_done;
  announce->payloads = memory_allocate_zeroed(MAX_PAYLOADS, sizeof *announce->payloads);
  announce->sent_total = metric_with(
      metric_counter("pgcursus_announcements_total",
                     "Notifications sent to other nodes about appended records.", NULL, NULL),
      NULL, NULL);
  choose_sender(announce);
  turn_init(&announce->turn, options->database->loop, on_turn_end, announce);
  ev_timer_init(&announce->timer, on_timer, 0., 0.);
  announce->timer.data = announce;
  const struct db_connection_options connection_options = {
      .database = options->database,
      .setup = setup,
      .statements = statements,
      .statement_count = 1,
      .answer_limit_ms = ANSWER_LIMIT_MS,
      .on_state = on_state,
      .owner = announce,
  };
  announce->connection = db_connection_open(&connection_options);
  return announce;
}

void announce_close(struct announce *announce) {
  turn_stop(&announce->turn);
  ev_timer_stop(announce->options.database->loop, &announce->timer);
  drop_pending(announce);

  db_connection_close(announce->connection);
  free(announce->payloads);
  free(announce);
}
