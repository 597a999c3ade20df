/* lz4 frames by the LZ4F library (crs2-wire 8), which verifies every checksum that is present. What
 * the library would accept and the protocol does not (dictionaries, skippable and legacy frames,
 * bytes after the frame) is refused here. */
#include <lz4frame.h>

#include "base/cursor.h"
#include "crs2/wire/compress_codec.h"

#define LZ4_DESCRIPTOR_FLAGS 4u /* offset of the descriptor's flag byte, after the magic */
#define LZ4_VERSION_MASK 0xC0u
#define LZ4_VERSION_BITS 0x40u
#define LZ4_RESERVED_FLAG 0x02u
#define LZ4_DICTIONARY_FLAG 0x01u
#define LZ4_RESERVED_LAYOUT 0x8Fu

static const uint8_t lz4_magic[4] = {0x04, 0x22, 0x4D, 0x18};

/* Gives the descriptor 64 70. autoFlush makes the library compress straight from our bytes instead
 * of through a 4 MiB buffer of its own. */
static const LZ4F_preferences_t lz4_preferences = {
    .frameInfo = {.blockSizeID = LZ4F_max4MB,
                  .blockMode = LZ4F_blockIndependent,
                  .contentChecksumFlag = LZ4F_contentChecksumEnabled},
    .autoFlush = 1,
};

/* Adds one step's output, or remembers its failure. */
static void lz4_account(size_t result, struct buffer *out, const char **refusal) {
  if (LZ4F_isError(result))
    *refusal = "lz4 cannot compress this";
  else
    out->length += result;
}

const char *lz4_encode(struct slice plain, struct buffer *out) {
  LZ4F_cctx *context;
  if (LZ4F_isError(LZ4F_createCompressionContext(&context, LZ4F_VERSION)))
    return "lz4 cannot start";
  /* (compressBound covers the end mark and the checksum.) */
  size_t room = LZ4F_HEADER_SIZE_MAX + LZ4F_compressBound(plain.length, &lz4_preferences);
  size_t limit = out->length + room;
  const char *refusal = NULL;
  buffer_reserve(out, room);
  lz4_account(LZ4F_compressBegin(context, out->data + out->length, room, &lz4_preferences), out,
              &refusal);
  if (!refusal && plain.length)
    lz4_account(LZ4F_compressUpdate(context, out->data + out->length, limit - out->length,
                                    plain.data, plain.length, NULL),
                out, &refusal);
  if (!refusal)
    lz4_account(LZ4F_compressEnd(context, out->data + out->length, limit - out->length, NULL), out,
                &refusal);
  LZ4F_freeCompressionContext(context);
  return refusal;
}

static const char *lz4_check_descriptor(struct slice encoded) {
  if (encoded.length < LZ4F_HEADER_SIZE_MIN) return compress_cut_short;
  if (memcmp(encoded.data, lz4_magic, sizeof lz4_magic) != 0) return "the data is not an lz4 frame";
  uint8_t flags = encoded.data[LZ4_DESCRIPTOR_FLAGS];
  uint8_t layout = encoded.data[LZ4_DESCRIPTOR_FLAGS + 1];
  if ((flags & LZ4_VERSION_MASK) != LZ4_VERSION_BITS || (flags & LZ4_RESERVED_FLAG) ||
      (layout & LZ4_RESERVED_LAYOUT))
    return "the lz4 frame has a version or bits that are not known";
  if (flags & LZ4_DICTIONARY_FLAG) return "the lz4 frame needs a dictionary";
  return NULL;
}

/* Runs the library until the frame has ended, the input is used up, or there is too much output. */
static const char *lz4_decode_frame(LZ4F_dctx *context, struct slice encoded,
                                    uint32_t decoded_length, struct buffer *out) {
  size_t before = out->length;
  for (;;) {
    size_t room = compress_next_room(encoded.length, out->length - before, decoded_length);
    if (room == 0) return compress_too_long;
    size_t produced = room, consumed = encoded.length;
    uint8_t *place = buffer_reserve(out, room);
    size_t hint = LZ4F_decompress(context, place, &produced, encoded.data, &consumed, NULL);
    if (LZ4F_isError(hint)) return "the data is not a valid lz4 frame";
    out->length += produced;
    encoded.data += consumed;
    encoded.length -= consumed;
    if (hint == 0) return encoded.length ? "bytes follow the lz4 frame" : NULL;
    if (encoded.length == 0 && produced < room) return compress_cut_short;
  }
}

const char *lz4_decode(struct slice encoded, uint32_t decoded_length, struct buffer *out) {
  const char *refusal = lz4_check_descriptor(encoded);
  if (refusal) return refusal;
  LZ4F_dctx *context;
  if (LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)))
    return "lz4 cannot start";
  size_t before = out->length;
  refusal = lz4_decode_frame(context, encoded, decoded_length, out);
  if (!refusal && out->length - before > decoded_length) refusal = compress_too_long;
  LZ4F_freeDecompressionContext(context);
  return refusal;
}
