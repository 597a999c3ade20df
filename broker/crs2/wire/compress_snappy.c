/* snappy: a raw block is written; a raw block or the xerial framing of several is read (crs2-wire
 * 8).
 *
 * The library allocates nothing but needs room for what a block's own header claims, so a claim is
 * believed only when it equals what the frame declared and the bytes that came could produce it. */
#include <endian.h>
#include <snappy-c.h>
#include <stdbool.h>

#include "base/cursor.h"
#include "crs2/wire/compress_codec.h"

/* The densest element is a copy: three bytes that repeat 64. Two left-over bytes repeat at most 11.
 */
#define SNAPPY_COPY_SIZE 3u
#define SNAPPY_COPY_YIELD 64u

#define XERIAL_HEADER_SIZE 16u
static const uint8_t xerial_magic[8] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0};

static const char snappy_invalid[] = "the data is not valid snappy";

/* A literal whose length takes four bytes, less one, least byte first. */
#define SNAPPY_LONG_LITERAL 0xFCu
#define SNAPPY_PLAIN_OVERHEAD 10u /* of a block that is one such literal */

/* One literal. The library begins one every 64 KiB, so that a payload near the frame's limit would
 * not fit. */
static void snappy_store(struct slice plain, struct buffer *out) {
  size_t length = plain.length;
  for (; length > 0x7F; length >>= 7) buffer_append_u8(out, (uint8_t)(length | 0x80));
  buffer_append_u8(out, (uint8_t)length);
  uint32_t last = htole32((uint32_t)plain.length - 1);
  buffer_append_u8(out, SNAPPY_LONG_LITERAL);
  buffer_append(out, &last, sizeof last);
  buffer_append_slice(out, plain);
}

const char *snappy_encode(struct slice plain, struct buffer *out) {
  size_t length = snappy_max_compressed_length(plain.length);
  char *room = (char *)buffer_reserve(out, length);
  if (snappy_compress((const char *)plain.data, plain.length, room, &length) != SNAPPY_OK)
    return "snappy cannot compress this";
  if (length > plain.length + SNAPPY_PLAIN_OVERHEAD) {
    snappy_store(plain, out);
  } else {
    out->length += length;
  }
  return NULL;
}

/* What a block says it holds, refused when it could not. */
static const char *snappy_claim(struct slice block, size_t *claim) {
  if (snappy_uncompressed_length((const char *)block.data, block.length, claim) != SNAPPY_OK)
    return snappy_invalid;
  if (*claim > (block.length / SNAPPY_COPY_SIZE + 1) * SNAPPY_COPY_YIELD)
    return "the snappy block claims more than its bytes can hold";
  return NULL;
}

/* Only for a block whose claim has been checked. */
static const char *snappy_decode_block(struct slice block, size_t claim, struct buffer *out) {
  char *room = (char *)buffer_reserve(out, claim);
  size_t length = claim;
  if (snappy_uncompress((const char *)block.data, block.length, room, &length) != SNAPPY_OK)
    return snappy_invalid;
  out->length += length;
  return NULL;
}

static const char *xerial_next_block(struct cursor *cursor, struct slice *block, size_t *claim) {
  *block = cursor_bytes(cursor);
  return cursor->failed ? compress_cut_short : snappy_claim(*block, claim);
}

/* Two passes: the claims of all blocks must add up before any is decoded. */
static const char *xerial_decode(struct slice blocks, uint32_t decoded_length, struct buffer *out) {
  struct slice block;
  size_t claim;
  uint64_t total = 0;
  const char *refusal = NULL;
  for (struct cursor cursor = cursor_over(blocks); cursor_remaining(&cursor); total += claim) {
    refusal = xerial_next_block(&cursor, &block, &claim);
    if (refusal) return refusal;
  }
  if (total != decoded_length) return "the snappy blocks and the frame disagree on the length";
  for (struct cursor cursor = cursor_over(blocks); cursor_remaining(&cursor) && !refusal;) {
    refusal = xerial_next_block(&cursor, &block, &claim);
    if (!refusal) refusal = snappy_decode_block(block, claim, out);
  }
  return refusal;
}

const char *snappy_decode(struct slice encoded, uint32_t decoded_length, struct buffer *out) {
  if (encoded.length >= sizeof xerial_magic &&
      memcmp(encoded.data, xerial_magic, sizeof xerial_magic) == 0) {
    if (encoded.length < XERIAL_HEADER_SIZE) return compress_cut_short;
    return xerial_decode(
        slice_of(encoded.data + XERIAL_HEADER_SIZE, encoded.length - XERIAL_HEADER_SIZE),
        decoded_length, out);
  }
  size_t claim;
  const char *refusal = snappy_claim(encoded, &claim);
  if (refusal) return refusal;
  if (claim != decoded_length) return "the snappy block and the frame disagree on the length";
  return snappy_decode_block(encoded, claim, out);
}
