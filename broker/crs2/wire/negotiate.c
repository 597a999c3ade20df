/* The handshake payloads. The client's order of preference decides, because this broker has all
 * four compressions; an unknown one spoils the whole request and is not skipped (crs2-wire 7). */
#include "crs2/wire/negotiate.h"

#include "base/cursor.h"
#include "crs2/wire/frame.h"

static const char *decode_compressions(struct slice ids, struct negotiation_request *request) {
  unsigned seen = 0;
  for (size_t i = 0; i < ids.length; i++) {
    unsigned id = ids.data[i];
    if (id >= COMPRESSION_COUNT) return "unknown compression";
    if (seen & 1u << id) return "a compression is named twice";
    seen |= 1u << id;
    request->compressions[i] = (enum compression)id;
  }
  return NULL;
}

const char *negotiation_decode_request(struct slice payload, struct negotiation_request *request) {
  struct cursor cursor = cursor_over(payload);
  request->minimum_version = cursor_u16(&cursor);
  request->maximum_version = cursor_u16(&cursor);
  request->compression_count = cursor_u16(&cursor);
  if (cursor.failed) return "the negotiation request is cut short";
  if (request->compression_count < 1 || request->compression_count > COMPRESSION_COUNT)
    return "the number of compressions is not 1 to 4";
  struct slice ids = cursor_take(&cursor, request->compression_count);
  if (!cursor_is_finished(&cursor)) return "the negotiation request has the wrong length";
  if (request->minimum_version == 0 || request->maximum_version < request->minimum_version)
    return "the version range is empty or starts at 0";
  return decode_compressions(ids, request);
}

void negotiation_encode_request(const struct negotiation_request *request, struct buffer *out) {
  buffer_append_u16(out, request->minimum_version);
  buffer_append_u16(out, request->maximum_version);
  buffer_append_u16(out, request->compression_count);
  for (unsigned i = 0; i < request->compression_count; i++)
    buffer_append_u8(out, (uint8_t)request->compressions[i]);
}

const char *negotiation_select(const struct negotiation_request *request,
                               enum compression *compression) {
  if (FRAME_VERSION < request->minimum_version || FRAME_VERSION > request->maximum_version)
    return "the client does not speak version 2";
  *compression = request->compressions[0];
  return NULL;
}

void negotiation_encode_response(enum compression compression, struct buffer *out) {
  buffer_append_u16(out, FRAME_VERSION);
  buffer_append_u8(out, (uint8_t)compression);
}

const char *negotiation_decode_response(struct slice payload, enum compression *compression) {
  struct cursor cursor = cursor_over(payload);
  uint16_t version = cursor_u16(&cursor);
  uint8_t id = cursor_u8(&cursor);
  if (!cursor_is_finished(&cursor)) return "the negotiation response is not 3 bytes";
  if (version != FRAME_VERSION) return "the broker chose another version";
  if (id >= COMPRESSION_COUNT) return "the broker chose an unknown compression";
  *compression = (enum compression)id;
  return NULL;
}
