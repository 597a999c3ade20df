/* Opens sessions, on a worker thread. Must not touch anything but the db_connect it was given, and
 * of its database what never changes and the primary. */
#include "db/connect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "db/database.h"
#include "db/hosts.h"
#include "db/patience.h"
#include "db/race.h"

#define MAX_PARAMETERS 32

static char *one_line(const char *text) {
  char *copy = memory_copy_text(*text ? text : "PostgreSQL gave no answer in time");
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

/* ------------------------------------------------------------------ finding the primary */

/* Asks a server which one it is. False when the session is of no use; a server that does not say is
 * taken as it is. */
static bool identify(PGconn *pg, const struct db_patience *patience,
                     struct db_server_identity *server) {
  static const char sql[] =
      "SELECT system_identifier, ('x' || pg_catalog.left(pg_catalog.pg_walfile_name("
      "pg_catalog.pg_current_wal_lsn()), 8))::pg_catalog.bit(32)::pg_catalog.int8"
      " FROM pg_catalog.pg_control_system()";
  *server = (struct db_server_identity){0};
  PGresult *result = PQsendQuery(pg, sql) == 1 ? db_last_result(pg, patience) : NULL;
  bool has_answered = result != NULL;
  if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1) {
    server->system = (uint64_t)strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    server->timeline = (uint32_t)strtoul(PQgetvalue(result, 0, 1), NULL, 10);
  }
  PQclear(result);
  return has_answered;
}

/* Why a session may not be used, else NULL. */
static const char *find_objection(PGconn *pg, const struct db_host *host,
                                  const struct db_patience *patience, struct primary *primary,
                                  struct db_server_identity *server) {
  if (!identify(pg, patience, server)) return PQerrorMessage(pg);
  char *name = db_host_name(host);
  bool is_primary = primary_admit(primary, *server, name);
  free(name);
  if (is_primary) return NULL;
  return "the server is a primary that was left for another: "
         "stop it, or restart this node if it is meant";
}

/* With a `primary` only a session with it will do. */
static PGconn *find_session(struct db_hosts *hosts, const struct db_patience *patience,
                            struct primary *primary, struct db_server_identity *server,
                            char **error) {
  char *preferred = primary ? primary_host(primary) : NULL;
  db_hosts_prefer(hosts, preferred);
  free(preferred);
  struct db_race *race = db_race_start(hosts, patience);
  unsigned number;
  PGconn *pg;
  while ((pg = db_race_next(race, &number)) != NULL && primary) {
    const char *objection = find_objection(pg, &hosts->list[number], patience, primary, server);
    if (objection == NULL) break;
    db_race_refuse(race, number, objection);
    PQfinish(pg);
  }
  char *answers = db_race_end(race);
  *error = pg ? NULL : one_line(answers);
  free(answers);
  return pg;
}

PGconn *db_open_session(const char *conninfo, const char *application_name, int64_t timeout_ms,
                        char **error) {
  struct db_hosts hosts;
  db_hosts_find(&hosts, conninfo, application_name, timeout_ms);
  const struct db_patience patience = {.deadline_us =
                                           clock_monotonic_us() + hosts.timeout_ms * 1000};
  PGconn *pg = find_session(&hosts, &patience, NULL, NULL, error);
  db_hosts_release(&hosts);
  return pg;
}

/* ------------------------------------------------------------------ sessions of the loop */

static bool set_up(const struct db_connect *connect, PGconn *pg, int lost_process) {
  if (PQsetnonblocking(pg, 1) != 0) return false;
  const struct db_patience patience = {
      .deadline_us = clock_monotonic_us() + connect->database->connect_timeout_ms * 1000,
      .pool = connect->database->connect_workers};
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
  const struct database *database = connect->database;
  int lost_process = PQbackendPID(connect->lost); /* 0 when it broke by itself */
  PQfinish(connect->lost);
  connect->lost = NULL;
  if (worker_pool_is_stopping(database->connect_workers)) {
    connect->error = memory_copy_text("the node is stopping");
    return;
  }
  struct db_hosts hosts;
  db_hosts_find(&hosts, database->conninfo, database->application_name,
                database->connect_timeout_ms);
  const struct db_patience patience = {
      .deadline_us = clock_monotonic_us() + hosts.timeout_ms * 1000,
      .pool = database->connect_workers};
  PGconn *pg =
      find_session(&hosts, &patience, database->primary, &connect->server, &connect->error);
  db_hosts_release(&hosts);
  if (pg == NULL) return;
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

void db_connect_start(struct db_connect *connect) {
  connect->job.run = run_connect;
  connect->job.done = connect_finished;
  connect->pg = NULL;
  connect->error = NULL;
  worker_pool_submit(connect->database->connect_workers, &connect->job);
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
