/* Waiting for PostgreSQL on a worker thread: never for ever. libpq's own waits know no end when a
 * server stays silent (a frozen host, a commit whose standby is gone), and a thread that waits
 * would keep a node from stopping. */
#ifndef PGCURSUS_DB_PATIENCE_H
#define PGCURSUS_DB_PATIENCE_H

#include <libpq-fe.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct worker_pool;

struct db_patience {
  int64_t deadline_us;            /* monotonic */
  const struct worker_pool *pool; /* waiting ends when it stops; may be NULL */
  const atomic_bool *is_given_up; /* or when this becomes true; may be NULL */
};

bool db_patience_is_over(const struct db_patience *patience);

/* How long to wait, at most, before asking again whether patience is over. */
int db_patience_turn_ms(const struct db_patience *patience);

/* Sends what is queued and waits until PQgetResult() would not block. False when patience is over,
 * or the session is broken: it is then in the middle of something and must be closed. */
bool db_await_result(PGconn *pg, const struct db_patience *patience)
    __attribute__((warn_unused_result));

/* Waits for all results of the statement that was sent and gives the last one, which may be an
 * error; PQclear() it. NULL as db_await_result() says. Not for pipeline mode. */
PGresult *db_last_result(PGconn *pg, const struct db_patience *patience)
    __attribute__((warn_unused_result));

#endif
