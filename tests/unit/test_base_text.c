/* Checksums, hashes, clocks, and text that may be anything. */
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/hash.h"
#include "base/text.h"
#include "unit.h"

/* The definition, bit by bit. */
static uint32_t crc32c_slowly(struct slice bytes) {
  uint32_t crc = 0xFFFFFFFFu;
  for (size_t i = 0; i < bytes.length; i++) {
    crc ^= bytes.data[i];
    for (unsigned bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
  }
  return ~crc;
}

static void crc32c_follows_its_definition(void **state) {
  (void)state;
  uint8_t bytes[600];
  uint64_t noise = 11;
  assert_int_equal(crc32c(slice_text("123456789")), 0xE3069283);
  assert_int_equal(crc32c(slice_of(NULL, 0)), 0);
  noise_fill(&noise, bytes, sizeof bytes);
  for (size_t start = 0; start < 16; start++)
    for (size_t length = 0; length < 500; length += 7) {
      struct slice part = slice_of(bytes + start, length);
      assert_int_equal(crc32c(part), crc32c_slowly(part));
    }
}

static void fnv1a_gives_the_published_values(void **state) {
  (void)state;
  assert_int_equal(hash_fnv1a64(slice_text("")), UINT64_C(0xCBF29CE484222325));
  assert_int_equal(hash_fnv1a64(slice_text("a")), UINT64_C(0xAF63DC4C8601EC8C));
  assert_int_equal(hash_fnv1a64(slice_text("foobar")), UINT64_C(0x85944171F73967E8));
}

static void the_clocks_run(void **state) {
  (void)state;
  int64_t before = clock_monotonic_us();
  assert_true(clock_monotonic_us() >= before);
  assert_true(clock_wall_us() > INT64_C(1700000000000000));
}

static void only_valid_utf8_is_utf8(void **state) {
  (void)state;
  static const struct {
    const char *bytes;
    size_t length;
  } cases[] = {
      {"", 0},
      {"\x7F", 1},
      {"\xC2\x80", 2},
      {"\xDF\xBF", 2},
      {"\xE0\xA0\x80", 3},
      {"\xED\x9F\xBF", 3},
      {"\xEF\xBF\xBF", 3},
      {"\xF0\x90\x80\x80", 4},
      {"\xF4\x8F\xBF\xBF", 4},
      /* overlong, surrogate, too large, cut short, stray */
      {"\xC0\x80", 0},
      {"\xC1\xBF", 0},
      {"\xE0\x9F\xBF", 0},
      {"\xED\xA0\x80", 0},
      {"\xF0\x8F\xBF\xBF", 0},
      {"\xF4\x90\x80\x80", 0},
      {"\xF5\x80\x80\x80", 0},
      {"\x80", 0},
      {"\xC2", 0},
      {"\xE1\x80", 0},
      {"\xF1\x80\x80", 0},
      {"\xE1\x80\x41", 0},
      {"\xFF", 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct slice bytes = slice_text(cases[i].bytes);
    assert_int_equal(text_utf8_length(bytes), cases[i].length);
    assert_int_equal(text_is_utf8(bytes), bytes.length == cases[i].length);
  }
  assert_true(text_is_utf8(slice_of("a\0b", 3)));
}

static void assert_json(struct slice bytes, const char *want) {
  struct buffer out = {0};
  text_append_json_string(&out, bytes);
  assert_slice_text(buffer_slice(&out), want);
  buffer_release(&out);
}

static void json_strings_are_always_valid(void **state) {
  (void)state;
  assert_json(slice_text(""), "\"\"");
  assert_json(slice_of("a\0b", 3), "\"a\\u0000b\"");
  assert_json(slice_text("\b\t\n\f\r\"\\/"), "\"\\b\\t\\n\\f\\r\\\"\\\\/\"");
  assert_json(slice_text("\x1F\x7F"), "\"\\u001f\\u007f\"");
  assert_json(slice_text("\xC3\xA9\xF0\x9F\x98\x80"), "\"\xC3\xA9\xF0\x9F\x98\x80\"");
  assert_json(slice_text("\xC3(\xED\xA0\x80"), "\"\\ufffd(\\ufffd\\ufffd\\ufffd\"");
}

static void trimming(void **state) {
  (void)state;
  assert_slice_text(text_trim(slice_text(" \t\r\n\v\f a b \n")), "a b");
  assert_slice_text(text_trim(slice_text("   ")), "");
  assert_slice_text(text_trim(slice_of(NULL, 0)), "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(crc32c_follows_its_definition),
      cmocka_unit_test(fnv1a_gives_the_published_values),
      cmocka_unit_test(the_clocks_run),
      cmocka_unit_test(only_valid_utf8_is_utf8),
      cmocka_unit_test(json_strings_are_always_valid),
      cmocka_unit_test(trimming),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
