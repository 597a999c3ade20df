/* Checks of the server behind a session. Looks for transaction pooling by what only it can do: give
 * the server process that served one connection to another one while the first is still there. Must
 * leave no trace in either session. */
#include "db/server.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "db/connect.h"
#include "db/patience.h"

#define OLDEST_SERVER 150000

#define ANSWER_LIMIT_US 5000000
#define ROUNDS 10 /* others may use the pool at the same time and spoil a look */

static char *problem(const char *format, ...) __attribute__((format(printf, 1, 2)));

static char *problem(const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return memory_copy_text(text);
}

/* ------------------------------------------------------------------ version */

/* Before these releases a notification that is read late may need transaction status that VACUUM
 * has removed; then LISTEN fails with "could not access status of transaction" (release notes
 * of 15.16). */
static bool may_lose_notifications(int version) {
  static const struct { int major, first_good; } fixes[] = {{15, 16}, {16, 12}, {17, 8}, {18, 2}};
  for (size_t i = 0; i < sizeof fixes / sizeof *fixes; i++) {
    if (version / 10000 == fixes[i].major) return version % 10000 < fixes[i].first_good;
  }
  return false;
}

static void warn_of_version(PGconn *pg) {
  if (!may_lose_notifications(PQserverVersion(pg))) return;
  log_event(LOG_WARN,
            "this minor release of PostgreSQL can fail to LISTEN after a long VACUUM; update it",
            "version", PQparameterStatus(pg, "server_version"), NULL);
}

/* ------------------------------------------------------------------ pooling */

static const char advice[] =
    "pgcursus needs sessions of its own (LISTEN, prepared statements, settings, advisory locks): "
    "connect to PostgreSQL directly, or through a pooler in session mode (PgBouncer: "
    "pool_mode=session for this database or user)";

/* Runs one statement. The process that served it, when that is what it asks for, else 0; -1 on an
 * error or when there is no answer in time. */
static int ask(PGconn *pg, const char *sql) {
  const struct db_patience patience = {.deadline_us = clock_monotonic_us() + ANSWER_LIMIT_US};
  if (PQsendQuery(pg, sql) != 1) return -1;
  PGresult *result = db_last_result(pg, &patience);
  int process = 0;
  if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1) {
    process = (int)strtol(PQgetvalue(result, 0, 0), NULL, 10);
  } else if (PQresultStatus(result) != PGRES_COMMAND_OK) {
    process = -1;
  }
  PQclear(result);
  return process;
}

static const char which_process[] = "SELECT pg_catalog.pg_backend_pid()";

enum finding { SESSIONS_ARE_OURS, SESSIONS_ARE_SHARED, NO_ANSWER };

/* `other` opens a transaction, so that it has its server process for sure, while `pg` has none when
 * transactions are pooled. */
static enum finding look(PGconn *pg, PGconn *other) {
  int before = ask(pg, which_process);
  if (before <= 0 || ask(other, "BEGIN") < 0) return NO_ANSWER;
  int in_between = ask(other, which_process);
  /* With the only server process of its pool taken `pg` would have to wait: ask it last. */
  bool is_shared = in_between == before || (in_between > 0 && ask(pg, which_process) != before);
  if (in_between <= 0 || ask(other, "ROLLBACK") < 0) return NO_ANSWER;
  return is_shared ? SESSIONS_ARE_SHARED : SESSIONS_ARE_OURS;
}

static char *describe(enum finding finding, const char *error) {
  switch (finding) {
    case SESSIONS_ARE_OURS:
      return NULL;
    case SESSIONS_ARE_SHARED:
      return problem("a connection pooler in transaction mode stands before PostgreSQL; %s",
                     advice);
    case NO_ANSWER:
      break;
  }
  return problem(
      "a connection pooler stands before PostgreSQL and does not serve two connections at once "
      "(%s); its pool must have room for all connections of the broker; %s",
      error && *error ? error : "no answer", advice);
}

static char *find_pooling(PGconn *pg, const char *conninfo) {
  /* A pooler makes up a key of its own for cancelling, so what it calls the server process is
   * another number. */
  int process = ask(pg, which_process);
  if (process <= 0 || process == PQbackendPID(pg)) return NULL;
  char *error;
  PGconn *other =
      db_open_session(conninfo, "pgcursusd pooler check", ANSWER_LIMIT_US / 1000, &error);
  enum finding finding = other ? SESSIONS_ARE_OURS : NO_ANSWER;
  for (int round = 0; round < ROUNDS && finding == SESSIONS_ARE_OURS; round++) {
    finding = look(pg, other);
  }
  char *text = describe(finding, other ? PQerrorMessage(other) : error);
  free(error);
  PQfinish(other);
  return text;
}

char *server_find_problem(PGconn *pg, const char *conninfo) {
  int version = PQserverVersion(pg);
  if (version < OLDEST_SERVER) {
    return problem("PostgreSQL %d is too old: version %d or later is needed", version / 10000,
                   OLDEST_SERVER / 10000);
  }
  warn_of_version(pg);
  return find_pooling(pg, conninfo);
}
