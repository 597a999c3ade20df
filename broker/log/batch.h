/* A batch of records as stored: immutable but for its transaction's decision, reference counted,
 * shared by the tail cache and by readers.
 *
 * The columns stay in PostgreSQL's binary array format, whether they were read or have just been
 * appended, so nothing is converted twice; a batch_iterator walks them. */
#ifndef PGCURSUS_LOG_BATCH_H
#define PGCURSUS_LOG_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cursor.h"
#include "base/slice.h"
#include "log/columns.h"
#include "log/record.h"

enum batch_kind { BATCH_DATA = 0, BATCH_COMMIT_MARKER = 1, BATCH_ABORT_MARKER = 2 };

/* As far as this node knows; once decided it never changes. */
enum transaction_decision {
  TRANSACTION_UNDECIDED,
  TRANSACTION_DECIDED_COMMIT,
  TRANSACTION_DECIDED_ABORT
};

struct log_batch {
  unsigned references;
  size_t memory; /* bytes of this block */
  int64_t log_id;
  int32_t partition;
  int64_t base_offset;
  int64_t last_offset;
  uint32_t record_count;
  enum batch_kind kind;
  int64_t appended_at; /* microseconds since 1970 */
  struct slice producer_id;
  int64_t producer_epoch;
  int64_t first_sequence;
  int64_t last_sequence;
  int64_t transaction_id; /* 0: none, and then the next two say nothing */
  struct slice transactional_id;
  enum transaction_decision decision; /* touched on the loop's thread only */
  struct slice columns[COLUMN_COUNT]; /* whole binary arrays; empty: NULL */
  struct slice offset_deltas;         /* int4 array; empty: dense */
  struct slice offsets; /* int8 array, when the records lie anywhere; empty: they do not */
};

/* Copies `source` (whose slices view foreign memory) into one block with one reference. Returns
 * NULL when an array is malformed (not one-dimensional, of another type, or not of `record_count`
 * elements) or the offsets contradict each other. */
struct log_batch *log_batch_copy(const struct log_batch *source)
    __attribute__((warn_unused_result));

/* A batch from finished columns that were appended at `base_offset`. */
struct log_batch *log_batch_from_columns(const struct columns *columns, int64_t log_id,
                                         int32_t partition, int64_t base_offset,
                                         int64_t appended_at)
    __attribute__((returns_nonnull, warn_unused_result));

struct log_batch *log_batch_retain(struct log_batch *batch);
void log_batch_release(struct log_batch *batch);

static inline bool log_batch_is_undecided(const struct log_batch *batch) {
  return batch->transaction_id != 0 && batch->decision == TRANSACTION_UNDECIDED;
}

/* Walks the records of a batch in order of offset. */
struct batch_iterator {
  const struct log_batch *batch;
  uint32_t index;
  struct cursor columns[COLUMN_COUNT];
  struct cursor offset_deltas;
  struct cursor offsets;
};

void batch_iterator_begin(struct batch_iterator *iterator, const struct log_batch *batch);

/* The next record, viewing the batch; false at the end. */
bool batch_iterator_next(struct batch_iterator *iterator, struct log_record *record);

#endif
