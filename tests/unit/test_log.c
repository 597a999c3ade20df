/* The log, read back through a pipe put in the place of standard error. */
#include "base/log.h"

#include <errno.h>
#include <json-c/json.h>
#include <pthread.h>
#include <unistd.h>

#include "unit.h"

static int saved_stderr, read_end;
static char captured[65536];

static void capture_begin(void) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  saved_stderr = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  close(ends[1]);
  read_end = ends[0];
}

/* What was written since capture_begin(); restores standard error. */
static char *capture_end(void) {
  dup2(saved_stderr, STDERR_FILENO);
  close(saved_stderr);
  size_t length = 0;
  ssize_t count;
  while ((count = read(read_end, captured + length, sizeof captured - 1 - length)) > 0)
    length += (size_t)count;
  captured[length] = '\0';
  close(read_end);
  return captured;
}

static int reset(void **state) {
  (void)state;
  log_set_level(LOG_DEBUG);
  log_set_format(LOG_TEXT);
  return 0;
}

/* Checks the shape of the time stamp and returns what follows it. */
static const char *after_timestamp(const char *line) {
  static const char shape[] = "dddd-dd-ddTdd:dd:dd.dddZ ";
  for (size_t i = 0; shape[i]; i++) {
    bool digit = line[i] >= '0' && line[i] <= '9';
    if (shape[i] == 'd' ? !digit : line[i] != shape[i]) fail_msg("time stamp: %s", line);
  }
  return line + strlen(shape);
}

static void a_text_line(void **state) {
  (void)state;
  capture_begin();
  log_event(LOG_WARN, "handshake failed", "peer", "10.0.0.1:5", "reason", "bad magic", "skipped",
            NULL, "empty", "", "equals", "a=b", "quote", "say \"hi\"", "lines", "a\nb\x01", "utf8",
            "caf\xC3\xA9", "broken", "\xFF", NULL);
  assert_string_equal(after_timestamp(capture_end()),
                      "WARN handshake failed peer=10.0.0.1:5 reason=\"bad magic\" empty=\"\" "
                      "equals=\"a=b\" quote=\"say \\\"hi\\\"\" lines=\"a\\nb\\u0001\" "
                      "utf8=caf\xC3\xA9 broken=\"\\ufffd\"\n");
}

static void a_message_cannot_break_the_line(void **state) {
  (void)state;
  capture_begin();
  log_event(LOG_ERROR, "one\ntwo\x1B", NULL);
  assert_string_equal(after_timestamp(capture_end()), "ERROR one two \n");
}

static const char *json_member(struct json_object *object, const char *key) {
  struct json_object *member = NULL;
  json_object_object_get_ex(object, key, &member);
  return member ? json_object_get_string(member) : NULL;
}

static void a_json_line_is_one_object(void **state) {
  (void)state;
  log_set_format(LOG_JSON);
  capture_begin();
  log_event(LOG_INFO, "a \"message\"\n", "topic", "x\\y", "gone", NULL, "bad", "\xC3(", NULL);
  char *line = capture_end();
  assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
  struct json_object *object = json_tokener_parse(line);
  assert_non_null(object);
  assert_string_equal(json_member(object, "level"), "info");
  assert_string_equal(json_member(object, "message"), "a \"message\"\n");
  assert_string_equal(json_member(object, "topic"), "x\\y");
  assert_string_equal(json_member(object, "bad"), "\xEF\xBF\xBD(");
  assert_null(json_member(object, "gone"));
  assert_int_equal(strlen(json_member(object, "time")), 24);
  json_object_put(object);
}

static void levels_below_the_threshold_are_silent(void **state) {
  (void)state;
  log_set_level(LOG_WARN);
  assert_false(log_is_enabled(LOG_INFO));
  assert_true(log_is_enabled(LOG_WARN));
  capture_begin();
  log_event(LOG_DEBUG, "no", NULL);
  log_event(LOG_INFO, "no", NULL);
  assert_string_equal(capture_end(), "");
}

static void a_long_value_is_cut_at_a_character(void **state) {
  (void)state;
  char value[5000];
  for (size_t i = 0; i + 2 < sizeof value; i += 2) memcpy(value + i, "\xC3\xA9", 2);
  value[4998] = '\0';
  memmove(value + 1, value, 4998);
  value[0] = 'x';
  capture_begin();
  log_event(LOG_INFO, "m", "v", value, NULL);
  const char *line = after_timestamp(capture_end());
  assert_int_equal(strlen(line), strlen("INFO m v=") + 2047 + 1);
  assert_null(strchr(line, '"'));
}

static void errno_is_left_alone(void **state) {
  (void)state;
  capture_begin();
  close(STDERR_FILENO); /* the write fails */
  errno = ENOENT;
  log_event(LOG_ERROR, "m", NULL);
  assert_int_equal(errno, ENOENT);
  capture_end();
}

static void level_names(void **state) {
  (void)state;
  enum log_level level = LOG_DEBUG;
  assert_true(log_parse_level("error", &level));
  assert_int_equal(level, LOG_ERROR);
  assert_true(log_parse_level("debug", &level));
  assert_int_equal(level, LOG_DEBUG);
  assert_false(log_parse_level("loud", &level));
  assert_false(log_parse_level("", &level));
}

static void *write_lines(void *argument) {
  for (unsigned i = 0; i < 100; i++) log_event(LOG_INFO, "line", "who", argument, NULL);
  return NULL;
}

static void lines_of_threads_do_not_mix(void **state) {
  (void)state;
  pthread_t threads[4];
  static char who[4][2] = {"a", "b", "c", "d"};
  capture_begin();
  for (unsigned i = 0; i < 4; i++) pthread_create(&threads[i], NULL, write_lines, who[i]);
  for (unsigned i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  unsigned count = 0;
  for (char *line = strtok(capture_end(), "\n"); line; line = strtok(NULL, "\n"), count++) {
    const char *rest = after_timestamp(line);
    assert_memory_equal(rest, "INFO line who=", 14);
    assert_int_equal(strlen(rest), 15);
  }
  assert_int_equal(count, 400);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(a_text_line, reset),
      cmocka_unit_test_setup(a_message_cannot_break_the_line, reset),
      cmocka_unit_test_setup(a_json_line_is_one_object, reset),
      cmocka_unit_test_setup(levels_below_the_threshold_are_silent, reset),
      cmocka_unit_test_setup(a_long_value_is_cut_at_a_character, reset),
      cmocka_unit_test_setup(errno_is_left_alone, reset),
      cmocka_unit_test_setup(level_names, reset),
      cmocka_unit_test_setup(lines_of_threads_do_not_mix, reset),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
