/* Notifications: keeps one session listening and passes on what it hears. */
#include "db/listen.h"

#include <ev.h>
#include <stdlib.h>

#include "base/memory.h"
#include "db/connection.h"
#include "db/health.h"

/* A session whose packets get lost is noticed within PING_SECONDS + ANSWER_LIMIT_MS. */
#define PING_SECONDS 2.0
#define ANSWER_LIMIT_MS 2500

static const struct db_statement statements[] = {{"ping", "SELECT 1", 0, NULL}};
static const char *const setup[] = {"LISTEN pgcursus_control", "LISTEN pgcursus_append", NULL};

struct listen {
  struct db_batch batch; /* first */
  struct listen_options options;
  struct db_connection *connection;
  struct db_call ping;
  ev_timer timer;
  bool active;
};

static void on_ping_done(struct db_batch *batch, enum db_outcome outcome,
                         const struct db_failure *failure) {
  (void)batch;
  (void)outcome;
  (void)failure;
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events) {
  struct listen *listen = timer->data;
  (void)loop;
  (void)events;
  if (db_connection_can_send(listen->connection) &&
      db_connection_in_flight(listen->connection) == 0) {
    db_connection_send(listen->connection, &listen->batch, &listen->ping, 1);
  }
}

static void on_state(struct db_connection *connection, void *owner, bool ready,
                     const char *reason) {
  struct listen *listen = owner;
  (void)connection;
  bool was_active = listen->active;
  listen->active = ready;
  db_health_report(listen->options.health, was_active, ready, reason);
  if (was_active != ready) listen->options.on_change(listen->options.owner, ready);
}

static void on_notify(void *owner, const char *channel, const char *payload) {
  struct listen *listen = owner;
  listen->options.on_notify(listen->options.owner, channel, payload);
}

struct listen *listen_open(const struct listen_options *options) {
  struct listen *listen = memory_allocate_zeroed(1, sizeof *listen);
  listen->options = *options;
  listen->batch.on_done = on_ping_done;
  db_health_add_session(options->health);
  const struct db_connection_options connection_options = {
      .loop = options->loop,
      .connect_workers = options->connect_workers,
      .bulk_workers = options->connect_workers,
      .conninfo = options->conninfo,
      .application_name = options->application_name,
      .setup = setup,
      .statements = statements,
      .statement_count = 1,
      .connect_timeout_ms = options->connect_timeout_ms,
      .retry_max_ms = options->retry_max_ms,
      .answer_limit_ms = ANSWER_LIMIT_MS,
      .on_state = on_state,
      .on_notify = on_notify,
      .owner = listen,
  };
  listen->connection = db_connection_open(&connection_options);
  ev_timer_init(&listen->timer, on_timer, PING_SECONDS, PING_SECONDS);
  listen->timer.data = listen;
  ev_timer_start(options->loop, &listen->timer);
  return listen;
}

bool listen_is_active(const struct listen *listen) {
  return listen->active;
}

void listen_close(struct listen *listen) {
  ev_timer_stop(listen->options.loop, &listen->timer);
  db_connection_close(listen->connection);
  free(listen);
}
