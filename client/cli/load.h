/* Publish requests made in advance, and the payloads that --verify recognises.
 *
 * A load holds one request per partition. When nothing in it changes between two sends its frame is
 * reused as it is; otherwise only the places that differ are patched and the frame is made anew. */
#ifndef PGCURSUS_CLI_LOAD_H
#define PGCURSUS_CLI_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "bench.h"

/* The smallest payload that can be verified. */
#define LOAD_MIN_VERIFIED_SIZE 20

struct load_template {
  struct buffer payload; /* CRQ2 for single records, else CBV2 */
  struct buffer frame;
  size_t message, producer, stride; /* of the first record; distance to the next */
  size_t range;                     /* of the batch's first and last sequence */
  size_t sequence;                  /* of the digits, in a single record */
};

struct load {
  const struct bench_options *options;
  int compression;
  bool changes;     /* each request differs */
  uint32_t run;     /* random, so that two runs in one topic are told apart */
  uint64_t *counts; /* [connection * partitions + partition]: records sent so far */
  struct load_template *templates;
};

void load_open(struct load *load, const struct bench_options *options, int compression);

/* The next request of this connection to this partition; valid until the next call. `stamp` is
 * stored in the payload in place of the sequence when it is not 0. NULL, with the reason in
 * `problem`, when such a request cannot be made. */
struct buffer *load_next(struct load *load, size_t connection, int32_t partition, int64_t stamp,
                         const char **problem);

void load_close(struct load *load);

/* Reads a payload made by a load: false when it is damaged or something else. */
bool load_read_payload(struct slice payload, uint32_t *producer, uint64_t *sequence);

#endif
