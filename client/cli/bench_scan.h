/* Counting the records of a batch without decoding them: lengths, offsets and payloads only. */
#ifndef PGCURSUS_CLI_BENCH_SCAN_H
#define PGCURSUS_CLI_BENCH_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct scan {
  uint64_t expected;      /* the offset the next record should have; moved along */
  uint64_t records, gaps; /* added to; a gap is one missing offset */
  uint64_t bytes;         /* of payload */
  /* Called for each payload unless NULL. */
  void (*see)(void *own, struct slice payload);
  void *own;
};

/* False when the batch is malformed, or an offset is lower than expected. */
bool scan_batch(struct slice payload, struct scan *scan);

#endif
