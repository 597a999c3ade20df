/* Owns a PGconn, its watchers and the queue of batches in flight. Knows nothing of what statements
 * mean.
 *
 * A connection is in exactly one state, and set_state() is the one place that changes it. The
 * PGconn is touched by one thread at a time: by the loop, except while a worker has it (connecting,
 * or DB_BULK). */
#include "db/connection.h"

#include <assert.h>
#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "base/worker.h"
#include "db/batch.h"
#include "db/bulk.h"
#include "db/connect.h"
#include "db/database.h"
#include "db/primary.h"

/* Parameters of a batch above this many bytes are sent by a worker. */
#define BULK_PARAMETER_BYTES (1u << 20)

/* A result of which more than this has arrived without being whole is received by a worker. Up to
 * here libpq reads once and returns; above it reads on for as long as the server sends. */
#define BULK_RESULT_BYTES (32u << 10)

/* libpq's buffers grow to the largest message and never shrink; above this a connection is replaced
 * when it is next idle. */
#define BLOATED_MESSAGE_BYTES (8u << 20)

#define RETRY_FIRST_MS 50

struct db_connection {
  struct db_connection_options options;
  enum db_connection_state state;
  PGconn *pg;
  ev_io read_watcher;
  ev_io write_watcher;
  ev_timer retry_timer;
  ev_timer answer_timer;
  ev_idle deferred; /* reports batches that ended inside db_connection_send() */
  int64_t retry_delay_ms;
  struct db_batch *head; /* in flight, oldest first */
  struct db_batch **tail;
  unsigned in_flight;
  size_t largest_message;
  bool is_failing; /* about to be lost: nothing more is sent */
  bool close_requested;
  bool dispatching; /* inside a callback loop: closing must wait for its end */
  struct db_connect connect;
  struct db_server_identity server;
  struct primary_follower follower;
  size_t unparsed; /* bytes that have arrived since the last whole result */
  struct db_bulk bulk;
  char **setup; /* ended by NULL */
  struct db_statement *statements;
  Oid *parameter_types; /* of all statements */
  struct metric_series *statements_total;
};

static void start_connecting(struct db_connection *connection, PGconn *lost);
static void finish_closing(struct db_connection *connection, bool worker_has_it);
static void free_connection(struct db_connection *connection);
static void lose_connection(struct db_connection *connection, const char *reason);

static void set_state(struct db_connection *connection, enum db_connection_state state) {
  switch (state) {
    case DB_CONNECTING:
      assert(connection->state == DB_READY || connection->state == DB_CONNECTING);
      break;
    case DB_READY:
      assert(connection->state == DB_CONNECTING || connection->state == DB_DOWN ||
             connection->state == DB_BULK);
      break;
    case DB_BULK:
      assert(connection->state == DB_READY);
      break;
    case DB_DOWN:
      assert(connection->state == DB_CONNECTING || connection->state == DB_DOWN);
      break;
    case DB_CLOSED:
      break;
  }
  connection->state = state;
}

enum db_connection_state db_connection_state(const struct db_connection *connection) {
  return connection->state;
}

bool db_connection_can_send(const struct db_connection *connection) {
  return connection->state == DB_READY && !connection->is_failing;
}

unsigned db_connection_in_flight(const struct db_connection *connection) {
  return connection->in_flight;
}

/* ------------------------------------------------------------------ batches */

static void enqueue_batch(struct db_connection *connection, struct db_batch *batch,
                          unsigned count) {
  db_batch_begin(batch, count);
  *connection->tail = batch;
  connection->tail = &batch->next;
  connection->in_flight++;
}

static struct db_batch *dequeue_batch(struct db_connection *connection) {
  struct db_batch *batch = connection->head;
  connection->head = batch->next;
  if (connection->head == NULL) connection->tail = &connection->head;
  connection->in_flight--;
  return batch;
}

/* ------------------------------------------------------------------ watching the socket */

static void watch_socket(struct db_connection *connection) {
  int socket = PQsocket(connection->pg);
  ev_io_set(&connection->read_watcher, socket, EV_READ);
  ev_io_set(&connection->write_watcher, socket, EV_WRITE);
  ev_io_start(connection->options.database->loop, &connection->read_watcher);
}

static void unwatch_socket(struct db_connection *connection) {
  ev_io_stop(connection->options.database->loop, &connection->read_watcher);
  ev_io_stop(connection->options.database->loop, &connection->write_watcher);
}

static void restart_answer_timer(struct db_connection *connection) {
  ev_timer_stop(connection->options.database->loop, &connection->answer_timer);
  if (connection->head == NULL) return;
  ev_timer_set(&connection->answer_timer, (double)connection->options.answer_limit_ms / 1000.0, 0.);
  ev_timer_start(connection->options.database->loop, &connection->answer_timer);
}

/* False when the connection is broken. */
static bool flush_output(struct db_connection *connection) {
  int pending = PQflush(connection->pg);
  if (pending < 0) return false;
  if (pending > 0) {
    ev_io_start(connection->options.database->loop, &connection->write_watcher);
  } else {
    ev_io_stop(connection->options.database->loop, &connection->write_watcher);
  }
  return true;
}

/* Takes the results that have arrived. False when the connection is broken. */
static bool drain_results(struct db_connection *connection) {
  while (connection->head != NULL && !PQisBusy(connection->pg)) {
    struct db_batch *batch = connection->head;
    PGresult *result = PQgetResult(connection->pg);
    if (result == NULL) { /* the end of one statement's results */
      if (batch->answered < batch->call_count) batch->answered++;
      if (PQstatus(connection->pg) == CONNECTION_BAD) return false;
      continue;
    }
    connection->unparsed = 0;
    if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
      PQclear(result);
      bool is_last = db_batch_ends_session(batch);
      dequeue_batch(connection);
      restart_answer_timer(connection);
      if (is_last) connection->is_failing = true; /* the callback must send nothing new */
      db_batch_complete(batch);
      if (is_last) return false;
      if (connection->state != DB_READY) return true; /* the callback's batch has it now */
      continue;
    }
    db_batch_take(batch, result);
    PQclear(result);
    if (PQstatus(connection->pg) == CONNECTION_BAD) return false;
  }
  return true;
}

static void drain_notifications(struct db_connection *connection) {
  PGnotify *notification;
  while ((notification = PQnotifies(connection->pg)) != NULL) {
    if (connection->options.on_notify) {
      connection->options.on_notify(connection->options.owner, notification->relname,
                                    notification->extra);
    }
    PQfreemem(notification);
  }
}

/* Ends a turn in which callbacks may have asked for anything. */
static void end_dispatch(struct db_connection *connection, bool healthy) {
  connection->dispatching = false;
  if (connection->close_requested) {
    connection->close_requested = false;
    db_connection_close(connection);
  } else if (!healthy && connection->pg != NULL) {
    const char *message = PQerrorMessage(connection->pg);
    lose_connection(connection, message && *message ? message : "the session ended");
  } else if (connection->largest_message > BLOATED_MESSAGE_BYTES && connection->head == NULL &&
             connection->state == DB_READY) {
    lose_connection(connection, NULL);
  }
}

static void on_writable(struct ev_loop *loop, ev_io *watcher, int events) {
  struct db_connection *connection = watcher->data;
  (void)loop;
  (void)events;
  if (!flush_output(connection)) lose_connection(connection, PQerrorMessage(connection->pg));
}

static void on_answer_overdue(struct ev_loop *loop, ev_timer *timer, int events) {
  struct db_connection *connection = timer->data;
  (void)loop;
  (void)events;
  if (connection->state == DB_READY)
    lose_connection(connection, "PostgreSQL gave no answer in time");
}

/* A synchronous commit whose wait was cancelled reports success with a warning: the record is on
 * the primary but perhaps nowhere else, so it must not be acknowledged as replicated. The warning
 * has no code of its own and its text is translated; where it comes from tells it. */
static bool is_cancelled_wait(const PGresult *notice) {
  const char *function = PQresultErrorField(notice, PG_DIAG_SOURCE_FUNCTION);
  return function != NULL && strcmp(function, "SyncRepWaitForLSN") == 0;
}

static void on_notice(void *argument, const PGresult *result) {
  struct db_connection *connection = argument;
  const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  if (sqlstate == NULL) return;
  if (connection->head != NULL && is_cancelled_wait(result)) {
    connection->head->wait_was_cancelled = true;
  } else if (strncmp(sqlstate, "00", 2) != 0) {
    log_event(LOG_WARN, "PostgreSQL warns", "session",
              connection->options.database->application_name, "sqlstate", sqlstate, "reason",
              PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY), NULL);
  }
}

/* ------------------------------------------------------------------ large batches, on a worker */

/* The callback may send, and so lend the session again: nothing of the last loan is looked at after
 * it. */
static void report_bulk(struct db_connection *connection, struct db_batch *batch, bool is_broken,
                        bool was_refused) {
  if (!is_broken) {
    connection->is_failing = db_batch_ends_session(batch);
    db_batch_complete(batch);
  } else if (was_refused) {
    db_batch_complete(batch); /* a call failed before PostgreSQL closed: nothing was committed */
  } else {
    /* An error after the last call with which the session ends may have come after the commit. */
    db_batch_lose(batch, "the connection to PostgreSQL was lost");
  }
}

/* Gives the results to their batch; true when PostgreSQL reported that a call failed. */
static bool take_bulk_results(struct db_connection *connection, struct db_batch *batch) {
  struct db_bulk *bulk = &connection->bulk;
  for (batch->answered = 0; batch->answered < bulk->count; batch->answered++) {
    PGresult *result = bulk->results[batch->answered];
    if (result) db_batch_take(batch, result);
    PQclear(result);
  }
  bool was_refused = batch->failed && strncmp(batch->failure.sqlstate, "08", 2) != 0 &&
                     strcmp(batch->failure.sqlstate, "00000") != 0;
  if (bulk->sync_result) db_batch_take_error(batch, bulk->sync_result);
  PQclear(bulk->sync_result);
  free(bulk->results);
  return was_refused;
}

static struct db_connection *connection_of_job(struct worker_job *job) {
  return (struct db_connection *)((char *)job - offsetof(struct db_connection, bulk));
}

static void bulk_done(struct worker_job *job) {
  struct db_connection *connection = connection_of_job(job);
  struct db_bulk *bulk = &connection->bulk;
  struct db_batch *batch = bulk->batch;
  set_state(connection, DB_READY);
  connection->dispatching = true;
  connection->unparsed = 0;
  if (bulk->largest_row > connection->largest_message) {
    connection->largest_message = bulk->largest_row;
  }
  bool is_broken = bulk->is_broken;
  bool was_refused = take_bulk_results(connection, batch);
  dequeue_batch(connection);
  connection->is_failing = is_broken; /* callbacks must send nothing on it */
  if (!is_broken) watch_socket(connection);
  report_bulk(connection, batch, is_broken, was_refused);
  bool healthy = !is_broken && !connection->is_failing;
  if (healthy && connection->state == DB_READY) {
    /* The worker may have read what belongs to the batches after this one. */
    healthy = drain_results(connection);
    if (connection->state == DB_READY) restart_answer_timer(connection);
  }
  end_dispatch(connection, healthy);
}

/* Lends the session to a worker for the oldest batch: to send `calls`, or, when they are NULL, only
 * to receive what is still to come. */
static void lend_session(struct db_connection *connection, const struct db_call *calls) {
  struct db_batch *batch = connection->head;
  unwatch_socket(connection);
  ev_timer_stop(connection->options.database->loop, &connection->answer_timer);
  set_state(connection, DB_BULK);
  connection->bulk =
      (struct db_bulk){.job = {.run = db_bulk_run, .done = bulk_done},
                       .time_limit_ms = connection->options.answer_limit_ms,
                       .workers = connection->options.database->bulk_workers,
                       .pg = connection->pg,
                       .batch = batch,
                       .statements = connection->options.statements,
                       .calls = calls,
                       .count = batch->call_count,
                       .answered = batch->answered,
                       .results = memory_allocate_zeroed(batch->call_count, sizeof(PGresult *))};
  worker_pool_submit(connection->options.database->bulk_workers, &connection->bulk.job);
}

static void on_readable(struct ev_loop *loop, ev_io *watcher, int events) {
  struct db_connection *connection = watcher->data;
  int waiting = 0;
  (void)loop;
  (void)events;
  if (ioctl(watcher->fd, FIONREAD, &waiting) == 0) connection->unparsed += (size_t)waiting;
  if (connection->head == NULL) connection->unparsed = 0; /* notifications */
  if (connection->unparsed > BULK_RESULT_BYTES && !connection->is_failing) {
    lend_session(connection, NULL);
    return;
  }
  connection->dispatching = true;
  bool healthy = PQconsumeInput(connection->pg) == 1;
  drain_notifications(connection);
  healthy = drain_results(connection) && healthy;
  if (healthy && !connection->close_requested && connection->state == DB_READY) {
    healthy = flush_output(connection);
  }
  end_dispatch(connection, healthy);
}

/* ------------------------------------------------------------------ sending */

static size_t parameter_bytes(const struct db_connection *connection, const struct db_call *calls,
                              unsigned count) {
  size_t total = 0;
  for (unsigned i = 0; i < count; i++) {
    unsigned parameters = connection->options.statements[calls[i].statement].parameter_count;
    for (unsigned j = 0; j < parameters; j++) total += (size_t)calls[i].parameters[j].length;
  }
  return total;
}

static void on_deferred(struct ev_loop *loop, ev_idle *watcher, int events) {
  struct db_connection *connection = watcher->data;
  (void)events;
  ev_idle_stop(loop, watcher);
  if (connection->is_failing) {
    connection->is_failing = false;
    lose_connection(connection, PQerrorMessage(connection->pg));
  }
}

void db_connection_send(struct db_connection *connection, struct db_batch *batch,
                        const struct db_call *calls, unsigned count) {
  assert(db_connection_can_send(connection) && count > 0);
  size_t bytes = parameter_bytes(connection, calls, count);
  if (bytes > connection->largest_message) connection->largest_message = bytes;
  enqueue_batch(connection, batch, count);
  metric_add(connection->statements_total, count);
  if (bytes > BULK_PARAMETER_BYTES && connection->in_flight == 1) {
    lend_session(connection, calls);
    return;
  }
  bool healthy = true;
  for (unsigned i = 0; i < count && healthy; i++) {
    healthy = db_send_call(connection->pg, connection->options.statements, &calls[i]);
  }
  healthy = healthy && PQpipelineSync(connection->pg) == 1 && flush_output(connection);
  if (!healthy) {
    connection->is_failing = true;
    ev_idle_start(connection->options.database->loop, &connection->deferred);
  }
  if (connection->in_flight == 1) restart_answer_timer(connection);
}

/* ------------------------------------------------------------------ connecting and losing */

static void report_state(struct db_connection *connection, bool ready, const char *reason) {
  connection->options.on_state(connection, connection->options.owner, ready, reason);
}

static void schedule_retry(struct db_connection *connection) {
  /* Jitter keeps many nodes from arriving together after an outage. */
  double delay = (double)connection->retry_delay_ms / 1000.0 * (0.5 + drand48() / 2);
  ev_timer_set(&connection->retry_timer, delay, 0.);
  ev_timer_start(connection->options.database->loop, &connection->retry_timer);
  connection->retry_delay_ms *= 2;
  if (connection->retry_delay_ms > connection->options.database->retry_max_ms) {
    connection->retry_delay_ms = connection->options.database->retry_max_ms;
  }
}

/* The old primary is not waited for: it may never answer. */
static void leave_old_primary(struct primary_follower *follower) {
  struct db_connection *connection =
      (struct db_connection *)((char *)follower - offsetof(struct db_connection, follower));
  if (primary_is(connection->options.database->primary, connection->server)) return;
  if (connection->state == DB_BULK) {
    atomic_store(&connection->bulk.is_given_up, true);
  } else if (connection->state == DB_READY) {
    lose_connection(connection, "another server is the primary now");
  }
}

static void connect_done(struct db_connect *connect) {
  struct db_connection *connection = connect->owner;
  if (connection->state == DB_CLOSED) {
    PQfinish(connect->pg);
    free(connect->error);
    free_connection(connection);
    return;
  }
  if (connect->pg == NULL) {
    set_state(connection, DB_DOWN);
    connection->dispatching = true;
    report_state(connection, false, connect->error);
    connection->dispatching = false;
    free(connect->error);
    if (connection->close_requested) {
      finish_closing(connection, false);
    } else {
      schedule_retry(connection);
    }
    return;
  }
  connection->pg = connect->pg;
  connection->server = connect->server;
  connection->retry_delay_ms = RETRY_FIRST_MS;
  connection->largest_message = 0;
  PQsetNoticeReceiver(connection->pg, on_notice, connection);
  set_state(connection, DB_READY);
  watch_socket(connection);
  drain_notifications(connection);
  report_state(connection, true, NULL);
  primary_settle(connection->options.database->primary);
  leave_old_primary(&connection->follower); /* one that was left while it was set up */
}

/* The worker ends the `lost` session first (NULL: there is none): giving back large buffers takes
 * its time. */
static void start_connecting(struct db_connection *connection, PGconn *lost) {
  connection->connect = (struct db_connect){.database = connection->options.database,
                                            .setup = connection->options.setup,
                                            .statements = connection->options.statements,
                                            .statement_count = connection->options.statement_count,
                                            .done = connect_done,
                                            .lost = lost,
                                            .owner = connection};
  db_connect_start(&connection->connect);
}

static void on_retry(struct ev_loop *loop, ev_timer *timer, int events) {
  (void)loop;
  (void)events;
  start_connecting(timer->data, NULL);
}

/* Takes the session away; the caller ends it. */
static PGconn *detach_session(struct db_connection *connection) {
  PGconn *pg = connection->pg;
  unwatch_socket(connection);
  ev_timer_stop(connection->options.database->loop, &connection->answer_timer);
  ev_idle_stop(connection->options.database->loop, &connection->deferred);
  connection->is_failing = false;
  connection->unparsed = 0;
  connection->pg = NULL;
  return pg;
}

/* Detaches what was in flight and reports it; callbacks may send elsewhere meanwhile. */
static void fail_in_flight(struct db_connection *connection, const char *reason) {
  struct db_batch *batch = connection->head;
  connection->head = NULL;
  connection->tail = &connection->head;
  connection->in_flight = 0;
  while (batch != NULL) {
    struct db_batch *next = batch->next;
    db_batch_lose(batch, reason);
    batch = next;
  }
}

/* A worker that is still connecting frees it when it returns (connect_done). */
static void finish_closing(struct db_connection *connection, bool worker_has_it) {
  set_state(connection, DB_CLOSED);
  fail_in_flight(connection, "the node is stopping");
  if (!worker_has_it) free_connection(connection);
}

/* `reason` NULL: a planned replacement of an idle session, which is nobody's news. */
static void lose_connection(struct db_connection *connection, const char *reason) {
  char *text = memory_copy_text(reason ? reason : "");
  for (char *end = text + strlen(text); end > text && end[-1] == '\n'; end--) end[-1] = '\0';
  for (char *c = text; *c; c++) {
    if (*c == '\n') *c = ' ';
  }
  PGconn *lost = detach_session(connection);
  set_state(connection, DB_CONNECTING);
  connection->dispatching = true;
  if (reason) report_state(connection, false, text);
  fail_in_flight(connection, "the connection to PostgreSQL was lost");
  connection->dispatching = false;
  free(text);
  if (connection->close_requested) {
    PQfinish(lost);
    finish_closing(connection, false);
    return;
  }
  start_connecting(connection, lost);
}

void db_connection_reset(struct db_connection *connection, const char *reason) {
  if (connection->state == DB_READY && !connection->dispatching)
    lose_connection(connection, reason);
}

/* A worker may still be connecting when the owner has closed the connection and freed its own
 * arrays. */
static void copy_arrays(struct db_connection *connection) {
  const struct db_connection_options *options = &connection->options;
  unsigned count = 0, types = 0;
  while (options->setup && options->setup[count]) count++;
  connection->setup = memory_allocate_zeroed(count + 1, sizeof *connection->setup);
  for (unsigned i = 0; i < count; i++) connection->setup[i] = memory_copy_text(options->setup[i]);
  for (unsigned i = 0; i < options->statement_count; i++) {
    types += options->statements[i].parameter_count;
  }
  connection->statements =
      memory_allocate_zeroed(options->statement_count, sizeof *connection->statements);
  connection->parameter_types = memory_allocate_zeroed(types, sizeof *connection->parameter_types);
  Oid *place = connection->parameter_types;
  for (unsigned i = 0; i < options->statement_count; i++) {
    struct db_statement *statement = &connection->statements[i];
    *statement = options->statements[i];
    for (unsigned j = 0; j < statement->parameter_count; j++) {
      place[j] = options->statements[i].parameter_types[j];
    }
    statement->parameter_types = place;
    place += statement->parameter_count;
  }
  connection->options.setup = (const char *const *)connection->setup;
  connection->options.statements = connection->statements;
}

static void free_connection(struct db_connection *connection) {
  primary_unfollow(connection->options.database->primary, &connection->follower);
  for (char **text = connection->setup; *text; text++) free(*text);
  free(connection->setup);
  free(connection->statements);
  free(connection->parameter_types);
  free(connection);
}

struct db_connection *db_connection_open(const struct db_connection_options *options) {
  struct db_connection *connection = memory_allocate_zeroed(1, sizeof *connection);
  connection->options = *options;
  copy_arrays(connection);
  connection->state = DB_CONNECTING;
  connection->tail = &connection->head;
  connection->retry_delay_ms = RETRY_FIRST_MS;
  connection->statements_total =
      metric_with(metric_counter("pgcursus_database_statements_total",
                                 "Statements sent to PostgreSQL.", NULL, NULL),
                  NULL, NULL);
  ev_io_init(&connection->read_watcher, on_readable, -1, EV_READ);
  ev_io_init(&connection->write_watcher, on_writable, -1, EV_WRITE);
  ev_timer_init(&connection->retry_timer, on_retry, 0., 0.);
  ev_timer_init(&connection->answer_timer, on_answer_overdue, 0., 0.);
  ev_idle_init(&connection->deferred, on_deferred);
  connection->read_watcher.data = connection->write_watcher.data = connection;
  connection->retry_timer.data = connection->answer_timer.data = connection;
  connection->deferred.data = connection;
  connection->follower.on_change = leave_old_primary;
  primary_follow(options->database->primary, &connection->follower);
  start_connecting(connection, NULL);
  return connection;
}

void db_connection_close(struct db_connection *connection) {
  if (connection->dispatching || connection->state == DB_BULK) {
    connection->close_requested = true;
    return;
  }
  enum db_connection_state state = connection->state;
  bool worker_has_it =
      (state == DB_CONNECTING || state == DB_DOWN) && !ev_is_active(&connection->retry_timer);
  ev_timer_stop(connection->options.database->loop, &connection->retry_timer);
  if (connection->pg) PQfinish(detach_session(connection));
  finish_closing(connection, worker_has_it);
}
