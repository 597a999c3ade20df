/* Opening a PostgreSQL session: a blocking affair (names, TLS, authentication, preparing), so it
 * runs on a worker thread; and the one call by which statements are sent. */
#ifndef PGCURSUS_DB_CONNECT_H
#define PGCURSUS_DB_CONNECT_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/worker.h"
#include "db/connection.h"
#include "db/primary.h"

struct db_connect {
  struct worker_job job; /* first */
  const struct database *database;
  const char *const *setup;
  const struct db_statement *statements;
  unsigned statement_count;
  PGconn *lost; /* a session to end first; may be NULL */
  /* Called on the loop. Exactly one of `pg` (in pipeline mode, non-blocking, owned by the callee)
   * and `error` (one line, to be freed) is set. */
  void (*done)(struct db_connect *connect);
  void *owner;
  PGconn *pg;
  char *error;
  struct db_server_identity server;
};

/* On the database's connect workers; tells its primary whom it found. */
void db_connect_start(struct db_connect *connect);

/* Opens a session with the first of the connection string's places that takes writes (or as its
 * target_session_attrs says), see db/hosts.h. Blocks. NULL with `error` (one line, to be freed). */
PGconn *db_open_session(const char *conninfo, const char *application_name, int64_t timeout_ms,
                        char **error) __attribute__((warn_unused_result));

/* Queues one call in pipeline mode; false when the session is broken. */
bool db_send_call(PGconn *pg, const struct db_statement *statements, const struct db_call *call)
    __attribute__((warn_unused_result));

#endif
