/* What the transaction commands share: their common fields, and one call of a transaction function,
 * repeated while it says that there is more to do. Private to cmd_txn*.c. */
#ifndef PGCURSUS_CRS2_TXN_H
#define PGCURSUS_CRS2_TXN_H

#include <stdbool.h>
#include <stdint.h>

#include "crs2/call.h"
#include "db/control.h"

#define TXN_MAX_OFFSETS 10000
/* Markers that one database transaction writes at most. */
#define TXN_MARKER_BATCH 200

struct txn {
  struct control_call control; /* first */
  struct call *call;
  struct slice transactional_id;
  struct slice producer_id;
  int64_t epoch;
  bool is_repeated;        /* the function was called more than once */
  const char *failed_code; /* for errors of PostgreSQL that no repetition mends */
  /* Answers the call; `rows` has the columns of enum transaction_column. */
  void (*answer)(struct txn *txn, const PGresult *rows);
};

/* The value of a field under the first of its names that has one. Names end with NULL. */
struct slice txn_field(const struct call *call, const char *const names[]);
struct slice txn_transactional_id(const struct call *call);
struct slice txn_producer_id(const struct call *call);

/* Checks of one field each, in whatever order a command has them. False: the call is answered. */
bool txn_check_transactional_id(struct call *call, struct slice id);
bool txn_check_producer_id(struct call *call, struct slice id);
bool txn_read_epoch(struct call *call, int64_t *epoch);

struct txn *txn_create(struct call *call, const char *failed_code,
                       void (*answer)(struct txn *txn, const PGresult *rows))
    __attribute__((returns_nonnull, warn_unused_result));

/* Calls the function; the parameters are set. `is_repeatable`: twice does the same as once. */
void txn_submit(struct txn *txn, enum control_statement statement, bool is_repeatable);

#endif
