/* What the compressions share with compress.c; private to the codecs. */
#ifndef PGCURSUS_CRS2_WIRE_COMPRESS_CODEC_H
#define PGCURSUS_CRS2_WIRE_COMPRESS_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/slice.h"

/* Both append to `out`. A decoder that refuses may leave bytes behind; compress_decode() cuts them
 * off, and checks that exactly `decoded_length` bytes came. */
const char *gzip_encode(struct slice plain, struct buffer *out) __attribute__((warn_unused_result));
const char *gzip_decode(struct slice encoded, uint32_t decoded_length, struct buffer *out)
    __attribute__((warn_unused_result));
const char *snappy_encode(struct slice plain, struct buffer *out)
    __attribute__((warn_unused_result));
const char *snappy_decode(struct slice encoded, uint32_t decoded_length, struct buffer *out)
    __attribute__((warn_unused_result));
const char *lz4_encode(struct slice plain, struct buffer *out) __attribute__((warn_unused_result));
const char *lz4_decode(struct slice encoded, uint32_t decoded_length, struct buffer *out)
    __attribute__((warn_unused_result));

/* How much room a streaming decoder asks for next, given what the peer really sent and what came of
 * it so far: memory follows these two, never the claimed length, which only caps it. One byte more
 * than the claim is allowed, to notice an excess. Zero when the output is already too long. */
size_t compress_next_room(size_t encoded_length, size_t produced, uint32_t decoded_length);

extern const char compress_too_long[];  /* "the data is longer than its declared length" */
extern const char compress_cut_short[]; /* "the compressed data is cut short" */

#endif
