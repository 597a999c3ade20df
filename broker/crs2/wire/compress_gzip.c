/* gzip by zlib: one member is written, any number is read (crs2-wire 8). zlib verifies the checksum
 * and the size of each member; what follows the last one must be nothing. */
#include <stdbool.h>
#define ZLIB_CONST /* makes the library take const input */
#include <zlib.h>

#include "crs2/wire/compress_codec.h"

/* Added to the window size, this selects the gzip wrapper and nothing else. */
#define GZIP_WRAPPER 16

/* What storing adds: to each block, and to the whole. */
#define GZIP_STORED_BLOCK 65535u
#define GZIP_STORED_OVERHEAD 5u
#define GZIP_ENVELOPE 18u

/* zlib's state costs up to 256 KiB that is cleared for every frame. A small payload needs no larger
 * window than itself, and a smaller one cannot change what it compresses to by much. */
static int gzip_window_bits(size_t length) {
  int bits = 9;
  while (bits < MAX_WBITS && ((size_t)1 << bits) < length) bits++;
  return bits;
}

static const char *gzip_encode_at(int level, struct slice plain, struct buffer *out) {
  z_stream stream = {0};
  int bits = gzip_window_bits(plain.length);
  if (deflateInit2(&stream, level, Z_DEFLATED, bits + GZIP_WRAPPER, bits - 7, Z_DEFAULT_STRATEGY) !=
      Z_OK)
    return "gzip cannot start";
  uLong room = deflateBound(&stream, (uLong)plain.length);
  stream.next_in = plain.data;
  stream.avail_in = (uInt)plain.length;
  stream.next_out = buffer_reserve(out, room);
  stream.avail_out = (uInt)room;
  int result = deflate(&stream, Z_FINISH);
  out->length += stream.total_out;
  deflateEnd(&stream);
  return result == Z_STREAM_END ? NULL : "gzip cannot compress this";
}

/* A fetch is compressed anew for each consumer, on the loop: speed before the last few percent.
 * What only grows is stored, in blocks four times as long, so that more of what is near the frame's
 * limit fits. */
const char *gzip_encode(struct slice plain, struct buffer *out) {
  size_t before = out->length;
  const char *refusal = gzip_encode_at(Z_BEST_SPEED, plain, out);
  size_t stored = plain.length + GZIP_STORED_OVERHEAD * (plain.length / GZIP_STORED_BLOCK + 1);
  if (refusal || out->length - before <= stored + GZIP_ENVELOPE) return refusal;
  out->length = before;
  return gzip_encode_at(Z_NO_COMPRESSION, plain, out);
}

/* Reads one step's worth; `*ended` when the last member has ended at the end of the input. */
static const char *gzip_decode_step(z_stream *stream, size_t room, struct buffer *out,
                                    bool *ended) {
  stream->next_out = buffer_reserve(out, room);
  stream->avail_out = (uInt)room;
  int result = inflate(stream, Z_NO_FLUSH);
  out->length += room - stream->avail_out;
  switch (result) {
    case Z_STREAM_END:
      *ended = stream->avail_in == 0;
      return *ended || inflateReset(stream) == Z_OK ? NULL : "gzip cannot restart";
    case Z_OK:
    case Z_BUF_ERROR:
      /* With room left over, only missing input can have stopped it. */
      return stream->avail_out ? compress_cut_short : NULL;
    default:
      return "the data is not valid gzip";
  }
}

const char *gzip_decode(struct slice encoded, uint32_t decoded_length, struct buffer *out) {
  z_stream stream = {.next_in = encoded.data, .avail_in = (uInt)encoded.length};
  if (inflateInit2(&stream, MAX_WBITS + GZIP_WRAPPER) != Z_OK) return "gzip cannot start";
  size_t before = out->length;
  const char *refusal = NULL;
  bool ended = false;
  while (!refusal && !ended) {
    size_t room = compress_next_room(encoded.length, out->length - before, decoded_length);
    refusal = room ? gzip_decode_step(&stream, room, out, &ended) : compress_too_long;
  }
  if (!refusal && out->length - before > decoded_length) refusal = compress_too_long;
  inflateEnd(&stream);
  return refusal;
}
