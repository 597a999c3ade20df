/* The CRS2 handshake payloads (crs2-wire 7). */
#ifndef PGCURSUS_CRS2_WIRE_NEGOTIATE_H
#define PGCURSUS_CRS2_WIRE_NEGOTIATE_H

#include <stdint.h>

#include "base/buffer.h"
#include "base/slice.h"
#include "crs2/wire/compress.h"

struct negotiation_request {
  uint16_t minimum_version;
  uint16_t maximum_version;
  uint16_t compression_count;                       /* 1..4 */
  enum compression compressions[COMPRESSION_COUNT]; /* in the client's order of preference */
};

/* Decoders return NULL or why the payload is refused. A range without version 2 decodes and is
 * refused by negotiation_select(). */
const char *negotiation_decode_request(struct slice payload, struct negotiation_request *request)
    __attribute__((warn_unused_result));
void negotiation_encode_request(const struct negotiation_request *request, struct buffer *out);

/* The client's first choice (this broker has all four compressions), or why nothing fits. */
const char *negotiation_select(const struct negotiation_request *request,
                               enum compression *compression) __attribute__((warn_unused_result));

void negotiation_encode_response(enum compression compression, struct buffer *out);
const char *negotiation_decode_response(struct slice payload, enum compression *compression)
    __attribute__((warn_unused_result));

#endif
