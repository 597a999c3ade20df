/* What TXN_PUBLISH and TXN_APPEND_STREAM share: one record on its way into a transaction, and its
 * answers. Private to cmd_txn_publish.c and cmd_txn_append_stream.c. */
#ifndef PGCURSUS_CRS2_TXN_RECORD_H
#define PGCURSUS_CRS2_TXN_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "crs2/publish.h"

/* The source of a struct publish; outlives the payload of a large request. */
struct txn_record {
  struct append_transaction transaction;
  struct log_record record;
  bool is_event; /* TXN_APPEND_STREAM */
  bool has_key;
  uint64_t key_hash;
};

/* seqNum, from 1 on. False: the call has been answered. */
bool txn_record_read_sequence(struct call *call, int64_t *sequence);

/* A copy that ends with NUL, in the call's arena. */
struct slice txn_record_keep(struct call *call, struct slice text);

/* For struct publish. */
const char *txn_record_build_row(struct publish *publish);
bool txn_record_answer(struct publish *publish, const struct append_result *result);

#endif
