/* Gathers questions while one query is in flight, then asks them all at once. Reads only. */
#include "log/committed.h"

#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "db/array.h"
#include "db/connection.h"
#include "db/database.h"
#include "db/health.h"

#define MAX_QUESTIONS 512u
#define TICK_SECONDS 0.1 /* looks at deadlines, while something queues */

struct committed {
  struct db_batch batch; /* first: callbacks get it */
  const struct database *database;
  struct db_connection *connection;
  bool was_ready;
  bool in_flight;
  bool closing;
  struct committed_request *queue;
  struct committed_request **queue_tail;
  struct committed_request *asked[MAX_QUESTIONS];
  int64_t answers[MAX_QUESTIONS];
  unsigned asked_count;
  bool is_answered;
  struct db_array groups, log_ids, partitions;
  struct db_parameter parameters[3];
  struct db_call call;
  ev_prepare prepare; /* gathers what arrived in this turn of the loop */
  ev_timer tick;
  bool prepare_active;
  const char *setup[4];
};

static const Oid types[] = {DB_TEXT_ARRAY, DB_INT8_ARRAY, DB_INT4_ARRAY};
static const struct db_statement statements[] = {
    {"committed_offsets", "SELECT * FROM pgcursus.committed_offsets($1,$2,$3)", 3, types},
};

static void push(struct committed *committed, struct committed_request *request) {
  request->next = NULL;
  *committed->queue_tail = request;
  committed->queue_tail = &request->next;
}

static struct committed_request *detach_queue(struct committed *committed) {
  struct committed_request *requests = committed->queue;
  committed->queue = NULL;
  committed->queue_tail = &committed->queue;
  return requests;
}

static void fail_queue(struct committed *committed, const char *reason) {
  struct committed_request *request = detach_queue(committed);
  while (request) {
    struct committed_request *next = request->next;
    request->on_done(request, COMMITTED_UNAVAILABLE, -1, reason);
    request = next;
  }
}

static void encode(struct committed *committed) {
  db_array_begin(&committed->groups, DB_TEXT);
  db_array_begin(&committed->log_ids, DB_INT8);
  db_array_begin(&committed->partitions, DB_INT4);
  committed->asked_count = 0;
  while (committed->queue && committed->asked_count < MAX_QUESTIONS) {
    struct committed_request *request = committed->queue;
    committed->queue = request->next;
    committed->asked[committed->asked_count++] = request;
    db_array_add_bytes(&committed->groups, request->group);
    db_array_add_int8(&committed->log_ids, request->log_id);
    db_array_add_int4(&committed->partitions, request->partition);
  }
  if (committed->queue == NULL) committed->queue_tail = &committed->queue;
  committed->parameters[0] = db_array_parameter(&committed->groups);
  committed->parameters[1] = db_array_parameter(&committed->log_ids);
  committed->parameters[2] = db_array_parameter(&committed->partitions);
  committed->call = (struct db_call){.statement = 0, .parameters = committed->parameters};
}

static void pump(struct committed *committed) {
  if (committed->in_flight || committed->queue == NULL) return;
  if (db_connection_can_send(committed->connection)) {
    encode(committed);
    committed->in_flight = true;
    committed->is_answered = false;
    db_connection_send(committed->connection, &committed->batch, &committed->call, 1);
  } else if (db_connection_state(committed->connection) == DB_DOWN) {
    fail_queue(committed, "PostgreSQL is not available");
  }
  if (committed->queue && !ev_is_active(&committed->tick)) {
    ev_timer_again(committed->database->loop, &committed->tick);
  }
}

static void on_result(struct db_batch *batch, unsigned call, const PGresult *result) {
  struct committed *committed = (struct committed *)batch;
  (void)call;
  if (PQntuples(result) != (int)committed->asked_count) return;
  committed->is_answered = true;
  for (unsigned i = 0; i < committed->asked_count; i++) {
    int row = (int)i;
    committed->answers[i] = db_is_null(result, row, 0) ? -1 : db_get_int8(result, row, 0);
  }
}

/* A question may be asked again, so a lost connection is nobody's answer. */
static void on_done(struct db_batch *batch, enum db_outcome outcome,
                    const struct db_failure *failure) {
  struct committed *committed = (struct committed *)batch;
  bool is_lost = (outcome == DB_UNKNOWN || outcome == DB_UNSENT) && !committed->closing;
  bool is_good = outcome == DB_COMMITTED && committed->is_answered;
  if (outcome == DB_REFUSED) {
    log_event(LOG_WARN, "PostgreSQL refused to tell committed offsets", "sqlstate",
              failure->sqlstate, "message", failure->message, NULL);
  }
  bool is_final = outcome == DB_REFUSED && (strncmp(failure->sqlstate, "22", 2) == 0 ||
                                            strncmp(failure->sqlstate, "42", 2) == 0);
  enum committed_status status = is_good    ? COMMITTED_OK
                                 : is_final ? COMMITTED_FAILED
                                            : COMMITTED_UNAVAILABLE;
  for (unsigned i = 0; i < committed->asked_count; i++) {
    struct committed_request *request = committed->asked[i];
    if (is_lost) {
      push(committed, request);
    } else {
      request->on_done(request, status, is_good ? committed->answers[i] : -1,
                       is_good   ? ""
                       : failure ? failure->message
                                 : "no answer");
    }
  }
  committed->asked_count = 0;
  committed->in_flight = false;
  if (!committed->closing) pump(committed);
}

static void on_prepare(struct ev_loop *loop, ev_prepare *watcher, int events) {
  struct committed *committed = watcher->data;
  (void)events;
  ev_prepare_stop(loop, watcher);
  committed->prepare_active = false;
  pump(committed);
}

static void on_tick(struct ev_loop *loop, ev_timer *timer, int events) {
  struct committed *committed = timer->data;
  (void)events;
  int64_t now = clock_monotonic_us();
  struct committed_request *request = detach_queue(committed);
  while (request) {
    struct committed_request *next = request->next;
    if (request->deadline_us > now) {
      push(committed, request);
    } else {
      request->on_done(request, COMMITTED_TIMED_OUT, -1, "the request's time ran out");
    }
    request = next;
  }
  pump(committed);
  if (committed->queue == NULL) ev_timer_stop(loop, timer);
}

void committed_submit(struct committed *committed, struct committed_request *request) {
  push(committed, request);
  if (!committed->prepare_active) {
    committed->prepare_active = true;
    ev_prepare_start(committed->database->loop, &committed->prepare);
  }
}

static void on_state(struct db_connection *connection, void *owner, bool ready,
                     const char *reason) {
  struct committed *committed = owner;
  (void)connection;
  db_health_report(committed->database->health, committed->was_ready, ready, reason);
  committed->was_ready = ready;
  if (!committed->closing) pump(committed);
}

struct committed *committed_open(const struct database *database) {
  struct committed *committed = memory_allocate_zeroed(1, sizeof *committed);
  committed->database = database;
  committed->queue_tail = &committed->queue;
  committed->batch.on_result = on_result;
  committed->batch.on_done = on_done;
  committed->setup[0] = database->set_statement_timeout;
  committed->setup[1] = "SET default_transaction_isolation = 'read committed'";
  committed->setup[2] = DB_SETUP_PLANNER;
  ev_prepare_init(&committed->prepare, on_prepare);
  ev_timer_init(&committed->tick, on_tick, 0., TICK_SECONDS);
  committed->prepare.data = committed->tick.data = committed;
  db_health_add_session(database->health);
  const struct db_connection_options connection_options = {
      .database = database,
      .setup = committed->setup,
      .statements = statements,
      .statement_count = sizeof statements / sizeof *statements,
      .answer_limit_ms = database_answer_limit_ms(database),
      .on_state = on_state,
      .owner = committed,
  };
  committed->connection = db_connection_open(&connection_options);
  return committed;
}

void committed_close(struct committed *committed) {
  committed->closing = true;
  ev_prepare_stop(committed->database->loop, &committed->prepare);
  ev_timer_stop(committed->database->loop, &committed->tick);
  fail_queue(committed, "the node is stopping");
  db_connection_close(committed->connection);
  db_array_release(&committed->groups);
  db_array_release(&committed->log_ids);
  db_array_release(&committed->partitions);
  free(committed);
}
