/* Opening a PostgreSQL session: a blocking affair (names, TLS, authentication, preparing), so it
 * runs on a worker thread; and the one call by which statements are sent. */
#ifndef PGCURSUS_DB_CONNECT_H
#define PGCURSUS_DB_CONNECT_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/worker.h"
#include "db/connection.h"

struct db_connect {
  struct worker_job job; /* first */
  const char *conninfo;
  const char *application_name;
  const char *const *setup;
  const struct db_statement *statements;
  unsigned statement_count;
  PGconn *lost; /* a session to end first; may be NULL */
  int64_t timeout_ms;
  const struct worker_pool *pool; /* set by db_connect_start() */
  /* Called on the loop. Exactly one of `pg` (in pipeline mode, non-blocking, owned by the callee)
   * and `error` (one line, to be freed) is set. */
  void (*done)(struct db_connect *connect);
  void *owner;
  PGconn *pg;
  char *error;
};

void db_connect_start(struct worker_pool *workers, struct db_connect *connect);

/* Opens a session with the project's defaults (time-outs, keepalives, a primary when several hosts
 * are given, UTF-8), each of which the connection string may override. Blocks. Never NULL; check
 * PQstatus(). */
PGconn *db_open_session(const char *conninfo, const char *application_name, int64_t timeout_ms);

/* Queues one call in pipeline mode; false when the session is broken. */
bool db_send_call(PGconn *pg, const struct db_statement *statements, const struct db_call *call)
    __attribute__((warn_unused_result));

#endif
