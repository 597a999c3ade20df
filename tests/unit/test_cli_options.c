/* The option parser of the command line, and its input lines. */
#include "../../client/cli/lines.c"
#include "../../client/cli/options.c"

#include "unit.h"

struct values {
  bool flag;
  const char *text, *choice;
  int64_t number;
};

static enum option_outcome parse(struct values *values, int *words, int argc, char **argv) {
  const struct option_spec options[] = {
      {'e', "exit", NULL, OPTION_FLAG, &values->flag, 0, 0, "x"},
      {'o', "offset", "O", OPTION_TEXT, &values->text, 0, 0, "x"},
      {0, "idempotent", "BOOL", OPTION_SWITCH, &values->choice, 0, 0, "x"},
      {'n', "count", "N", OPTION_INTEGER, &values->number, 1, 10, "x"},
  };
  const struct option_usage usage = {
      .command = "test", .synopsis = "", .description = "x", .options = options, .option_count = 4};
  *values = (struct values){.number = -1};
  return options_parse(&usage, argc, argv, words);
}

#define PARSE(...)                            \
  char *argv[] = {"test", __VA_ARGS__, NULL}; \
  struct values values;                       \
  int words = 0;                              \
  enum option_outcome outcome = parse(&values, &words, (int)(sizeof argv / sizeof *argv) - 1, argv)

static void options_and_words_mix(void **state) {
  (void)state;
  PARSE("a", "-en3", "b", "--offset=-5", "--idempotent", "--", "-c");
  assert_int_equal(outcome, OPTIONS_PARSED);
  assert_true(values.flag);
  assert_int_equal(values.number, 3);
  assert_string_equal(values.text, "-5");
  assert_string_equal(values.choice, "true");
  assert_int_equal(words, 3);
  assert_string_equal(argv[0], "a");
  assert_string_equal(argv[1], "b");
  assert_string_equal(argv[2], "-c");
}

static void a_value_may_look_like_an_option(void **state) {
  (void)state;
  PARSE("-o", "-10", "--idempotent=false", "-");
  assert_int_equal(outcome, OPTIONS_PARSED);
  assert_string_equal(values.text, "-10");
  assert_string_equal(values.choice, "false");
  assert_int_equal(words, 1);
}

#define REFUSED(name, ...)                    \
  static void name(void **state) {            \
    (void)state;                              \
    PARSE(__VA_ARGS__);                       \
    assert_int_equal(outcome, OPTIONS_WRONG); \
  }

REFUSED(an_unknown_option_is_refused, "--nothing")
REFUSED(an_unknown_letter_is_refused, "-x")
REFUSED(a_missing_value_is_refused, "-n")
REFUSED(a_number_out_of_range_is_refused, "-n", "11")
REFUSED(a_number_with_more_behind_it_is_refused, "--count=1x")
REFUSED(a_flag_takes_no_value, "--exit=yes")

/* The last line needs no line feed, and a file ends its line. */
static void lines_are_cut_from_several_files(void **state) {
  (void)state;
  char first[] = "/tmp/pgcursus-lines-XXXXXX";
  char second[] = "/tmp/pgcursus-lines-XXXXXX";
  int a = mkstemp(first);
  int b = mkstemp(second);
  assert_true(a >= 0 && b >= 0);
  assert_int_equal(write(a, "one\n\nthree", 10), 10);
  assert_int_equal(write(b, "four\n", 5), 5);
  char *files[] = {first, second};
  struct line_reader reader;
  lines_open(&reader, files, 2);
  static const char *const expected[] = {"one", "", "three", "four"};
  size_t count = 0;
  while (!reader.ended || reader.searched < reader.bytes.length) {
    assert_null(lines_fill(&reader));
    struct slice line;
    while (lines_next(&reader, &line)) {
      assert_true(count < 4);
      assert_true(slice_equals_text(line, expected[count++]));
      assert_int_equal(reader.line, count);
    }
  }
  assert_int_equal(count, 4);
  lines_close(&reader);
  close(a);
  close(b);
  unlink(first);
  unlink(second);
}

static void a_file_that_is_not_there_is_a_problem(void **state) {
  (void)state;
  char missing[] = "/nonexistent/file";
  char *files[] = {missing};
  struct line_reader reader;
  lines_open(&reader, files, 1);
  assert_non_null(lines_fill(&reader));
  lines_close(&reader);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(options_and_words_mix),
      cmocka_unit_test(a_value_may_look_like_an_option),
      cmocka_unit_test(an_unknown_option_is_refused),
      cmocka_unit_test(an_unknown_letter_is_refused),
      cmocka_unit_test(a_missing_value_is_refused),
      cmocka_unit_test(a_number_out_of_range_is_refused),
      cmocka_unit_test(a_number_with_more_behind_it_is_refused),
      cmocka_unit_test(a_flag_takes_no_value),
      cmocka_unit_test(lines_are_cut_from_several_files),
      cmocka_unit_test(a_file_that_is_not_there_is_a_problem),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
