/* How the command line shows records. The file under test belongs to a program, not to a library,
 * hence the inclusion. */
#include "../../client/cli/format.c"

#include "unit.h"

static char *written;
static size_t written_length;

static FILE *open_text(void) {
  return open_memstream(&written, &written_length);
}

static void assert_written(FILE *file, const char *text) {
  fclose(file);
  assert_string_equal(written, text);
  free(written);
}

static const struct pgcursus_record *sample(void) {
  static struct pgcursus_record record;
  record = (struct pgcursus_record){.offset = 12,
                                    .payload = pgcursus_text("hi"),
                                    .key = pgcursus_text("key"),
                                    .timestamp_ms = 1700000000123};
  return &record;
}

static void every_directive_is_replaced(void **state) {
  (void)state;
  FILE *file = open_text();
  format_record(file, "%t|%p|%o|%k|%s|%T|%S|%K|%%\\t\\x41\\\\\\n", pgcursus_text("orders"), 3,
                sample());
  assert_written(file, "orders|3|12|key|hi|1700000000123|2|3|%\tA\\\n");
}

static void invalid_formats_are_named(void **state) {
  (void)state;
  assert_null(format_check("%s\\n"));
  assert_null(format_check(""));
  assert_non_null(format_check("%"));
  assert_non_null(format_check("%z"));
  assert_non_null(format_check("\\"));
  assert_non_null(format_check("\\q"));
  assert_non_null(format_check("\\x4"));
  assert_non_null(format_check("\\x4g"));
}

static void json_escapes_what_it_must(void **state) {
  (void)state;
  struct pgcursus_record record = {.offset = 1, .payload = pgcursus_text("a\"b\\c\nd\x01\xc3\xa9")};
  FILE *file = open_text();
  format_record_json(file, pgcursus_text("t"), 0, &record);
  assert_written(file,
                 "{\"topic\":\"t\",\"partition\":0,\"offset\":1,\"payload\":"
                 "\"a\\\"b\\\\c\\nd\\u0001\xc3\xa9\"}\n");
}

static void bytes_that_are_no_text_come_as_base64(void **state) {
  (void)state;
  static const char *const bytes[] = {"\xff",     "\xff\xfe",     "\xff\xfe\xfd",
                                      "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80"};
  static const char *const expected[] = {"/w==", "//4=", "//79", "wIA=", "7aCA", "9JCAgA=="};
  for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
    struct pgcursus_record record = {.payload = pgcursus_text(bytes[i])};
    char line[200];
    snprintf(line, sizeof line,
             "{\"topic\":\"t\",\"partition\":0,\"offset\":0,\"payload_base64\":\"%s\"}\n",
             expected[i]);
    FILE *file = open_text();
    format_record_json(file, pgcursus_text("t"), 0, &record);
    assert_written(file, line);
  }
}

static void a_listing_has_a_line_a_record(void **state) {
  (void)state;
  const struct pgcursus_batch batch = {
      .topic = pgcursus_text("orders"), .partition = 2, .record_count = 1, .records = sample()};
  FILE *file = open_text();
  format_batch_listing(file, &batch);
  assert_written(file,
                 "BATCH topic=orders partition=2 records=1\n"
                 "  offset=12 timestamp=1700000000123 key=\"key\" payload=\"hi\"\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_directive_is_replaced),
      cmocka_unit_test(invalid_formats_are_named),
      cmocka_unit_test(json_escapes_what_it_must),
      cmocka_unit_test(bytes_that_are_no_text_come_as_base64),
      cmocka_unit_test(a_listing_has_a_line_a_record),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
