/* The records gathered for one CONSUME, or for one frame of a STREAM, and their batch. */
#ifndef PGCURSUS_CRS2_CONSUME_ANSWER_H
#define PGCURSUS_CRS2_CONSUME_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "log/batch.h"
#include "net/budget.h"

/* A stored batch, read from `from_offset` on. */
struct consume_part {
  struct log_batch *batch; /* retained */
  int64_t from_offset;
};

struct consume_answer {
  struct consume_part *parts;
  unsigned part_count, part_capacity;
  uint64_t records; /* visible ones */
  size_t bytes;     /* of the batches held */
  int64_t max_records;
  size_t max_bytes;     /* of the batch that is built; the first record always goes in */
  unsigned built_parts; /* after the batch was built: parts that went in whole */
};

void consume_answer_init(struct consume_answer *answer, int64_t max_records);

/* Adds what is visible of a batch from an offset on. */
void consume_answer_add(struct consume_answer *answer, struct log_batch *batch, int64_t from_offset,
                        bool is_uncommitted);

bool consume_answer_is_full(const struct consume_answer *answer, int64_t max_records);

/* Bytes that may still be read for this answer: what a frame holds, and less when requests in
 * progress already hold much of the memory budget. */
int64_t consume_answer_room(const struct consume_answer *answer,
                            const struct memory_budget *budget);

/* Appends the CBV2 batch: at most max_records records, at most max_bytes, at least one record if
 * there is any. Returns the offset of the first record that did not go in, -1 when all did; it is
 * in the part number built_parts. Touches only the answer, so it may run on a worker thread. */
int64_t consume_answer_build(struct consume_answer *answer, struct slice topic, int32_t partition,
                             struct buffer *out);

void consume_answer_release(struct consume_answer *answer);

#endif
