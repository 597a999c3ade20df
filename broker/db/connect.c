/* Opens sessions, on a worker thread. Must not touch anything but the db_connect it was given. */
#include "db/connect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define MAX_PARAMETERS 32

PGconn *db_open_session(const char *conninfo, const char *application_name, int64_t timeout_ms) {
  char timeout[24];
  snprintf(timeout, sizeof timeout, "%lld", (long long)((timeout_ms + 999) / 1000));
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
  char *copy = memory_copy_text(text && *text ? text : "unknown error");
  for (char *end = copy + strlen(copy); end > copy && end[-1] == '\n'; end--) end[-1] = '\0';
  for (char *c = copy; *c; c++) {
    if (*c == '\n') *c = ' ';
  }
  return copy;
}

/* Runs one statement without parameters; false on an error. */
static bool run_sql(PGconn *pg, const char *sql) {
  PGresult *result = PQexec(pg, sql);
  ExecStatusType status = PQresultStatus(result);
  PQclear(result);
  return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

static bool prepare_all(PGconn *pg, const struct db_statement *statements, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    PGresult *result = PQprepare(pg, statements[i].name, statements[i].sql,
                                 (int)statements[i].parameter_count, statements[i].parameter_types);
    ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    if (status != PGRES_COMMAND_OK) return false;
  }
  return true;
}

static bool set_up(struct db_connect *connect, PGconn *pg) {
  if (PQstatus(pg) != CONNECTION_OK) return false;
  /* A warning tells that the wait for a standby was cut short: it must not be suppressed. */
  if (!run_sql(pg, "SET client_min_messages = warning")) return false;
  for (const char *const *sql = connect->setup; sql && *sql; sql++) {
    if (!run_sql(pg, *sql)) return false;
  }
  return prepare_all(pg, connect->statements, connect->statement_count) &&
         PQsetnonblocking(pg, 1) == 0 && PQenterPipelineMode(pg) == 1;
}

static void ignore_notice(void *argument, const PGresult *result) {
  (void)argument;
  (void)result;
}

static void run_connect(struct worker_job *job) {
  struct db_connect *connect = (struct db_connect *)job;
  PQfinish(connect->lost);
  connect->lost = NULL;
  PGconn *pg = db_open_session(connect->conninfo, connect->application_name, connect->timeout_ms);
  PQsetNoticeReceiver(pg, ignore_notice, NULL);
  if (set_up(connect, pg)) {
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
