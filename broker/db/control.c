/* Runs control-plane calls on a few SERIALIZABLE sessions. Knows statements as numbers, not what
 * they mean. */
#include "db/control.h"

#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "base/turn.h"
#include "db/control_batch.h"
#include "db/database.h"
#include "db/health.h"

#define RETRY_FIRST_US 1000
#define RETRY_MAX_US 100000
#define TICK_SECONDS 0.05

struct session {
  struct db_batch batch; /* first: callbacks get it */
  struct control *control;
  struct db_connection *connection;
  struct control_batch running; /* empty: idle */
  struct db_batch isolation_batch;
  struct db_call isolation_call;
  bool is_read_committed; /* at the moment */
  bool was_ready;
};

struct control {
  struct control_options options;
  struct session *sessions;
  struct control_call *queue;
  struct control_call **queue_tail; /* in the order of arrival */
  uint64_t arrivals;
  struct turn turn;
  ev_timer tick; /* deadlines and delayed retries, while anything queues */
  bool closing;
  char setup_lock_timeout[64];
  const char *setup[6];
  struct metric_series *retries_total;
};

static void push(struct control *control, struct control_call *call) {
  call->next = NULL;
  *control->queue_tail = call;
  control->queue_tail = &call->next;
}

/* Where it was: before all that came after it. Who is tried again at the end of the queue each time
 * waits without end where many want the same. */
static void put_back(struct control *control, struct control_call *call) {
  struct control_call **place = &control->queue;
  while (*place && (*place)->arrival < call->arrival) place = &(*place)->next;
  call->next = *place;
  *place = call;
  if (call->next == NULL) control->queue_tail = &call->next;
}

static void finish(struct control_call *call, enum control_status status, const char *code,
                   const char *detail) {
  PGresult *rows = call->rows;
  call->rows = NULL;
  const struct control_result result = {
      .status = status, .rows = rows, .code = code ? code : "", .detail = detail ? detail : ""};
  call->on_done(call, &result);
  PQclear(rows);
}

static bool key_is_running(const struct control *control, uint64_t key) {
  for (unsigned i = 0; key != 0 && i < control->options.connections; i++) {
    const struct control_batch *running = &control->sessions[i].running;
    for (unsigned j = 0; j < running->count; j++) {
      if (running->members[j]->exclusive_key == key) return true;
    }
  }
  return false;
}

/* Takes the first call that may start now, or the first of those that may share a transaction. */
static struct control_call *take_next(struct control *control, int64_t now, bool sharing) {
  for (struct control_call **place = &control->queue; *place; place = &(*place)->next) {
    struct control_call *call = *place;
    if (call->not_before_us > now || (sharing && !control_batch_takes(call))) continue;
    if (now != INT64_MAX && key_is_running(control, call->exclusive_key)) continue;
    *place = call->next;
    if (control->queue_tail == &call->next) control->queue_tail = place;
    return call;
  }
  return NULL;
}

static bool everything_is_down(const struct control *control) {
  for (unsigned i = 0; i < control->options.connections; i++) {
    if (db_connection_state(control->sessions[i].connection) != DB_DOWN) return false;
  }
  return true;
}

/* A failure shows in the call behind it. */
static void on_isolation_done(struct db_batch *batch, enum db_outcome outcome,
                              const struct db_failure *failure) {
  (void)batch;
  (void)outcome;
  (void)failure;
}

/* A batch of its own, as the level must be chosen before the call's transaction begins. */
static void choose_isolation(struct session *session, bool read_committed) {
  if (session->is_read_committed == read_committed) return;
  session->is_read_committed = read_committed;
  session->isolation_call.statement =
      read_committed ? CONTROL_SET_READ_COMMITTED : CONTROL_SET_SERIALIZABLE;
  db_connection_send(session->connection, &session->isolation_batch, &session->isolation_call, 1);
}

/* False when nothing may start now. */
static bool choose_batch(struct control *control, struct control_batch *batch, int64_t now) {
  struct control_call *call = take_next(control, now, false);
  if (call == NULL) return false;
  control_batch_add(batch, call);
  if (!control_batch_takes(call)) return true;
  while (batch->count < CONTROL_BATCH_MAX && (call = take_next(control, now, true)) != NULL) {
    control_batch_add(batch, call);
  }
  return true;
}

/* Calls that share a transaction all run at READ COMMITTED. */
static void start(struct session *session) {
  struct control_batch *batch = &session->running;
  choose_isolation(session, control_runs_read_committed[batch->members[0]->statement]);
  if (!db_connection_can_send(session->connection)) { /* it turns out to be broken */
    for (unsigned i = 0; i < batch->count; i++) put_back(session->control, batch->members[i]);
    batch->count = 0;
    return;
  }
  for (unsigned i = 0; i < batch->count; i++) batch->members[i]->attempts++;
  control_batch_encode(batch);
  db_connection_send(session->connection, &session->batch, batch->calls, batch->call_count);
}

static void pump(struct control *control) {
  if (control->queue == NULL) return;
  int64_t now = clock_monotonic_us();
  for (unsigned i = 0; i < control->options.connections; i++) {
    struct session *session = &control->sessions[i];
    if (session->running.count || !db_connection_can_send(session->connection)) continue;
    if (!choose_batch(control, &session->running, now)) break;
    start(session);
  }
  struct control_call *call;
  if (everything_is_down(control)) {
    while ((call = take_next(control, INT64_MAX, false)) != NULL) {
      finish(call, CONTROL_UNAVAILABLE, "PostgreSQL is not available", NULL);
    }
  }
  if (control->queue && !ev_is_active(&control->tick)) {
    ev_timer_again(control->options.database->loop, &control->tick);
  }
}

/* ------------------------------------------------------------------ outcomes */

/* Another transaction was in the way, or for too long (a function may set a lock_timeout, so that
 * what it holds itself is free again while it waits for its next attempt). */
static bool is_conflict(const char *sqlstate) {
  return strcmp(sqlstate, "40001") == 0 || strcmp(sqlstate, "40P01") == 0 ||
         strcmp(sqlstate, "55P03") == 0;
}

static bool is_transient(const char *sqlstate) {
  return strncmp(sqlstate, "08", 2) == 0 || strncmp(sqlstate, "53", 2) == 0 ||
         strncmp(sqlstate, "55", 2) == 0 || strncmp(sqlstate, "57", 2) == 0 ||
         strncmp(sqlstate, "58", 2) == 0 || strcmp(sqlstate, "25006") == 0;
}

static void retry_later(struct control *control, struct control_call *call) {
  int64_t delay = (int64_t)RETRY_FIRST_US << (call->attempts < 7 ? call->attempts : 7);
  if (delay > RETRY_MAX_US) delay = RETRY_MAX_US;
  call->not_before_us = clock_monotonic_us() + (int64_t)((double)delay * (0.5 + drand48() / 2));
  metric_add(control->retries_total, 1);
  put_back(control, call);
}

static void refused(struct control *control, struct control_call *call,
                    const struct db_failure *failure) {
  if (strcmp(failure->sqlstate, "PC001") == 0) {
    finish(call, CONTROL_REFUSED, failure->message, failure->detail);
  } else if (is_conflict(failure->sqlstate)) {
    if (clock_monotonic_us() < call->deadline_us && !control->closing) {
      retry_later(control, call);
    } else {
      finish(call, CONTROL_TIMED_OUT, "other transactions were in the way for too long", NULL);
    }
  } else if (is_transient(failure->sqlstate)) {
    finish(call, CONTROL_UNAVAILABLE, failure->message, NULL);
  } else {
    log_event(LOG_ERROR, "PostgreSQL refused a control-plane call", "statement",
              control_statements[call->statement].name, "sqlstate", failure->sqlstate, "reason",
              failure->message, NULL);
    finish(call, CONTROL_FAILED, failure->message, NULL);
  }
}

static void on_result(struct db_batch *batch, unsigned index, const PGresult *result) {
  struct session *session = (struct session *)batch;
  struct control_call *call = control_batch_member(&session->running, index);
  if (call == NULL) return;
  PQclear(call->rows);
  call->rows = PQcopyResult(result, PG_COPYRES_ATTRS | PG_COPYRES_TUPLES);
}

static void conclude(struct control *control, struct control_call *call, enum db_outcome outcome,
                     const struct db_failure *failure) {
  if (outcome != DB_COMMITTED) {
    PQclear(call->rows);
    call->rows = NULL;
  }
  switch (outcome) {
    case DB_COMMITTED:
      finish(call, CONTROL_OK, NULL, NULL);
      break;
    case DB_REFUSED:
      refused(control, call, failure);
      break;
    case DB_UNKNOWN:
      if (call->is_read_only && !control->closing) {
        put_back(control, call);
      } else {
        finish(call, CONTROL_UNKNOWN, failure->message, NULL);
      }
      break;
    case DB_UNSENT:
      finish(call, CONTROL_UNAVAILABLE, failure->message, NULL);
      break;
  }
}

/* What refused one call has undone the others: each goes again, in a transaction of its own. */
static void separate(struct control *control, const struct control_batch *batch) {
  for (unsigned i = 0; i < batch->count; i++) {
    struct control_call *call = batch->members[i];
    PQclear(call->rows);
    call->rows = NULL;
    call->runs_alone = true;
    put_back(control, call);
  }
}

static void on_done(struct db_batch *batch, enum db_outcome outcome,
                    const struct db_failure *failure) {
  struct session *session = (struct session *)batch;
  struct control *control = session->control;
  struct control_batch done = session->running;
  session->running.count = 0;
  if (outcome == DB_REFUSED && done.count > 1 && !control->closing) {
    separate(control, &done);
  } else {
    for (unsigned i = 0; i < done.count; i++) conclude(control, done.members[i], outcome, failure);
  }
  if (!control->closing) pump(control);
}

/* ------------------------------------------------------------------ the loop */

static void on_turn_end(void *owner) {
  pump(owner);
}

static void expire(struct control *control, int64_t now) {
  struct control_call **place = &control->queue;
  struct control_call *expired = NULL;
  while (*place) {
    struct control_call *call = *place;
    if (call->deadline_us > now) {
      place = &call->next;
      continue;
    }
    *place = call->next;
    call->next = expired;
    expired = call;
  }
  control->queue_tail = place;
  while (expired) {
    struct control_call *next = expired->next;
    finish(expired, CONTROL_TIMED_OUT, "the request's time ran out", NULL);
    expired = next;
  }
}

static void on_tick(struct ev_loop *loop, ev_timer *timer, int events) {
  struct control *control = timer->data;
  (void)events;
  expire(control, clock_monotonic_us());
  pump(control);
  if (control->queue == NULL) ev_timer_stop(loop, timer);
}

void control_submit(struct control *control, struct control_call *call) {
  call->rows = NULL;
  call->attempts = 0;
  call->not_before_us = 0;
  call->runs_alone = false;
  call->arrival = control->arrivals++;
  push(control, call);
  turn_request(&control->turn);
}

static void on_state(struct db_connection *connection, void *owner, bool ready,
                     const char *reason) {
  struct session *session = owner;
  (void)connection;
  db_health_report(session->control->options.database->health, session->was_ready, ready, reason);
  session->was_ready = ready;
  session->is_read_committed = false;
  if (!session->control->closing) pump(session->control);
}

static void open_session(struct control *control, struct session *session) {
  const struct control_options *options = &control->options;
  session->control = control;
  session->batch.on_result = on_result;
  session->batch.on_done = on_done;
  session->isolation_batch.on_done = on_isolation_done;
  db_health_add_session(options->database->health);
  const struct db_connection_options connection_options = {
      .database = options->database,
      .setup = control->setup,
      .statements = control_statements,
      .statement_count = CONTROL_STATEMENT_COUNT,
      .answer_limit_ms = database_answer_limit_ms(options->database),
      .on_state = on_state,
      .owner = session,
  };
  session->connection = db_connection_open(&connection_options);
}

struct control *control_open(const struct control_options *options) {
  struct control *control = memory_allocate_zeroed(1, sizeof *control);
  control->options = *options;
  control->queue_tail = &control->queue;
  control->setup[0] = options->database->set_statement_timeout;
  snprintf(control->setup_lock_timeout, sizeof control->setup_lock_timeout,
           "SET lock_timeout = %lld", (long long)options->lock_timeout_ms);
  control->setup[1] = options->reads_only
                          ? "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE "
                            "READ, READ ONLY"
                          : "SET default_transaction_isolation = 'serializable'";
  control->setup[2] = DB_SETUP_PLANNER;
  control->setup[3] = control->setup_lock_timeout;
  control->setup[4] = DB_SETUP_CONTACT_SINCE;
  control->retries_total = metric_with(
      metric_counter("pgcursus_control_retries_total",
                     "Control-plane transactions repeated after a conflict.", NULL, NULL),
      NULL, NULL);
  turn_init(&control->turn, options->database->loop, on_turn_end, control);
  ev_timer_init(&control->tick, on_tick, 0., TICK_SECONDS);
  control->tick.data = control;
  control->sessions = memory_allocate_zeroed(options->connections, sizeof *control->sessions);
  /* All sessions must exist before the first can report a change. */
  for (unsigned i = 0; i < options->connections; i++) open_session(control, &control->sessions[i]);
  return control;
}

void control_close(struct control *control) {
  control->closing = true;
  turn_stop(&control->turn);
  ev_timer_stop(control->options.database->loop, &control->tick);
  struct control_call *call;
  while ((call = take_next(control, INT64_MAX, false)) != NULL) {
    finish(call, CONTROL_UNAVAILABLE, "the node is stopping", NULL);
  }
  for (unsigned i = 0; i < control->options.connections; i++) {
    db_connection_close(control->sessions[i].connection);
    control_batch_release(&control->sessions[i].running);
  }
  free(control->sessions);
  free(control);
}
