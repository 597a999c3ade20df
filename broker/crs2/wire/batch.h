/* CBV2, the batch payload (crs2-wire 10). */
#ifndef PGCURSUS_CRS2_WIRE_BATCH_H
#define PGCURSUS_CRS2_WIRE_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/slice.h"
#include "crs2/wire/record.h"

#define BATCH_MAX_RECORDS 100000u

/* The smallest record with its length prefix; a count above remaining/this is wrong at once. */
#define BATCH_MIN_RECORD_SIZE 34u

struct batch {
  struct slice topic;
  int32_t partition;
  struct slice acks; /* "", "0", "none", "1", "-1", "all" */
  bool idempotent;
  uint64_t batch_start; /* sequence numbers, not offsets */
  uint64_t batch_end;
  uint32_t record_count;
  struct record *records;
};

/* True when a payload begins as a CBV2 of version 2: its first six bytes decide (section 9). */
bool batch_is_batch(struct slice payload);

/* Decodes a whole batch; slices view `payload`, records live in `arena` (memory grows with the
 * records that are really there). NULL, or why it is refused. */
const char *batch_decode(struct slice payload, struct arena *arena, struct batch *batch)
    __attribute__((warn_unused_result));

/* Appends a batch. A start or end of 0 becomes the first or last record's sequence number. */
const char *batch_encode(const struct batch *batch, struct buffer *out)
    __attribute__((warn_unused_result));

/* Writing a batch record by record, without holding the records: */
struct batch_writer {
  struct buffer *out;
  size_t start;                                        /* where the batch begins in `out` */
  size_t start_position, end_position, count_position; /* places to patch */
  struct slice topic;
  int32_t partition;
  uint32_t count;
  uint64_t first_sequence, last_sequence;
};

/* Begins a batch as the broker sends it: acks "1", flags 0, start and end defaulted by
 * batch_writer_finish(). `topic` must stay valid until then. */
void batch_writer_begin(struct batch_writer *writer, struct buffer *out, struct slice topic,
                        int32_t partition);
const char *batch_writer_add(struct batch_writer *writer, const struct record *record)
    __attribute__((warn_unused_result));
void batch_writer_finish(struct batch_writer *writer);

#endif
