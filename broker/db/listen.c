/* Notifications: keeps one session listening and passes on what it hears.
 *
 * LISTEN is sent once the session is there, not while it is set up: a server that cannot LISTEN (a
 * fault of some releases, see server.c) then costs the notifications and nothing else, since
 * everything they tell is found by slow looks too. */
#include "db/listen.h"

#include <ev.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "db/connection.h"
#include "db/database.h"
#include "db/health.h"
#include "db/primary.h"
#include "db/values.h"

/* One tick without an answer, and another primary is looked for; a session whose packets get lost
 * is given up within LOOK_TICKS and ANSWER_LIMIT_MS. */
#define TICK_SECONDS 0.5
#define LOOK_TICKS 2u
#define ANSWER_LIMIT_MS 2500

enum { LISTEN_CONTROL, LISTEN_APPEND, LOOK, STATEMENT_COUNT };

static const struct db_statement statements[STATEMENT_COUNT] = {
    [LISTEN_CONTROL] = {"listen_control", "LISTEN pgcursus_control", 0, NULL},
    [LISTEN_APPEND] = {"listen_append", "LISTEN pgcursus_append", 0, NULL},
    [LOOK] = {"look", "SELECT (pg_notification_queue_usage() * 1000000)::int4, pg_backend_pid()", 0,
              NULL},
};
static const struct db_call calls[STATEMENT_COUNT] = {
    {.statement = LISTEN_CONTROL}, {.statement = LISTEN_APPEND}, {.statement = LOOK}};

struct listen {
  struct db_batch batch; /* first */
  struct listen_options options;
  struct db_connection *connection;
  ev_timer timer;
  unsigned ticks;
  bool is_connected;
  bool is_active;      /* listening */
  bool asks_to_listen; /* the batch in flight does */
  bool was_refused;    /* as last logged */
  int32_t server_process;
  struct metric_series *queue_usage;
};

static void set_active(struct listen *listen, bool active) {
  if (listen->is_active == active) return;
  listen->is_active = active;
  listen->options.on_change(listen->options.owner, active);
}

static void report_sharing(struct listen *listen) {
  static const char reason[] =
      "a connection pooler gives the broker's sessions to others; it must pool sessions, not "
      "transactions";
  log_event(LOG_ERROR, reason, NULL);
  db_health_report(listen->options.database->health, listen->is_connected, false, reason);
  listen->is_connected = false;
  set_active(listen, false);
}

static void on_result(struct db_batch *batch, unsigned call, const PGresult *result) {
  struct listen *listen = (struct listen *)batch;
  (void)call;
  if (PQntuples(result) != 1 || PQnfields(result) != 2) return; /* LISTEN gives none */
  metric_set(listen->queue_usage, db_get_int4(result, 0, 0) / 1e6);
  int32_t process = db_get_int4(result, 0, 1);
  if (listen->server_process == 0) listen->server_process = process;
  if (listen->server_process != process && listen->is_connected) report_sharing(listen);
}

static void on_done(struct db_batch *batch, enum db_outcome outcome,
                    const struct db_failure *failure) {
  struct listen *listen = (struct listen *)batch;
  if (!listen->asks_to_listen) return;
  if (outcome == DB_COMMITTED && listen->is_connected) {
    listen->was_refused = false;
    set_active(listen, true);
  } else if (outcome == DB_REFUSED && !listen->was_refused) {
    listen->was_refused = true;
    log_event(LOG_WARN,
              "PostgreSQL refuses to LISTEN; what others do is noticed late until it does not",
              "sqlstate", failure->sqlstate, "reason", failure->message, NULL);
  }
}

static void look(struct listen *listen) {
  if (!db_connection_can_send(listen->connection) ||
      db_connection_in_flight(listen->connection) > 0) {
    return;
  }
  listen->asks_to_listen = !listen->is_active && listen->is_connected;
  unsigned first = listen->asks_to_listen ? 0 : LOOK;
  db_connection_send(listen->connection, &listen->batch, &calls[first], STATEMENT_COUNT - first);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events) {
  struct listen *listen = timer->data;
  (void)loop;
  (void)events;
  if (listen->is_connected && db_connection_in_flight(listen->connection) > 0) {
    primary_look(listen->options.database->primary);
  } else if (++listen->ticks % LOOK_TICKS == 0) {
    look(listen);
  }
}

static void on_state(struct db_connection *connection, void *owner, bool ready,
                     const char *reason) {
  struct listen *listen = owner;
  (void)connection;
  db_health_report(listen->options.database->health, listen->is_connected, ready, reason);
  listen->is_connected = ready;
  listen->server_process = 0;
  set_active(listen, false);
  if (!ready) return;
  ev_timer_again(listen->options.database->loop, &listen->timer); /* a tick from now */
  look(listen);
}

static void on_notify(void *owner, const char *channel, const char *payload) {
  struct listen *listen = owner;
  listen->options.on_notify(listen->options.owner, channel, payload);
}

struct listen *listen_open(const struct listen_options *options) {
  struct listen *listen = memory_allocate_zeroed(1, sizeof *listen);
  listen->options = *options;
  listen->batch.on_result = on_result;
  listen->batch.on_done = on_done;
  listen->queue_usage = metric_with(
      metric_gauge("pgcursus_notification_queue_usage",
                   "Share of PostgreSQL's notification queue in use, between 0 and 1.", NULL, NULL),
      NULL, NULL);
  db_health_add_session(options->database->health);
  const struct db_connection_options connection_options = {
      .database = options->database,
      .statements = statements,
      .statement_count = STATEMENT_COUNT,
      .answer_limit_ms = ANSWER_LIMIT_MS,
      .on_state = on_state,
      .on_notify = on_notify,
      .owner = listen,
  };
  listen->connection = db_connection_open(&connection_options);
  ev_timer_init(&listen->timer, on_timer, TICK_SECONDS, TICK_SECONDS);
  listen->timer.data = listen;
  ev_timer_start(options->database->loop, &listen->timer);
  return listen;
}

bool listen_is_active(const struct listen *listen) {
  return listen->is_active;
}

void listen_close(struct listen *listen) {
  ev_timer_stop(listen->options.database->loop, &listen->timer);
  db_connection_close(listen->connection);
  free(listen);
}
