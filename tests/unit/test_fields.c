/* The types of request fields at their borders (commands-1, "Types"). */
#include "crs2/fields.h"

#include "unit.h"

static struct slice repeated(char *room, size_t length) {
  memset(room, 'a', length);
  return slice_of(room, length);
}

static void integers(void **state) {
  (void)state;
  static const struct {
    const char *text;
    bool valid;
    int64_t value;
  } cases[] = {
      {"0", true, 0},
      {"-0", true, 0},
      {"+0", true, 0},
      {"007", true, 7},
      {"-1", true, -1},
      {"+12", true, 12},
      {"9223372036854775807", true, INT64_MAX},
      {"9223372036854775808", false, 0},
      {"-9223372036854775808", true, INT64_MIN},
      {"-9223372036854775809", false, 0},
      {"18446744073709551615", false, 0},
      {"18446744073709551616", false, 0},
      {"99999999999999999999999", false, 0},
      {"00000000000000000000000000001", true, 1},
      {"", false, 0},
      {"-", false, 0},
      {"+", false, 0},
      {"--1", false, 0},
      {"+-1", false, 0},
      {" 1", false, 0},
      {"1 ", false, 0},
      {"1.0", false, 0},
      {"0x1", false, 0},
      {"1e3", false, 0},
      {"\xD9\xA1", false, 0}, /* an Arabic digit */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t value = 0;
    CHECK(cases[i].text, field_parse_int(slice_text(cases[i].text), &value) == cases[i].valid);
    if (cases[i].valid) CHECK(cases[i].text, value == cases[i].value);
  }
  int64_t value;
  assert_false(field_parse_int(slice_of("1\0", 2), &value));
  assert_false(field_parse_int(slice_of(NULL, 0), &value));
}

static void unsigned_integers(void **state) {
  (void)state;
  static const struct {
    const char *text;
    bool valid;
    uint64_t value;
  } cases[] = {
      {"0", true, 0},
      {"00", true, 0},
      {"18446744073709551615", true, UINT64_MAX},
      {"18446744073709551616", false, 0},
      {"28446744073709551615", false, 0},
      {"184467440737095516150", false, 0},
      {"", false, 0},
      {"+1", false, 0},
      {"-1", false, 0},
      {"1 ", false, 0},
      {"a", false, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint64_t value = 0;
    CHECK(cases[i].text, field_parse_u64(slice_text(cases[i].text), &value) == cases[i].valid);
    if (cases[i].valid) CHECK(cases[i].text, value == cases[i].value);
  }
}

static void booleans(void **state) {
  (void)state;
  static const struct {
    const char *text;
    bool valid, value;
  } cases[] = {
      {"true", true, true},   {"false", true, false},  {"TRUE", true, true},
      {"False", true, false}, {"  true ", true, true}, {"\tfalse", true, false},
      {"1", false, false},    {"0", false, false},     {"yes", false, false},
      {"", false, false},     {" ", false, false},     {"truex", false, false},
      {"tru", false, false},  {"t rue", false, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bool value = true;
    CHECK(cases[i].text, field_parse_bool(slice_text(cases[i].text), &value) == cases[i].valid);
    CHECK(cases[i].text, value == cases[i].value);
  }
}

static void topic_names(void **state) {
  (void)state;
  static const char *const good[] = {"a", "A-Za-z0-9._-=", "...", "..a", "a.", "=", "-", "_", "0"};
  static const char *const bad[] = {"",     ".",   "..",  "a b", "a/b", "a*",       "a?",
                                    "\x7F", "a\n", "a,b", "a:b", "a+b", "\xC3\xA9", "a\\"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    CHECK(good[i], field_check_topic_name(slice_text(good[i])) == NULL);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    CHECK(bad[i], field_check_topic_name(slice_text(bad[i])) != NULL);
  }
  char room[250];
  assert_null(field_check_topic_name(repeated(room, 249)));
  assert_non_null(field_check_topic_name(repeated(room, 250)));
  assert_non_null(field_check_topic_name(slice_of("a\0b", 3)));
}

static void identifiers(void **state) {
  (void)state;
  static const char *const good[] = {"a", "a*b/c", "\xC3\xA9\xE2\x82\xAC", "!\"$%", "..", "a=b,c"};
  static const char *const bad[] = {"",     " ",    "a b",  "a\t",       "\n",
                                    "\x7F", "\xFF", "\xC3", "a\xC0\x80", "\x01"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    CHECK(good[i], field_is_identifier(slice_text(good[i])));
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    CHECK(bad[i], !field_is_identifier(slice_text(bad[i])));
  }
  char room[250];
  assert_true(field_is_identifier(repeated(room, 249)));
  assert_false(field_is_identifier(repeated(room, 250)));
  assert_false(field_is_identifier(slice_of("a\0b", 3)));
}

static void texts(void **state) {
  (void)state;
  assert_true(field_is_text(slice_of(NULL, 0)));
  assert_true(field_is_text(slice_text("any \n\t text \xE2\x82\xAC")));
  assert_false(field_is_text(slice_of("a\0b", 3)));
  assert_false(field_is_text(slice_of("\0", 1)));
  assert_false(field_is_text(slice_text("\xFF")));
  assert_false(field_is_text(slice_text("cut \xE2\x82")));
  assert_false(field_is_text(slice_text("surrogate \xED\xA0\x80")));
}

static void comma_separated_lists(void **state) {
  (void)state;
  static const struct {
    const char *text, *want;
  } cases[] = {{"", ""},           {",", ""},          {" , ,", ""},     {"a", "a"},
               {"a,b", "a,b"},     {" a , b ", "a,b"}, {"a,,b,", "a,b"}, {",a", "a"},
               {"a b,c", "a b,c"}, {"b,a,b", "b,a,b"}, {"\ta\t", "a"}};
  struct arena arena = {0};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_slice_text(field_canonical_csv(&arena, slice_text(cases[i].text)), cases[i].want);
  }
  assert_int_equal(field_canonical_csv(&arena, slice_of(NULL, 0)).length, 0);
  arena_release(&arena);
}

static void letter_case(void **state) {
  (void)state;
  assert_true(field_equals_ignoring_case(slice_text("All"), "all"));
  assert_true(field_equals_ignoring_case(slice_of(NULL, 0), ""));
  assert_false(field_equals_ignoring_case(slice_text("al"), "all"));
  assert_false(field_equals_ignoring_case(slice_text("alls"), "all"));
  assert_false(field_equals_ignoring_case(slice_of("a\0l", 3), "all"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(integers),    cmocka_unit_test(unsigned_integers),
      cmocka_unit_test(booleans),    cmocka_unit_test(topic_names),
      cmocka_unit_test(identifiers), cmocka_unit_test(texts),
      cmocka_unit_test(letter_case), cmocka_unit_test(comma_separated_lists),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
