/* One batch's exchange with PostgreSQL on a worker thread: large parameters are sent there, since
 * libpq copies what it sends, and large results are received there, since libpq copies those too.
 */
#ifndef PGCURSUS_DB_BULK_H
#define PGCURSUS_DB_BULK_H

#include <libpq-fe.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/worker.h"
#include "db/connection.h"

/* Filled by the connection that lends its session; nothing else touches the session meanwhile. */
struct db_bulk {
  struct worker_job job; /* first */
  PGconn *pg;
  struct db_batch *batch;
  const struct db_statement *statements;
  const struct db_call *calls;       /* to be sent; NULL when they were sent before */
  unsigned count;                    /* calls of the batch */
  int64_t time_limit_ms;             /* for everything; then the session counts as broken */
  const struct worker_pool *workers; /* when they stop, the exchange is given up */
  atomic_bool is_given_up;           /* set by the connection: nobody waits any more */
  unsigned answered;                 /* of them, whose results have all arrived */
  /* what came of it */
  PGresult **results;    /* one a call, or NULL; the array is the connection's */
  PGresult *sync_result; /* an error after the last call: of the commit */
  size_t largest_row;    /* bytes of the largest row received */
  bool is_broken;        /* the session; the answer to the Sync did not come */
};

/* The job's `run`: sends what is to be sent and waits for everything up to the Sync's answer. */
void db_bulk_run(struct worker_job *job);

#endif
