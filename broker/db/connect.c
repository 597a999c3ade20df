/* Opens sessions, on a worker thread. Must not touch anything but the db_connect it was given. */
#include "db/connect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "db/patience.h"

#define MAX_PARAMETERS 32

/* How many hosts the connection string names. libpq tries them one after the other. */
static int64_t count_hosts(const char *conninfo) {
  PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
  int64_t count = 1;
  for (PQconninfoOption *option = options; option && option->keyword; option++) {
    bool names_hosts =
        strcmp(option->keyword, "host") == 0 || strcmp(option->keyword, "hostaddr") == 0;
    if (!names_hosts || !option->val) continue;
    int64_t commas = 0;
    for (const char *c = option->val; *c; c++) commas += *c == ',';
    if (commas + 1 > count) count = commas + 1;
  }
  PQconninfoFree(options);
  return count;
}

PGconn *db_open_session(const char *conninfo, const char *application_name, int64_t timeout_ms) {
  /* A silent first host must not use up the time of the others. Less than two seconds libpq takes
   * for two. */
  int64_t seconds = timeout_ms / 1000 / count_hosts(conninfo);
  char timeout[24];
  snprintf(timeout, sizeof timeout, "%lld", (long long)(seconds < 2 ? 2 : seconds));
  /* libpq lets a later keyword win, so defaults stand before the connection string (dbname, which
   * it expands) and what the node relies on stands after it. */
  const char *const keywords[] = {"connect_timeout",           "tcp_user_timeout",
                                  "keepalives_idle",           "keepalives_interval",
                                  "keepalives_count",          "target_session_attrs",
                                  "fallback_application_name", "dbname",
                                  "client_encoding",           NULL};
  const char *const values[] = {timeout,      "10000",          "10",     "5",    "3",
                                "read-write", application_name, conninfo, "UTF8", NULL};
  return PQconnectdbParams(keywords, values, 1);
}

static char *one_line(const char *text) {
  char *copy = memory_copy_text(text && *text ? text : "PostgreSQL gave no answer in time");
  for (char *end = copy + strlen(copy); end > copy && end[-1] == '\n'; end--) end[-1] = '\0';
  for (char *c = copy; *c; c++) {
    if (*c == '\n') *c = ' ';
  }
  return copy;
}

/* Waits for the end of the statement that was sent; false on an error. */
static bool finish_statement(PGconn *pg, const struct db_patience *patience) {
  PGresult *result = db_last_result(pg, patience);
  ExecStatusType status = PQresultStatus(result);
  PQclear(result);
  return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

static bool run_sql(PGconn *pg, const char *sql, const struct db_patience *patience) {
  return PQsendQuery(pg, sql) == 1 && finish_statement(pg, patience);
}

static bool prepare_all(PGconn *pg, const struct db_statement *statements, unsigned count,
                        const struct db_patience *patience) {
  for (unsigned i = 0; i < count; i++) {
    const struct db_statement *statement = &statements[i];
    if (PQsendPrepare(pg, statement->name, statement->sql, (int)statement->parameter_count,
                      statement->parameter_types) != 1 ||
        !finish_statement(pg, patience)) {
      return false;
    }
  }
  return true;
}

/* A commit that waits for a standby which is gone does not notice that nobody waits for it any
 * more. It would keep its locks and its place among the server's processes for as long as the
 * standby is away, and each further try would add another. Its outcome was reported as unknown, so
 * the wait may end. */
static bool end_abandoned_wait(PGconn *pg, int process, const struct db_patience *patience) {
  char sql[256];
  snprintf(sql, sizeof sql,
           "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid = %d AND wait_event = "
           "'SyncRep' AND usename = current_user "
           "AND application_name = current_setting('application_name')",
           process);
  return process == 0 || run_sql(pg, sql, patience);
}

static bool set_up(struct db_connect *connect, PGconn *pg, int lost_process) {
  if (PQstatus(pg) != CONNECTION_OK || PQsetnonblocking(pg, 1) != 0) return false;
  const struct db_patience patience = {
      .deadline_us = clock_monotonic_us() + connect->timeout_ms * 1000, .pool = connect->pool};
  /* A warning tells that the wait for a standby was cut short: it must not be suppressed. */
  if (!run_sql(pg, "SET client_min_messages = warning", &patience)) return false;
  if (!end_abandoned_wait(pg, lost_process, &patience)) return false;
  for (const char *const *sql = connect->setup; sql && *sql; sql++) {
    if (!run_sql(pg, *sql, &patience)) return false;
  }
  return prepare_all(pg, connect->statements, connect->statement_count, &patience) &&
         PQenterPipelineMode(pg) == 1;
}

static void ignore_notice(void *argument, const PGresult *result) {
  (void)argument;
  (void)result;
}

static void run_connect(struct worker_job *job) {
  struct db_connect *connect = (struct db_connect *)job;
  int lost_process = PQbackendPID(connect->lost); /* 0 when it broke by itself */
  PQfinish(connect->lost);
  connect->lost = NULL;
  if (worker_pool_is_stopping(connect->pool)) {
    connect->error = memory_copy_text("the node is stopping");
    return;
  }
  PGconn *pg = db_open_session(connect->conninfo, connect->application_name, connect->timeout_ms);
  PQsetNoticeReceiver(pg, ignore_notice, NULL);
  if (set_up(connect, pg, lost_process)) {
    connect->pg = pg;
    return;
  }
  connect->error = one_line(PQerrorMessage(pg));
  PQfinish(pg);
}

static void connect_finished(struct worker_job *job) {
  struct db_connect *connect = (struct db_connect *)job;
  connect->done(connect);
}

void db_connect_start(struct worker_pool *workers, struct db_connect *connect) {
  connect->job.run = run_connect;
  connect->job.done = connect_finished;
  connect->pool = workers;
  connect->pg = NULL;
  connect->error = NULL;
  worker_pool_submit(workers, &connect->job);
}

bool db_send_call(PGconn *pg, const struct db_statement *statements, const struct db_call *call) {
  const struct db_statement *statement = &statements[call->statement];
  const char *values[MAX_PARAMETERS];
  int lengths[MAX_PARAMETERS];
  int formats[MAX_PARAMETERS];
  for (unsigned i = 0; i < statement->parameter_count; i++) {
    values[i] = call->parameters[i].data;
    lengths[i] = call->parameters[i].length;
    formats[i] = 1;
  }
  return PQsendQueryPrepared(pg, statement->name, (int)statement->parameter_count, values, lengths,
                             formats, 1) == 1;
}
