/* The compressions of CRS2 frames: the table of codecs and the rule they all obey, that exactly the
 * declared number of bytes comes out or nothing does. */
#include "crs2/wire/compress.h"

#include "crs2/wire/compress_codec.h"

#define COMPRESS_FIRST_ROOM 4096u

const char compress_too_long[] = "the data is longer than its declared length";
const char compress_cut_short[] = "the compressed data is cut short";

static const char *none_encode(struct slice plain, struct buffer *out) {
  buffer_append_slice(out, plain);
  return NULL;
}

static const char *none_decode(struct slice encoded, uint32_t decoded_length, struct buffer *out) {
  if (encoded.length > decoded_length) return compress_too_long;
  buffer_append_slice(out, encoded);
  return NULL;
}

static const struct codec {
  const char *name;
  const char *(*encode)(struct slice plain, struct buffer *out);
  const char *(*decode)(struct slice encoded, uint32_t decoded_length, struct buffer *out);
} codecs[COMPRESSION_COUNT] = {
    [COMPRESSION_NONE] = {"none", none_encode, none_decode},
    [COMPRESSION_GZIP] = {"gzip", gzip_encode, gzip_decode},
    [COMPRESSION_SNAPPY] = {"snappy", snappy_encode, snappy_decode},
    [COMPRESSION_LZ4] = {"lz4", lz4_encode, lz4_decode},
};

size_t compress_next_room(size_t encoded_length, size_t produced, uint32_t decoded_length) {
  size_t limit = (size_t)decoded_length + 1;
  if (produced >= limit) return 0;
  size_t room = produced > encoded_length * 2 ? produced : encoded_length * 2;
  if (room < COMPRESS_FIRST_ROOM) room = COMPRESS_FIRST_ROOM;
  return room < limit - produced ? room : limit - produced;
}

const char *compress_encode(enum compression compression, struct slice plain, struct buffer *out) {
  if ((unsigned)compression >= COMPRESSION_COUNT) return "unknown compression";
  /* The libraries count in 32-bit integers, and no frame may carry more anyway. */
  if (plain.length > INT32_MAX) return "the payload is too long to compress";
  if (!plain.data) plain.data = (const uint8_t *)"";
  size_t before = out->length;
  const char *refusal = codecs[compression].encode(plain, out);
  if (refusal) out->length = before;
  return refusal;
}

const char *compress_decode(enum compression compression, struct slice encoded,
                            uint32_t decoded_length, struct buffer *out) {
  if ((unsigned)compression >= COMPRESSION_COUNT) return "unknown compression";
  if (encoded.length > INT32_MAX) return "the compressed data is too long";
  if (!encoded.data) encoded.data = (const uint8_t *)"";
  size_t before = out->length;
  const char *refusal = codecs[compression].decode(encoded, decoded_length, out);
  if (!refusal && out->length - before != decoded_length)
    refusal = "the data is shorter than its declared length";
  if (refusal) out->length = before;
  return refusal;
}

const char *compression_name(enum compression compression) {
  return (unsigned)compression < COMPRESSION_COUNT ? codecs[compression].name : "unknown";
}
