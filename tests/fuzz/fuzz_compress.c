/* The compressions. The first byte names one and a direction, the next four claim a length. What
 * decodes has exactly the claimed length and survives a round trip; what is refused leaves nothing
 * behind and never took memory by the claim alone. */
#include "base/cursor.h"
#include "crs2/wire/compress.h"
#include "fuzz.h"

#define MOST_CLAIMED ((uint32_t)1 << 26)

static void check_round_trip(enum compression compression, struct slice plain) {
  struct buffer encoded = {0}, decoded = {0};
  FUZZ_CHECK(!compress_encode(compression, plain, &encoded));
  FUZZ_CHECK(
      !compress_decode(compression, buffer_slice(&encoded), (uint32_t)plain.length, &decoded));
  FUZZ_CHECK(slice_equals(buffer_slice(&decoded), plain));
  buffer_release(&encoded);
  buffer_release(&decoded);
}

static void check_decode(enum compression compression, struct slice encoded, uint32_t claimed) {
  struct buffer out = {0};
  buffer_append_text(&out, "kept");
  const char *refusal = compress_decode(compression, encoded, claimed, &out);
  FUZZ_CHECK(memcmp(out.data, "kept", 4) == 0);
  FUZZ_CHECK(out.length == (refusal ? 4 : (size_t)claimed + 4));
  /* No codec here makes more than about 1032 bytes of one; then growth may double it. */
  FUZZ_CHECK(out.capacity <= 16384 + 4 * 1032 * encoded.length);
  if (!refusal) check_round_trip(compression, slice_of(out.data + 4, claimed));
  buffer_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct cursor cursor = cursor_over(slice_of(data, size));
  uint8_t mode = cursor_u8(&cursor);
  uint32_t claimed = cursor_u32(&cursor) % MOST_CLAIMED;
  if (cursor.failed) return 0;
  struct slice rest = cursor_take(&cursor, cursor_remaining(&cursor));
  enum compression compression = (enum compression)(mode & 3);
  if (mode & 4)
    check_round_trip(compression, rest);
  else
    check_decode(compression, rest, claimed);
  return 0;
}
