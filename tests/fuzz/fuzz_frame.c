/* Whole frames. The first byte chooses the connection: compression, numbering, and whether the
 * checksum is made right, without which no input would get past it. What decodes must survive a
 * round trip. */
#include "base/crc32c.h"
#include "crs2/wire/frame.h"
#include "fuzz.h"

static void check_round_trip(const struct frame_header *header, struct slice payload,
                             enum command_numbering numbering) {
  struct buffer encoded = {0}, finished = {0}, storage = {0};
  struct frame_header again;
  struct slice decoded;
  FUZZ_CHECK(!frame_encode(&encoded, header, payload));
  size_t start = frame_begin(&finished);
  buffer_append_slice(&finished, payload);
  FUZZ_CHECK(!frame_finish(&finished, start, header));
  FUZZ_CHECK(slice_equals(buffer_slice(&encoded), buffer_slice(&finished)));
  FUZZ_CHECK(!frame_decode_header(encoded.data, header->compression, numbering, &again));
  FUZZ_CHECK(again.kind == header->kind && again.command == header->command &&
             again.status == header->status && again.request_id == header->request_id);
  struct slice bytes = slice_of(encoded.data + FRAME_HEADER_SIZE, again.encoded_length);
  FUZZ_CHECK(!frame_decode_payload(&again, bytes, &storage, &decoded));
  FUZZ_CHECK(slice_equals(decoded, payload));
  buffer_release(&encoded);
  buffer_release(&finished);
  buffer_release(&storage);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1 + FRAME_HEADER_SIZE) return 0;
  enum compression negotiated = (enum compression)(data[0] & 3);
  enum command_numbering numbering = data[0] & 4 ? NUMBERING_SHIFTED : NUMBERING_STANDARD;
  struct frame_header header;
  if (frame_decode_header(data + 1, negotiated, numbering, &header)) return 0;
  FUZZ_CHECK(header.encoded_length <= FRAME_MAX_PAYLOAD);
  FUZZ_CHECK(header.decoded_length <= FRAME_MAX_PAYLOAD);
  struct slice encoded = slice_of(data + 1 + FRAME_HEADER_SIZE, size - 1 - FRAME_HEADER_SIZE);
  if (data[0] & 8) {
    header.encoded_length = (uint32_t)encoded.length;
    header.crc32c = crc32c(encoded);
  }
  struct buffer storage = {0};
  struct slice payload;
  if (!frame_decode_payload(&header, encoded, &storage, &payload)) {
    FUZZ_CHECK(payload.length == header.decoded_length);
    bool handshake = header.kind == FRAME_NEGOTIATION_REQUEST;
    if (!handshake || payload.length <= 10) check_round_trip(&header, payload, numbering);
  }
  buffer_release(&storage);
  return 0;
}
