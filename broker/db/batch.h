/* The life of one batch between being sent and being reported: db/connection.c's part in struct
 * db_batch. */
#ifndef PGCURSUS_DB_BATCH_H
#define PGCURSUS_DB_BATCH_H

#include <libpq-fe.h>
#include <stdbool.h>

#include "db/connection.h"

void db_batch_begin(struct db_batch *batch, unsigned count);

/* Gives one result to the batch; the result stays the caller's. */
void db_batch_take(struct db_batch *batch, const PGresult *result);

/* Remembers an error, when it is the first. */
void db_batch_take_error(struct db_batch *batch, const PGresult *result);

/* True when it failed in a way after which its session is of no use. */
bool db_batch_ends_session(const struct db_batch *batch);

/* Report the end, exactly one of them and once: the Sync was answered, or it never will be. The
 * batch is its owner's again. */
void db_batch_complete(struct db_batch *batch);
void db_batch_lose(struct db_batch *batch, const char *reason);

#endif
