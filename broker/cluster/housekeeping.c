/* Holds the housekeeping lock and runs the tasks of a table one step at a time. Must not know what
 * a task does. */
#include "cluster/housekeeping.h"

#include <ev.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "db/connection.h"
#include "db/database.h"
#include "db/values.h"

/* The advisory lock in the two-integer key space; sql/migrations/0002_topics.sql lists the keys. */
#define LOCK_SQL "SELECT pg_try_advisory_lock(1885823843, 2)"

#define ASK_INTERVAL_US 1000000  /* how soon a dead node's work is taken over */
#define PING_INTERVAL_US 3000000 /* well below the session's idle_session_timeout */
#define ANSWER_LIMIT_MS 15000
#define REST_FACTOR 3 /* steps take at most a quarter of the time */
#define REST_MIN_US 5000
#define REST_MAX_US 1000000
#define CONFLICT_PAUSE_US 200000
#define ERROR_PAUSE_US 1000000

/* A step that cannot get a lock gives up, as publishers may be waiting for what it holds already. A
 * session that has been silent for long belongs to a node that is frozen: it loses the lock. */
static const char *const setup[] = {"SET statement_timeout = '10s'",
                                    "SET lock_timeout = '150ms'",
                                    "SET idle_session_timeout = '12s'",
                                    DB_SETUP_PLANNER,
                                    DB_SETUP_CONTACT_SINCE,
                                    NULL};

/* Statements that are not tasks come first. */
enum {
  STATEMENT_LOCK,
  STATEMENT_PING,
  STATEMENT_READ_COMMITTED,
  STATEMENT_SERIALIZABLE,
  STATEMENT_TASKS
};

static const struct db_statement fixed_statements[STATEMENT_TASKS] = {
    {"housekeeping_lock", LOCK_SQL, 0, NULL},
    {"housekeeping_ping", "SELECT 1", 0, NULL},
    {"housekeeping_read_committed", "SET default_transaction_isolation = 'read committed'", 0,
     NULL},
    {"housekeeping_serializable", "SET default_transaction_isolation = 'serializable'", 0, NULL},
};

struct task_state {
  const struct housekeeping_task *task;
  Oid parameter_types[HOUSEKEEPING_MAX_PARAMETERS];
  int64_t due_us;
  struct metric_series *steps, *rows, *errors, *seconds;
  struct metric_series *records, *bytes; /* NULL: it does not count them */
};

/* What the session is busy with; the loop sends nothing else until it is answered. */
enum activity { IDLE, ASKING, PINGING, STEPPING };

struct housekeeping {
  struct db_batch batch; /* first: callbacks get it */
  struct db_batch isolation_batch;
  struct housekeeping_options options;
  struct db_connection *connection;
  struct db_statement *statements;
  struct task_state *tasks;
  enum activity activity;
  bool holds_lock;
  bool is_serializable; /* the session at the moment */
  bool was_reported_lost;
  bool closing;
  int64_t sent_us; /* when the session was last used */
  int64_t rest_until_us;
  ev_timer timer;
  struct db_call call;
  struct db_call isolation_call;
  struct db_parameter parameters[HOUSEKEEPING_MAX_PARAMETERS];
  union db_scalar scalars[HOUSEKEEPING_MAX_PARAMETERS];
  struct task_state *running;
  int64_t rows_done, records_removed, bytes_removed; /* of the step in flight; count once it is
                                                        committed */
  bool is_more;
  bool got_lock;
  struct metric_series *active;
};

static void proceed(struct housekeeping *housekeeping);

/* ------------------------------------------------------------------ settings */

static const void *setting_place(const struct config *config,
                                 const struct housekeeping_setting *setting) {
  return (const char *)config + setting->offset;
}

static int64_t interval_us(const struct housekeeping *housekeeping,
                           const struct task_state *state) {
  int64_t milliseconds;
  memcpy(&milliseconds, setting_place(housekeeping->options.config, &state->task->interval),
         sizeof milliseconds);
  return milliseconds * 1000;
}

static struct db_parameter setting_value(const struct config *config,
                                         const struct housekeeping_setting *setting,
                                         union db_scalar *room) {
  const void *place = setting_place(config, setting);
  switch (setting->type) {
    case DB_INT8:
      return db_int8(room, *(const int64_t *)place);
    case DB_FLOAT8:
      return db_float8(room, *(const double *)place);
    default:
      return db_bytes(slice_text(*(char *const *)place));
  }
}

static unsigned parameter_count(const struct housekeeping_task *task) {
  unsigned count = 0;
  while (count < HOUSEKEEPING_MAX_PARAMETERS && task->parameters[count].type) count++;
  return count;
}

/* ------------------------------------------------------------------ sending */

static void send(struct housekeeping *housekeeping, enum activity activity, unsigned statement) {
  housekeeping->activity = activity;
  housekeeping->sent_us = clock_monotonic_us();
  housekeeping->call =
      (struct db_call){.statement = statement, .parameters = housekeeping->parameters};
  db_connection_send(housekeeping->connection, &housekeeping->batch, &housekeeping->call, 1);
}

/* A statement of its own, as it must come before the step's transaction begins. */
static void choose_isolation(struct housekeeping *housekeeping, bool serializable) {
  if (housekeeping->is_serializable == serializable) return;
  housekeeping->is_serializable = serializable;
  housekeeping->isolation_call = (struct db_call){
      .statement = serializable ? STATEMENT_SERIALIZABLE : STATEMENT_READ_COMMITTED,
      .parameters = housekeeping->parameters};
  db_connection_send(housekeeping->connection, &housekeeping->isolation_batch,
                     &housekeeping->isolation_call, 1);
}

static void start_step(struct housekeeping *housekeeping, struct task_state *state) {
  const struct housekeeping_task *task = state->task;
  choose_isolation(housekeeping, task->is_serializable);
  if (!db_connection_can_send(housekeeping->connection))
    return; /* broken; the next session asks anew */
  for (unsigned i = 0; i < parameter_count(task); i++) {
    housekeeping->parameters[i] = setting_value(housekeeping->options.config, &task->parameters[i],
                                                &housekeeping->scalars[i]);
  }
  housekeeping->running = state;
  housekeeping->rows_done = housekeeping->records_removed = housekeeping->bytes_removed = 0;
  housekeeping->is_more = false;
  send(housekeeping, STEPPING, STATEMENT_TASKS + (unsigned)(state - housekeeping->tasks));
}

/* ------------------------------------------------------------------ what comes next */

static void wait_until(struct housekeeping *housekeeping, int64_t when_us, int64_t now_us) {
  double seconds = when_us > now_us ? (double)(when_us - now_us) / 1e6 : 0.;
  ev_timer_stop(housekeeping->options.database->loop, &housekeeping->timer);
  ev_timer_set(&housekeeping->timer, seconds, 0.);
  ev_timer_start(housekeeping->options.database->loop, &housekeeping->timer);
}

static struct task_state *most_overdue(struct housekeeping *housekeeping) {
  struct task_state *first = NULL;
  for (unsigned i = 0; i < housekeeping->options.task_count; i++) {
    struct task_state *state = &housekeeping->tasks[i];
    if (first == NULL || state->due_us < first->due_us) first = state;
  }
  return first;
}

/* The timer's word is not taken for what is to be done: it is worked out here, from the state
 * alone. */
static void proceed(struct housekeeping *housekeeping) {
  if (housekeeping->closing || housekeeping->activity != IDLE ||
      !db_connection_can_send(housekeeping->connection)) {
    return;
  }
  int64_t now = clock_monotonic_us();
  if (!housekeeping->holds_lock) {
    if (now >= housekeeping->sent_us + ASK_INTERVAL_US) {
      send(housekeeping, ASKING, STATEMENT_LOCK);
    } else {
      wait_until(housekeeping, housekeeping->sent_us + ASK_INTERVAL_US, now);
    }
    return;
  }
  struct task_state *state = most_overdue(housekeeping);
  int64_t ping_us = housekeeping->sent_us + PING_INTERVAL_US;
  int64_t step_us = state ? state->due_us : INT64_MAX;
  if (step_us < housekeeping->rest_until_us) step_us = housekeeping->rest_until_us;
  if (step_us <= now) {
    start_step(housekeeping, state);
  } else if (ping_us <= now) {
    send(housekeeping, PINGING, STATEMENT_PING);
  } else {
    wait_until(housekeeping, step_us < ping_us ? step_us : ping_us, now);
  }
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events) {
  (void)loop;
  (void)events;
  proceed(timer->data);
}

static void take_over(struct housekeeping *housekeeping) {
  housekeeping->holds_lock = true;
  metric_set(housekeeping->active, 1);
  int64_t now = clock_monotonic_us();
  housekeeping->rest_until_us = now;
  for (unsigned i = 0; i < housekeeping->options.task_count; i++)
    housekeeping->tasks[i].due_us = now;
  log_event(LOG_INFO, "this node keeps house now", NULL);
}

/* ------------------------------------------------------------------ answers */

static void on_result(struct db_batch *batch, unsigned call, const PGresult *result) {
  struct housekeeping *housekeeping = (struct housekeeping *)batch;
  (void)call;
  if (PQntuples(result) != 1) return;
  if (housekeeping->activity == ASKING) {
    housekeeping->got_lock = db_get_bool(result, 0, 0);
  } else if (housekeeping->activity == STEPPING) {
    housekeeping->rows_done = db_get_int8(result, 0, 0);
    housekeeping->is_more = db_get_bool(result, 0, 1);
    if (!housekeeping->running->task->counts_removed) return;
    housekeeping->records_removed = db_get_int8(result, 0, 2);
    housekeeping->bytes_removed = db_get_int8(result, 0, 3);
  }
}

/* Lost a race, or waited too long for a lock: nothing is wrong. */
static bool is_conflict(const char *sqlstate) {
  return strcmp(sqlstate, "40001") == 0 || strcmp(sqlstate, "40P01") == 0 ||
         strcmp(sqlstate, "55P03") == 0;
}

/* When to try again a step that failed. */
static int64_t pause_after_failure(struct housekeeping *housekeeping, enum db_outcome outcome,
                                   const struct db_failure *failure) {
  const struct task_state *state = housekeeping->running;
  bool conflict = is_conflict(failure->sqlstate);
  if (outcome == DB_REFUSED) {
    metric_add(state->errors, 1);
    log_event(conflict ? LOG_DEBUG : LOG_ERROR, "a housekeeping step failed", "task",
              state->task->name, "sqlstate", failure->sqlstate, "reason", failure->message, NULL);
  }
  if (conflict) return (int64_t)(CONFLICT_PAUSE_US * (0.5 + drand48()));
  int64_t interval = interval_us(housekeeping, state);
  return interval > ERROR_PAUSE_US ? interval : ERROR_PAUSE_US;
}

static void finish_step(struct housekeeping *housekeeping, enum db_outcome outcome,
                        const struct db_failure *failure) {
  struct task_state *state = housekeeping->running;
  int64_t now = clock_monotonic_us();
  int64_t took = now - housekeeping->sent_us;
  int64_t rest = took * REST_FACTOR;
  if (rest < REST_MIN_US) rest = REST_MIN_US;
  if (rest > REST_MAX_US) rest = REST_MAX_US;
  metric_add(state->steps, 1);
  metric_observe(state->seconds, (double)took / 1e6);
  if (outcome != DB_COMMITTED) {
    state->due_us = now + pause_after_failure(housekeeping, outcome, failure);
  } else {
    metric_add(state->rows, (double)housekeeping->rows_done);
    if (state->records) metric_add(state->records, (double)housekeeping->records_removed);
    if (state->bytes) metric_add(state->bytes, (double)housekeeping->bytes_removed);
    /* With more to do it is due after the rest: a task that is due by then already comes first. */
    state->due_us = now + (housekeeping->is_more ? rest : interval_us(housekeeping, state));
  }
  housekeeping->rest_until_us = now + rest;
  housekeeping->running = NULL;
}

static void on_done(struct db_batch *batch, enum db_outcome outcome,
                    const struct db_failure *failure) {
  struct housekeeping *housekeeping = (struct housekeeping *)batch;
  enum activity activity = housekeeping->activity;
  housekeeping->activity = IDLE;
  if (activity == STEPPING) finish_step(housekeeping, outcome, failure);
  if (activity == ASKING && outcome == DB_COMMITTED && housekeeping->got_lock) {
    take_over(housekeeping);
  }
  proceed(housekeeping);
}

/* A failure shows in the step behind it. */
static void on_isolation_done(struct db_batch *batch, enum db_outcome outcome,
                              const struct db_failure *failure) {
  (void)batch;
  (void)outcome;
  (void)failure;
}

/* A new session asks at once; the lock went with the old one. */
static void on_state(struct db_connection *connection, void *owner, bool ready,
                     const char *reason) {
  struct housekeeping *housekeeping = owner;
  (void)connection;
  if (!ready && !housekeeping->was_reported_lost && !housekeeping->closing) {
    log_event(LOG_WARN, "the housekeeping session is lost; another node may take over", "reason",
              reason, NULL);
  }
  housekeeping->was_reported_lost = !ready;
  housekeeping->holds_lock = false;
  housekeeping->got_lock = false;
  housekeeping->is_serializable = false;
  metric_set(housekeeping->active, 0);
  if (!ready) return;
  housekeeping->sent_us = clock_monotonic_us() - ASK_INTERVAL_US;
  proceed(housekeeping);
}

/* ------------------------------------------------------------------ opening and closing */

static const double step_bounds[] = {0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1, 5};

static void register_metrics(struct housekeeping *housekeeping) {
  housekeeping->active = metric_with(
      metric_gauge("pgcursus_housekeeping_active", "1 on the node that keeps house.", NULL, NULL),
      NULL, NULL);
  struct metric *steps = metric_counter("pgcursus_housekeeping_steps_total",
                                        "Housekeeping transactions.", "task", NULL);
  struct metric *rows = metric_counter("pgcursus_housekeeping_rows_total",
                                       "Rows removed or changed by housekeeping.", "task", NULL);
  struct metric *records = metric_counter("pgcursus_housekeeping_records_total",
                                          "Records removed by housekeeping.", "task", NULL);
  struct metric *bytes = metric_counter("pgcursus_housekeeping_bytes_total",
                                        "Payloads and keys removed by housekeeping.", "task", NULL);
  struct metric *errors =
      metric_counter("pgcursus_housekeeping_errors_total",
                     "Housekeeping transactions that failed and are tried again.", "task", NULL);
  struct metric *seconds = metric_histogram(
      "pgcursus_housekeeping_step_seconds", "Time that a housekeeping transaction took.", "task",
      NULL, step_bounds, sizeof step_bounds / sizeof *step_bounds);
  for (unsigned i = 0; i < housekeeping->options.task_count; i++) {
    struct task_state *state = &housekeeping->tasks[i];
    state->steps = metric_with(steps, state->task->name, NULL);
    state->rows = metric_with(rows, state->task->name, NULL);
    state->errors = metric_with(errors, state->task->name, NULL);
    state->seconds = metric_with(seconds, state->task->name, NULL);
    if (!state->task->counts_removed) continue;
    state->records = metric_with(records, state->task->name, NULL);
    state->bytes = metric_with(bytes, state->task->name, NULL);
  }
}

static void make_statements(struct housekeeping *housekeeping) {
  unsigned count = housekeeping->options.task_count;
  housekeeping->tasks = memory_allocate_zeroed(count, sizeof *housekeeping->tasks);
  housekeeping->statements =
      memory_allocate_zeroed(STATEMENT_TASKS + count, sizeof *housekeeping->statements);
  memcpy(housekeeping->statements, fixed_statements, sizeof fixed_statements);
  for (unsigned i = 0; i < count; i++) {
    struct task_state *state = &housekeeping->tasks[i];
    state->task = &housekeeping->options.tasks[i];
    unsigned parameters = parameter_count(state->task);
    for (unsigned j = 0; j < parameters; j++) {
      state->parameter_types[j] = state->task->parameters[j].type;
    }
    housekeeping->statements[STATEMENT_TASKS + i] =
        (struct db_statement){.name = state->task->name,
                              .sql = state->task->statement,
                              .parameter_count = parameters,
                              .parameter_types = state->parameter_types};
  }
}

struct housekeeping *housekeeping_open(const struct housekeeping_options *options) {
  struct housekeeping *housekeeping = memory_allocate_zeroed(1, sizeof *housekeeping);
  housekeeping->options = *options;
  housekeeping->batch.on_result = on_result;
  housekeeping->batch.on_done = on_done;
  housekeeping->isolation_batch.on_done = on_isolation_done;
  make_statements(housekeeping);
  register_metrics(housekeeping);
  ev_timer_init(&housekeeping->timer, on_timer, 0., 0.);
  housekeeping->timer.data = housekeeping;
  const struct db_connection_options connection_options = {
      .database = options->database,
      .setup = setup,
      .statements = housekeeping->statements,
      .statement_count = STATEMENT_TASKS + options->task_count,
      .answer_limit_ms = ANSWER_LIMIT_MS,
      .on_state = on_state,
      .owner = housekeeping,
  };
  housekeeping->connection = db_connection_open(&connection_options);
  return housekeeping;
}

void housekeeping_set_config(struct housekeeping *housekeeping, const struct config *config) {
  housekeeping->options.config = config;
}

bool housekeeping_is_active(const struct housekeeping *housekeeping) {
  return housekeeping->holds_lock;
}

void housekeeping_close(struct housekeeping *housekeeping) {
  housekeeping->closing = true;
  ev_timer_stop(housekeeping->options.database->loop, &housekeeping->timer);
  db_connection_close(housekeeping->connection);
  free(housekeeping->statements);
  free(housekeeping->tasks);
  free(housekeeping);
}
