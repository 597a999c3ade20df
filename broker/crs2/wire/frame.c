/* CRS2 frames. This file knows the 32 header bytes and in which order they are checked; it neither
 * reads sockets nor looks into payloads. */
#include "crs2/wire/frame.h"

#include <endian.h>
#include <stdbool.h>

#include "base/crc32c.h"
#include "base/cursor.h"
#include "base/memory.h"

#define FLAG_EXPLICIT 0x01u
#define FLAG_COMPRESSION_MASK 0x0Eu
#define FLAG_COMPRESSION_SHIFT 1
#define FLAG_RESERVED 0xF0u

/* Two versions, a count and four ids: a longer handshake is refused before its payload is read. */
#define NEGOTIATION_REQUEST_MAX 10u

#define FRAME_ROOM_WORTH_KEEPING 65536u

static bool is_negotiation(enum frame_kind kind) {
  return kind == FRAME_NEGOTIATION_REQUEST || kind == FRAME_NEGOTIATION_RESPONSE;
}

static const char *check_flags(uint8_t flags, enum compression negotiated,
                               struct frame_header *header) {
  header->compression = COMPRESSION_NONE;
  if (is_negotiation(header->kind)) return flags ? "flags on a negotiation frame" : NULL;
  if (!(flags & FLAG_EXPLICIT)) return "compression is not explicit";
  unsigned compression = (flags & FLAG_COMPRESSION_MASK) >> FLAG_COMPRESSION_SHIFT;
  if (compression >= COMPRESSION_COUNT) return "unknown compression";
  if (compression != (unsigned)negotiated) return "not the negotiated compression";
  header->compression = negotiated;
  return NULL;
}

/* Section 5: which status and request id go with which kind. */
static const char *check_meaning(enum frame_kind kind, uint16_t status, uint64_t request_id) {
  bool allowed = false;
  switch (kind) {
    case FRAME_NEGOTIATION_REQUEST:
    case FRAME_REQUEST:
      allowed = status == FRAME_NONE;
      break;
    case FRAME_NEGOTIATION_RESPONSE:
    case FRAME_RESPONSE:
      allowed = status == FRAME_OK || status == FRAME_ERROR;
      break;
    case FRAME_STREAM:
      allowed = status == FRAME_OK || status == FRAME_ERROR || status == FRAME_STREAM_END;
      break;
  }
  if (!allowed) return "the status does not fit the kind of frame";
  if (request_id == 0 && !is_negotiation(kind)) return "the request id is zero";
  return NULL;
}

static const char *check_command(const struct frame_header *header,
                                 enum command_numbering numbering) {
  if (is_negotiation(header->kind)) {
    uint16_t standard = command_to_wire(NUMBERING_STANDARD, COMMAND_NEGOTIATE);
    uint16_t shifted = command_to_wire(NUMBERING_SHIFTED, COMMAND_NEGOTIATE);
    bool known = header->command == standard || header->command == shifted;
    return known ? NULL : "a negotiation frame with another command";
  }
  return command_from_wire(numbering, header->command) ? NULL : "unknown command";
}

/* What the lengths alone can give away, so that the payload need not be read. */
static const char *check_lengths_agree(const struct frame_header *header) {
  if (header->compression == COMPRESSION_NONE && header->encoded_length != header->decoded_length)
    return "uncompressed, but the two lengths differ";
  if (header->kind == FRAME_NEGOTIATION_REQUEST && header->encoded_length > NEGOTIATION_REQUEST_MAX)
    return "the negotiation request is too long";
  return NULL;
}

const char *frame_decode_header(const uint8_t bytes[FRAME_HEADER_SIZE], enum compression negotiated,
                                enum command_numbering numbering, struct frame_header *header) {
  struct cursor cursor = cursor_over(slice_of(bytes, FRAME_HEADER_SIZE));
  if (cursor_u32(&cursor) != FRAME_MAGIC) return "bad magic";
  if (cursor_u16(&cursor) != FRAME_VERSION) return "unsupported version";
  uint8_t kind = cursor_u8(&cursor);
  if (kind < FRAME_NEGOTIATION_REQUEST || kind > FRAME_STREAM) return "unknown kind of frame";
  header->kind = (enum frame_kind)kind;
  uint8_t flags = cursor_u8(&cursor);
  if (flags & FLAG_RESERVED) return "reserved flags are set";
  const char *refusal = check_flags(flags, negotiated, header);
  if (refusal) return refusal;
  header->command = cursor_u16(&cursor);
  uint16_t status = cursor_u16(&cursor);
  header->request_id = cursor_u64(&cursor);
  header->encoded_length = cursor_u32(&cursor);
  header->decoded_length = cursor_u32(&cursor);
  header->crc32c = cursor_u32(&cursor);
  if (header->encoded_length > FRAME_MAX_PAYLOAD || header->decoded_length > FRAME_MAX_PAYLOAD)
    return "the payload is larger than 64 MiB";
  refusal = check_meaning(header->kind, status, header->request_id);
  if (refusal) return refusal;
  header->status = (enum frame_status)status;
  refusal = check_command(header, numbering);
  return refusal ? refusal : check_lengths_agree(header);
}

const char *frame_decode_payload(const struct frame_header *header, struct slice encoded,
                                 struct buffer *storage, struct slice *payload) {
  if (encoded.length != header->encoded_length) return "the payload is not as long as announced";
  if (crc32c(encoded) != header->crc32c) return "the payload's checksum is wrong";
  if (header->compression == COMPRESSION_NONE) {
    if (header->encoded_length != header->decoded_length)
      return "uncompressed, but the two lengths differ";
    *payload = encoded;
    return NULL;
  }
  const char *refusal =
      compress_decode(header->compression, encoded, header->decoded_length, storage);
  if (!refusal) *payload = buffer_slice(storage);
  return refusal;
}

static void write_header(uint8_t *at, const struct frame_header *header, struct slice encoded,
                         uint32_t decoded_length) {
  struct {
    uint32_t magic;
    uint16_t version;
    uint8_t kind, flags;
    uint16_t command, status;
    uint64_t request_id;
    uint32_t encoded_length, decoded_length, crc32c;
  } __attribute__((packed)) fields = {
      .magic = htobe32(FRAME_MAGIC),
      .version = htobe16(FRAME_VERSION),
      .kind = (uint8_t)header->kind,
      .command = htobe16(header->command),
      .status = htobe16((uint16_t)header->status),
      .request_id = htobe64(header->request_id),
      .encoded_length = htobe32((uint32_t)encoded.length),
      .decoded_length = htobe32(decoded_length),
      .crc32c = htobe32(crc32c(encoded)),
  };
  _Static_assert(sizeof fields == FRAME_HEADER_SIZE, "the header is 32 bytes");
  if (!is_negotiation(header->kind))
    fields.flags =
        (uint8_t)(FLAG_EXPLICIT | (unsigned)header->compression << FLAG_COMPRESSION_SHIFT);
  memcpy(at, &fields, sizeof fields);
}

/* Negotiation frames come before there is a compression. */
static enum compression effective_compression(const struct frame_header *header) {
  return is_negotiation(header->kind) ? COMPRESSION_NONE : header->compression;
}

/* Fills in the header at `start`; everything after it is the encoded payload. */
static const char *seal_frame(struct buffer *out, size_t start, const struct frame_header *header,
                              size_t decoded_length) {
  size_t payload = start + FRAME_HEADER_SIZE;
  struct slice encoded = slice_of(out->data + payload, out->length - payload);
  if (encoded.length > FRAME_MAX_PAYLOAD) return "the compressed payload is larger than 64 MiB";
  write_header(out->data + start, header, encoded, (uint32_t)decoded_length);
  return NULL;
}

size_t frame_begin(struct buffer *out) {
  size_t start = out->length;
  buffer_extend(out, FRAME_HEADER_SIZE);
  return start;
}

/* Compressors need room for the worst case. A frame may wait long in a write queue, so what it does
 * not use goes back; small frames are not worth the call. */
static void give_back_room(struct buffer *frame) {
  if (frame->capacity < FRAME_ROOM_WORTH_KEEPING || frame->length > frame->capacity / 2) return;
  frame->data = memory_resize(frame->data, frame->length);
  frame->capacity = frame->length;
}

/* Replaces the plain payload after the header at `start` by its compressed form. When the frame is
 * all there is in `out`, the new bytes are handed over instead of copied. */
static const char *compress_in_place(struct buffer *out, size_t start, enum compression compression,
                                     struct slice plain) {
  struct buffer scratch = {0};
  buffer_extend(&scratch, FRAME_HEADER_SIZE);
  const char *refusal = compress_encode(compression, plain, &scratch);
  if (!refusal && start == 0) {
    struct buffer replaced = *out;
    *out = scratch;
    scratch = replaced;
    give_back_room(out);
  } else if (!refusal) {
    out->length = start;
    buffer_append_slice(out, buffer_slice(&scratch));
  }
  buffer_release(&scratch);
  return refusal;
}

const char *frame_finish(struct buffer *out, size_t start, const struct frame_header *header) {
  size_t payload = start + FRAME_HEADER_SIZE;
  struct slice plain = slice_of(out->data + payload, out->length - payload);
  enum compression compression = effective_compression(header);
  const char *refusal = NULL;
  if (plain.length > FRAME_MAX_PAYLOAD)
    refusal = "the payload is larger than 64 MiB";
  else if (compression != COMPRESSION_NONE)
    refusal = compress_in_place(out, start, compression, plain);
  if (!refusal) refusal = seal_frame(out, start, header, plain.length);
  if (refusal) out->length = start;
  return refusal;
}

const char *frame_encode(struct buffer *out, const struct frame_header *header,
                         struct slice payload) {
  if (payload.length > FRAME_MAX_PAYLOAD) return "the payload is larger than 64 MiB";
  size_t start = frame_begin(out);
  const char *refusal = compress_encode(effective_compression(header), payload, out);
  if (!refusal) refusal = seal_frame(out, start, header, payload.length);
  if (refusal) out->length = start;
  return refusal;
}
