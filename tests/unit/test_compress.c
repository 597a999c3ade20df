/* Compression, from the side of somebody who lies: bombs, wrong lengths, cut and padded data, and
 * the forms other encoders send. The golden vectors are in test_wire_vectors.c. */
#include <lz4frame.h>
#include <snappy-c.h>
#include <zlib.h>

#include "base/memory.h"
#include "crs2/wire/compress.h"
#include "unit.h"

#define MEBIBYTE ((size_t)1 << 20)

static const enum compression compressors[] = {COMPRESSION_GZIP, COMPRESSION_SNAPPY,
                                               COMPRESSION_LZ4};
#define COMPRESSOR_COUNT (sizeof compressors / sizeof *compressors)

static struct buffer compressed(enum compression id, struct slice plain) {
  struct buffer out = {0};
  assert_null(compress_encode(id, plain, &out));
  return out;
}

/* Decodes and expects exactly these bytes, after what `out` already held. */
static void assert_decodes(enum compression id, struct slice encoded, struct slice plain) {
  struct buffer out = {0};
  buffer_append_text(&out, "kept");
  const char *refusal = compress_decode(id, encoded, (uint32_t)plain.length, &out);
  if (refusal) fail_msg("%s: %s", compression_name(id), refusal);
  assert_int_equal(out.length, plain.length + 4);
  assert_memory_equal(out.data, "kept", 4);
  assert_slices(slice_of(out.data + 4, plain.length), plain);
  buffer_release(&out);
}

/* Expects a refusal that leaves `out` as it was and took no more than `most` bytes of memory. */
static void assert_refused(enum compression id, struct slice encoded, uint32_t length,
                           size_t most) {
  struct buffer out = {0};
  buffer_append_text(&out, "kept");
  assert_non_null(compress_decode(id, encoded, length, &out));
  assert_slice_text(buffer_slice(&out), "kept");
  assert_true(out.capacity <= most);
  buffer_release(&out);
}

static struct slice sample_text(char *text, size_t size) {
  size_t length = 0;
  for (unsigned i = 0; length + 40 < size; i++)
    length += (size_t)snprintf(text + length, 40, "{\"order\":%u,\"state\":\"paid\"}", i * 7919);
  return slice_of(text, length);
}

static void what_is_encoded_decodes(void **state) {
  (void)state;
  uint64_t noise = 88172645463325252u;
  static const size_t sizes[] = {0, 1, 2, 63, 64, 65, 1000, 4096, 65535, 65536, 65537, 1 << 20};
  uint8_t *bytes = malloc(MEBIBYTE);
  for (unsigned repeat = 0; repeat < 3; repeat++) {
    noise_fill(&noise, bytes, MEBIBYTE);
    for (size_t i = 0; repeat && i < MEBIBYTE; i++) bytes[i] &= repeat == 1 ? 3 : 0;
    for (size_t size = 0; size < sizeof sizes / sizeof *sizes; size++)
      for (unsigned id = 0; id < COMPRESSION_COUNT; id++) {
        struct slice plain = slice_of(bytes, sizes[size]);
        struct buffer encoded = compressed((enum compression)id, plain);
        assert_decodes((enum compression)id, buffer_slice(&encoded), plain);
        buffer_release(&encoded);
      }
  }
  free(bytes);
}

static void an_empty_payload_is_still_encoded(void **state) {
  (void)state;
  for (size_t i = 0; i < COMPRESSOR_COUNT; i++) {
    struct buffer encoded = compressed(compressors[i], slice_of(NULL, 0));
    assert_true(encoded.length > 0);
    assert_decodes(compressors[i], buffer_slice(&encoded), slice_of("", 0));
    buffer_release(&encoded);
    assert_refused(compressors[i], slice_of(NULL, 0), 0, 4096);
    assert_refused(compressors[i], slice_of(NULL, 0), 100, 4096);
  }
}

/* A record that only just fits a frame must fit a compressed one as far as the format allows. */
static void noise_grows_no_more_than_the_format_demands(void **state) {
  (void)state;
  static const size_t most[] = {18 + 5 * 65, 10, 15 + 4 * 4 + 4 + 4}; /* 4 MiB */
  size_t length = 4 * MEBIBYTE;
  uint8_t *noise = memory_allocate(length);
  uint64_t seed = 1234567;
  noise_fill(&seed, noise, length);
  for (size_t i = 0; i < COMPRESSOR_COUNT; i++) {
    struct buffer out = compressed(compressors[i], slice_of(noise, length));
    assert_true(out.length > length && out.length <= length + most[i]);
    assert_decodes(compressors[i], buffer_slice(&out), slice_of(noise, length));
    buffer_release(&out);
  }
  free(noise);
}

static void none_keeps_both_lengths_equal(void **state) {
  (void)state;
  assert_refused(COMPRESSION_NONE, slice_text("abc"), 2, 4096);
  assert_refused(COMPRESSION_NONE, slice_text("abc"), 4, 4096);
  assert_decodes(COMPRESSION_NONE, slice_of(NULL, 0), slice_of("", 0));
}

static void sixty_four_mebibytes_of_zeros(void **state) {
  (void)state;
  size_t length = 64 * MEBIBYTE;
  uint8_t *zeros = calloc(1, length);
  for (size_t i = 0; i < COMPRESSOR_COUNT; i++) {
    struct buffer encoded = compressed(compressors[i], slice_of(zeros, length));
    struct slice bytes = buffer_slice(&encoded);
    assert_decodes(compressors[i], bytes, slice_of(zeros, length));
    /* Claims far below and just around the truth. What is produced before the refusal follows the
     * claim or the bytes that came, whichever is less. */
    assert_refused(compressors[i], bytes, 1, 64 + 4096);
    assert_refused(compressors[i], bytes, 100000, 4 * 100000);
    assert_refused(compressors[i], bytes, (uint32_t)length - 1, 2 * length + 64);
    assert_refused(compressors[i], bytes, (uint32_t)length + 1, 2 * length + 64);
    buffer_release(&encoded);
  }
  free(zeros);
}

static void a_claim_reserves_no_memory(void **state) {
  (void)state;
  char text[2048];
  struct slice plain = sample_text(text, sizeof text);
  for (size_t i = 0; i < COMPRESSOR_COUNT; i++) {
    struct buffer encoded = compressed(compressors[i], plain);
    assert_refused(compressors[i], buffer_slice(&encoded), 64 * MEBIBYTE, 32768);
    assert_refused(compressors[i], buffer_slice(&encoded), UINT32_MAX, 32768);
    buffer_release(&encoded);
  }
}

static void data_cut_at_any_byte_is_refused(void **state) {
  (void)state;
  char text[1500];
  struct slice plain = sample_text(text, sizeof text);
  for (size_t i = 0; i < COMPRESSOR_COUNT; i++) {
    struct buffer encoded = compressed(compressors[i], plain);
    for (size_t length = 0; length < encoded.length; length++) {
      uint8_t *copy = malloc(length ? length : 1);
      memcpy(copy, encoded.data, length);
      assert_refused(compressors[i], slice_of(copy, length), (uint32_t)plain.length, 16384);
      free(copy);
    }
    buffer_release(&encoded);
  }
}

static void a_byte_after_the_end_is_refused(void **state) {
  (void)state;
  struct slice plain = slice_text("twelve bytes");
  for (size_t i = 0; i < COMPRESSOR_COUNT; i++)
    for (unsigned extra = 0; extra < 256; extra++) {
      struct buffer encoded = compressed(compressors[i], plain);
      buffer_append_u8(&encoded, (uint8_t)extra);
      assert_refused(compressors[i], buffer_slice(&encoded), 12, 4096);
      assert_refused(compressors[i], buffer_slice(&encoded), 13, 4096);
      buffer_release(&encoded);
    }
}

/* Every bit of gzip and lz4 but a few of gzip's header is covered by a check; snappy has none, so
 * for it only safety is tested. */
static void flipped_bits_are_noticed(void **state) {
  (void)state;
  char text[300];
  struct slice plain = sample_text(text, sizeof text);
  for (size_t i = 0; i < COMPRESSOR_COUNT; i++) {
    struct buffer encoded = compressed(compressors[i], plain);
    for (size_t bit = 0; bit < encoded.length * 8; bit++) {
      struct buffer out = {0};
      encoded.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
      const char *refusal =
          compress_decode(compressors[i], buffer_slice(&encoded), (uint32_t)plain.length, &out);
      bool same = !refusal && slice_equals(buffer_slice(&out), plain);
      assert_true(refusal || same || compressors[i] == COMPRESSION_SNAPPY);
      encoded.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
      buffer_release(&out);
    }
    buffer_release(&encoded);
  }
}

/* ---- gzip ---- */

static void gzip_members_are_joined(void **state) {
  (void)state;
  struct buffer all = {0}, empty = compressed(COMPRESSION_GZIP, slice_of(NULL, 0));
  struct buffer first = compressed(COMPRESSION_GZIP, slice_text("first "));
  struct buffer second = compressed(COMPRESSION_GZIP, slice_text("second"));
  buffer_append_slice(&all, buffer_slice(&first));
  for (unsigned i = 0; i < 1000; i++) buffer_append_slice(&all, buffer_slice(&empty));
  buffer_append_slice(&all, buffer_slice(&second));
  buffer_append_slice(&all, buffer_slice(&empty));
  assert_decodes(COMPRESSION_GZIP, buffer_slice(&all), slice_text("first second"));
  /* A second member that is wrong or cut spoils the whole. */
  all.data[all.length - 1] ^= 1;
  assert_refused(COMPRESSION_GZIP, buffer_slice(&all), 12, 65536);
  all.length--;
  assert_refused(COMPRESSION_GZIP, buffer_slice(&all), 12, 65536);
  buffer_release(&all);
  buffer_release(&empty);
  buffer_release(&first);
  buffer_release(&second);
}

/* Compresses with zlib directly, in the wrapper that `window_bits` selects. */
static size_t deflate_as(int window_bits, int level, struct slice plain, uint8_t *out,
                         size_t size) {
  z_stream stream = {.next_in = (Bytef *)(uintptr_t)plain.data,
                     .avail_in = (uInt)plain.length,
                     .next_out = out,
                     .avail_out = (uInt)size};
  assert_int_equal(deflateInit2(&stream, level, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY),
                   Z_OK);
  assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
  deflateEnd(&stream);
  return stream.total_out;
}

static void only_the_gzip_wrapper_is_gzip(void **state) {
  (void)state;
  char text[900];
  uint8_t out[2048];
  struct slice plain = sample_text(text, sizeof text);
  for (int level = 0; level <= 9; level++) {
    size_t length = deflate_as(15 + 16, level, plain, out, sizeof out);
    assert_decodes(COMPRESSION_GZIP, slice_of(out, length), plain);
  }
  size_t zlib_length = deflate_as(15, 6, plain, out, sizeof out);
  assert_refused(COMPRESSION_GZIP, slice_of(out, zlib_length), (uint32_t)plain.length, 16384);
  size_t raw_length = deflate_as(-15, 6, plain, out, sizeof out);
  assert_refused(COMPRESSION_GZIP, slice_of(out, raw_length), (uint32_t)plain.length, 16384);
}

/* ---- snappy ---- */

static const uint8_t xerial_header[16] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0,
                                          0,    0,   0,   1,   0,   0,   0,   1};

static void append_block(struct buffer *out, struct slice plain) {
  struct buffer block = compressed(COMPRESSION_SNAPPY, plain);
  buffer_append_u32(out, (uint32_t)block.length);
  buffer_append_slice(out, buffer_slice(&block));
  buffer_release(&block);
}

static void xerial_blocks_are_joined(void **state) {
  (void)state;
  char *text = malloc(200000);
  struct slice plain = sample_text(text, 200000);
  struct buffer out = {0};
  buffer_append(&out, xerial_header, sizeof xerial_header);
  assert_decodes(COMPRESSION_SNAPPY, buffer_slice(&out), slice_of("", 0));
  for (size_t at = 0; at < plain.length; at += 32768) {
    size_t length = plain.length - at < 32768 ? plain.length - at : 32768;
    append_block(&out, slice_of(plain.data + at, length));
    append_block(&out, slice_of(NULL, 0));
  }
  assert_decodes(COMPRESSION_SNAPPY, buffer_slice(&out), plain);
  memset(out.data + 8, 0xFF, 8); /* the two versions mean nothing */
  assert_decodes(COMPRESSION_SNAPPY, buffer_slice(&out), plain);
  uint32_t length = (uint32_t)plain.length;
  assert_refused(COMPRESSION_SNAPPY, buffer_slice(&out), length - 1, 64);
  assert_refused(COMPRESSION_SNAPPY, buffer_slice(&out), length + 1, 64);
  buffer_release(&out);
  free(text);
}

static void broken_xerial_is_refused(void **state) {
  (void)state;
  struct buffer out = {0};
  buffer_append(&out, xerial_header, sizeof xerial_header);
  for (size_t length = 8; length < 16; length++)
    assert_refused(COMPRESSION_SNAPPY, slice_of(xerial_header, length), 0, 64);
  append_block(&out, slice_text("whole"));
  size_t whole = out.length;
  append_block(&out, slice_text("second block"));
  for (size_t length = 17; length < out.length; length++) {
    assert_refused(COMPRESSION_SNAPPY, slice_of(out.data, length), 17, 128);
    if (length != whole) assert_refused(COMPRESSION_SNAPPY, slice_of(out.data, length), 5, 128);
  }
  buffer_append_u32(&out, 0); /* a block of no bytes lacks its own length */
  assert_refused(COMPRESSION_SNAPPY, buffer_slice(&out), 17, 128);
  buffer_release(&out);
}

/* The block's own header is a claim like any other. */
static void a_snappy_claim_must_be_plausible(void **state) {
  (void)state;
  static const uint8_t one_gibibyte[] = {0x80, 0x80, 0x80, 0x80, 0x04, 0x00, 'x'};
  assert_refused(COMPRESSION_SNAPPY, slice_of(one_gibibyte, sizeof one_gibibyte), 1u << 30, 64);
  static const uint8_t sixty_four_mebibytes[] = {0x80, 0x80, 0x80, 0x20, 0x00, 'x'};
  assert_refused(COMPRESSION_SNAPPY, slice_of(sixty_four_mebibytes, sizeof sixty_four_mebibytes),
                 64u << 20, 64);
  static const uint8_t endless_varint[] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
  assert_refused(COMPRESSION_SNAPPY, slice_of(endless_varint, sizeof endless_varint), 5, 64);
  /* Many blocks whose claims each pass must still add up to what the frame says. */
  struct buffer out = {0};
  buffer_append(&out, xerial_header, sizeof xerial_header);
  for (unsigned i = 0; i < 1000; i++) append_block(&out, slice_text("ten bytes."));
  assert_refused(COMPRESSION_SNAPPY, buffer_slice(&out), 9999, 64);
  buffer_release(&out);
}

/* The densest legal block: copies of 64 bytes in three. The bound must let it pass. */
static void the_densest_snappy_block_passes(void **state) {
  (void)state;
  enum { COPIES = 10000 };
  struct buffer block = {0}, plain = {0};
  uint32_t length = 1 + 64 * COPIES, rest = length;
  for (; rest >= 0x80; rest >>= 7) buffer_append_u8(&block, (uint8_t)(rest | 0x80));
  buffer_append_u8(&block, (uint8_t)rest);
  buffer_append(&block, "\0x", 2);
  for (unsigned i = 0; i < COPIES; i++) buffer_append(&block, "\xFE\x01\0", 3);
  memset(buffer_extend(&plain, length), 'x', length);
  assert_decodes(COMPRESSION_SNAPPY, buffer_slice(&block), buffer_slice(&plain));
  buffer_release(&block);
  buffer_release(&plain);
}

/* ---- lz4 ---- */

static struct buffer lz4_with(const LZ4F_preferences_t *preferences, struct slice plain) {
  struct buffer out = {0};
  size_t room = LZ4F_compressFrameBound(plain.length, preferences) + 64;
  size_t length =
      LZ4F_compressFrame(buffer_reserve(&out, room), room, plain.data, plain.length, preferences);
  assert_false(LZ4F_isError(length));
  out.length = length;
  return out;
}

static void every_lz4_option_is_read(void **state) {
  (void)state;
  char *text = malloc(300000);
  struct slice plain = sample_text(text, 300000);
  for (unsigned options = 0; options < 64; options++) {
    LZ4F_preferences_t preferences = {
        .frameInfo = {
            .blockSizeID = (LZ4F_blockSizeID_t)(LZ4F_max64KB + (options & 3)),
            .blockMode = options & 4 ? LZ4F_blockIndependent : LZ4F_blockLinked,
            .contentChecksumFlag =
                options & 8 ? LZ4F_contentChecksumEnabled : LZ4F_noContentChecksum,
            .blockChecksumFlag = options & 16 ? LZ4F_blockChecksumEnabled : LZ4F_noBlockChecksum,
            .contentSize = options & 32 ? plain.length : 0}};
    struct buffer encoded = lz4_with(&preferences, plain);
    assert_decodes(COMPRESSION_LZ4, buffer_slice(&encoded), plain);
    assert_refused(COMPRESSION_LZ4, buffer_slice(&encoded), (uint32_t)plain.length - 1, 1 << 20);
    buffer_release(&encoded);
  }
  free(text);
}

static void our_lz4_descriptor_is_the_references(void **state) {
  (void)state;
  static const uint8_t start[] = {0x04, 0x22, 0x4D, 0x18, 0x64, 0x70, 0xB9};
  const char *plain[] = {"", "short", "a longer text a longer text a longer text"};
  for (size_t i = 0; i < 3; i++) {
    struct buffer encoded = compressed(COMPRESSION_LZ4, slice_text(plain[i]));
    assert_memory_equal(encoded.data, start, sizeof start);
    buffer_release(&encoded);
  }
}

static void foreign_lz4_forms_are_refused(void **state) {
  (void)state;
  struct slice plain = slice_text("some plain text");
  LZ4F_preferences_t with_dictionary = {.frameInfo = {.dictID = 7}};
  struct buffer encoded = lz4_with(&with_dictionary, plain);
  assert_refused(COMPRESSION_LZ4, buffer_slice(&encoded), 15, 4096);
  buffer_release(&encoded);
  /* A skippable frame, alone and in front of a good one; a legacy frame. */
  struct buffer frame = compressed(COMPRESSION_LZ4, plain), out = {0};
  buffer_append(&out, "\x50\x2A\x4D\x18\x04\0\0\0skip", 12);
  assert_refused(COMPRESSION_LZ4, buffer_slice(&out), 0, 4096);
  buffer_append_slice(&out, buffer_slice(&frame));
  assert_refused(COMPRESSION_LZ4, buffer_slice(&out), 15, 4096);
  out.length = 0;
  buffer_append(&out, "\x02\x21\x4C\x18\x02\0\0\0\x10x", 10);
  assert_refused(COMPRESSION_LZ4, buffer_slice(&out), 1, 4096);
  /* Two frames in a row are bytes after the first. */
  out.length = 0;
  buffer_append_slice(&out, buffer_slice(&frame));
  buffer_append_slice(&out, buffer_slice(&frame));
  assert_refused(COMPRESSION_LZ4, buffer_slice(&out), 30, 4096);
  buffer_release(&frame);
  buffer_release(&out);
}

static void an_unknown_compression_is_refused(void **state) {
  (void)state;
  struct buffer out = {0};
  assert_non_null(compress_encode((enum compression)4, slice_text("x"), &out));
  assert_non_null(compress_decode((enum compression)7, slice_text("x"), 1, &out));
  assert_string_equal(compression_name((enum compression)4), "unknown");
  assert_string_equal(compression_name(COMPRESSION_SNAPPY), "snappy");
  buffer_release(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_encoded_decodes),
      cmocka_unit_test(an_empty_payload_is_still_encoded),
      cmocka_unit_test(none_keeps_both_lengths_equal),
      cmocka_unit_test(sixty_four_mebibytes_of_zeros),
      cmocka_unit_test(a_claim_reserves_no_memory),
      cmocka_unit_test(data_cut_at_any_byte_is_refused),
      cmocka_unit_test(a_byte_after_the_end_is_refused),
      cmocka_unit_test(flipped_bits_are_noticed),
      cmocka_unit_test(gzip_members_are_joined),
      cmocka_unit_test(only_the_gzip_wrapper_is_gzip),
      cmocka_unit_test(xerial_blocks_are_joined),
      cmocka_unit_test(broken_xerial_is_refused),
      cmocka_unit_test(a_snappy_claim_must_be_plausible),
      cmocka_unit_test(the_densest_snappy_block_passes),
      cmocka_unit_test(every_lz4_option_is_read),
      cmocka_unit_test(our_lz4_descriptor_is_the_references),
      cmocka_unit_test(foreign_lz4_forms_are_refused),
      cmocka_unit_test(an_unknown_compression_is_refused),
      cmocka_unit_test(noise_grows_no_more_than_the_format_demands),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
