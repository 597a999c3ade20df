/* Announcements of appended records: what is written is read back, what is malformed is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/announcement.h"
#include "unit.h"

struct seen {
  struct partition_end ends[4000];
  size_t count;
};

static void collect(void *context, const struct partition_end *end) {
  struct seen *seen = context;
  seen->ends[seen->count++] = *end;
}

static void ends_are_grouped_by_log(void **state) {
  (void)state;
  const struct partition_end ends[] = {{12, 0, 345}, {12, 7, 99}, {13, 0, 1}};
  char text[ANNOUNCEMENT_SIZE];
  assert_int_equal(announcement_encode("me", ends, 3, text), 3);
  assert_string_equal(text, "me 12:0=345,7=99;13:0=1");
}

static void what_is_written_is_read(void **state) {
  (void)state;
  const struct partition_end ends[] = {
      {1, 0, 1}, {1, 65535, INT64_MAX}, {140737488355327, INT32_MAX, 0}};
  char text[ANNOUNCEMENT_SIZE];
  static struct seen seen;
  seen.count = 0;
  assert_int_equal(announcement_encode("me", ends, 3, text), 3);
  assert_true(announcement_decode(text, "you", collect, &seen));
  assert_int_equal(seen.count, 3);
  for (size_t i = 0; i < 3; i++)
    assert_int_equal(partition_end_compare(&ends[i], &seen.ends[i]), 0);
  assert_int_equal(seen.ends[1].end_offset, INT64_MAX);
}

static void a_node_passes_over_its_own(void **state) {
  (void)state;
  static struct seen seen;
  seen.count = 0;
  assert_true(announcement_decode("me 1:0=1", "me", collect, &seen));
  assert_int_equal(seen.count, 0);
  assert_true(announcement_decode("me2 1:0=1", "me", collect, &seen));
  assert_int_equal(seen.count, 1);
}

static void many_ends_are_split_within_the_limit(void **state) {
  (void)state;
  enum { COUNT = 3000 };
  static struct partition_end ends[COUNT];
  static struct seen seen;
  seen.count = 0;
  for (int i = 0; i < COUNT; i++) {
    ends[i] = (struct partition_end){1000000 + i / 10, i % 10, 4000000000000LL + i};
  }
  size_t done = 0, payloads = 0;
  while (done < COUNT) {
    char text[ANNOUNCEMENT_SIZE];
    size_t taken = announcement_encode("me", ends + done, COUNT - done, text);
    assert_true(taken > 0);
    assert_true(strlen(text) < ANNOUNCEMENT_SIZE);
    assert_true(announcement_decode(text, "you", collect, &seen));
    done += taken;
    payloads++;
  }
  assert_true(payloads > 1);
  assert_int_equal(seen.count, COUNT);
  for (int i = 0; i < COUNT; i++) {
    assert_int_equal(partition_end_compare(&ends[i], &seen.ends[i]), 0);
    assert_int_equal(seen.ends[i].end_offset, ends[i].end_offset);
  }
}

static void malformed_texts_are_refused(void **state) {
  (void)state;
  static const char *const texts[] = {"",
                                      "me",
                                      "me ",
                                      "me 1",
                                      "me 1:",
                                      "me 1:2",
                                      "me 1:2=",
                                      "me 1:2=3,",
                                      "me 1:2=3;",
                                      "me 1:2=3;4",
                                      "me 1:2=3 ",
                                      "me :2=3",
                                      "me -1:2=3",
                                      "me 1:-2=3",
                                      "me 1:2=-3",
                                      "me 1:2=x",
                                      "me 1:2=3,4:5",
                                      "me 1:2147483648=1",
                                      "me 1:2=9223372036854775808",
                                      "me 9223372036854775808:1=1"};
  static struct seen seen;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    seen.count = 0;
    if (announcement_decode(texts[i], "you", collect, &seen)) fail_msg("accepted: %s", texts[i]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ends_are_grouped_by_log),
      cmocka_unit_test(what_is_written_is_read),
      cmocka_unit_test(a_node_passes_over_its_own),
      cmocka_unit_test(many_ends_are_split_within_the_limit),
      cmocka_unit_test(malformed_texts_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
