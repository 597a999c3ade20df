/* The compressions of CRS2 frames (crs2-wire 8): none, gzip, snappy (raw and xerial), lz4 frame.
 *
 * Decoders never produce more than the length they were told and trust no size inside the data. */
#ifndef PGCURSUS_CRS2_WIRE_COMPRESS_H
#define PGCURSUS_CRS2_WIRE_COMPRESS_H

#include <stdint.h>

#include "base/buffer.h"
#include "base/slice.h"

enum compression {
  COMPRESSION_NONE = 0,
  COMPRESSION_GZIP = 1,
  COMPRESSION_SNAPPY = 2,
  COMPRESSION_LZ4 = 3,
};
#define COMPRESSION_COUNT 4

/* Appends the compressed form to `out`. Returns NULL, or why it cannot be done. */
const char *compress_encode(enum compression compression, struct slice plain, struct buffer *out)
    __attribute__((warn_unused_result));

/* Appends exactly `decoded_length` plain bytes to `out`, or returns why the input is refused
 * (static text; `out` is then as before). Memory grows with what is really produced. */
const char *compress_decode(enum compression compression, struct slice encoded,
                            uint32_t decoded_length, struct buffer *out)
    __attribute__((warn_unused_result));

/* "none", "gzip", "snappy", "lz4". */
const char *compression_name(enum compression compression);

#endif
