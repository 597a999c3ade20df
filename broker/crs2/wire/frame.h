/* CRS2 frames (crs2-wire 2 to 5): a 32-byte header and a payload.
 *
 * Pure functions over bytes. A decoder returns NULL, or a static text that says why the input is
 * refused; every refusal here closes the connection (section 15). */
#ifndef PGCURSUS_CRS2_WIRE_FRAME_H
#define PGCURSUS_CRS2_WIRE_FRAME_H

#include <stdint.h>

#include "base/buffer.h"
#include "base/slice.h"
#include "crs2/wire/command_id.h"
#include "crs2/wire/compress.h"

#define FRAME_HEADER_SIZE 32u
#define FRAME_MAX_PAYLOAD 67108864u
#define FRAME_MAGIC 0x43525332u
#define FRAME_VERSION 2u

enum frame_kind {
  FRAME_NEGOTIATION_REQUEST = 1,
  FRAME_NEGOTIATION_RESPONSE = 2,
  FRAME_REQUEST = 3,
  FRAME_RESPONSE = 4,
  FRAME_STREAM = 5,
};

enum frame_status { FRAME_NONE = 0, FRAME_OK = 1, FRAME_ERROR = 2, FRAME_STREAM_END = 3 };

struct frame_header {
  enum frame_kind kind;
  enum compression compression; /* COMPRESSION_NONE on negotiation frames */
  uint16_t command;             /* as numbered on the wire */
  enum frame_status status;
  uint64_t request_id;
  uint32_t encoded_length; /* bytes that follow the header */
  uint32_t decoded_length;
  uint32_t crc32c; /* of the encoded payload */
};

/* Reads and checks a header, in the order of section 5. `negotiated` is the connection's
 * compression (not looked at on negotiation frames) and `numbering` its command table; negotiation
 * frames may carry 46 or 47 whatever the numbering. */
const char *frame_decode_header(const uint8_t bytes[FRAME_HEADER_SIZE], enum compression negotiated,
                                enum command_numbering numbering, struct frame_header *header)
    __attribute__((warn_unused_result));

/* Checks the CRC and decompresses. `encoded` must be `header->encoded_length` bytes. `*payload` is
 * either a view of `encoded` (no compression) or of bytes appended to the empty buffer `storage`,
 * which the caller releases after use. */
const char *frame_decode_payload(const struct frame_header *header, struct slice encoded,
                                 struct buffer *storage, struct slice *payload)
    __attribute__((warn_unused_result));

/* Begins a frame at the end of `out`: reserves the header and returns its position. The caller
 * appends the plain payload to `out` and then calls frame_finish(). */
size_t frame_begin(struct buffer *out);

/* Compresses the payload written since frame_begin() and fills in the header. `header` gives kind,
 * compression, command (wire number), status and request id; lengths and CRC are computed. On
 * refusal (a length above the limit) `out` is cut back to `start`. */
const char *frame_finish(struct buffer *out, size_t start, const struct frame_header *header)
    __attribute__((warn_unused_result));

/* A whole frame from a payload held elsewhere. */
const char *frame_encode(struct buffer *out, const struct frame_header *header,
                         struct slice payload) __attribute__((warn_unused_result));

#endif
