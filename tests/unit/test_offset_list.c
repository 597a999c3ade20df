/* The `offsets` field: what is a list, and what is not (commands-2 3.3). */
#include <stdio.h>

#include "base/buffer.h"
#include "crs2/offset_list.h"
#include "unit.h"

static const char *parse(const char *text, struct offset_list *list) {
  return offset_list_parse(slice_text(text), list);
}

static void lists_keep_their_order(void **state) {
  (void)state;
  struct offset_list list;
  assert_null(parse("P7:0,P0:9223372036854775807,P2147483647:5", &list));
  assert_int_equal(list.count, 3);
  assert_int_equal(list.partitions[0], 7);
  assert_int_equal(list.offsets[0], 0);
  assert_int_equal(list.partitions[1], 0);
  assert_true(list.offsets[1] == INT64_MAX);
  assert_int_equal(list.partitions[2], INT32_MAX);
  assert_int_equal(list.offsets[2], 5);
}

static void what_is_no_list_is_refused(void **state) {
  (void)state;
  static const char *const wrong[] = {"",
                                      ",",
                                      "P0:1,",
                                      ",P0:1",
                                      "P0:1,,P1:1",
                                      "p0:1",
                                      "0:1",
                                      "P0",
                                      "P0:",
                                      "P:1",
                                      ":1",
                                      "P",
                                      "P0:x",
                                      "Px:1",
                                      "P0:-1",
                                      "P-1:1",
                                      "P0:+1",
                                      "P0: 1",
                                      "P0:1 ,P1:1",
                                      "P0:1:2",
                                      "P0:1,P0:2",
                                      "P0;1",
                                      "PP0:1",
                                      "P1:1,P01:1",
                                      "P2147483648:1",
                                      "P0:9223372036854775808",
                                      "P0:18446744073709551616"};
  struct offset_list list;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    if (parse(wrong[i], &list) == NULL) fail_msg("taken for a list: %s", wrong[i]);
  }
}

static void a_list_has_at_most_1024_entries(void **state) {
  (void)state;
  struct buffer text = {0};
  struct offset_list list;
  for (int i = 0; i < 1024; i++) buffer_append_format(&text, "%sP%d:%d", i ? "," : "", i, i);
  assert_null(offset_list_parse(buffer_slice(&text), &list));
  assert_int_equal(list.count, 1024);
  buffer_append_text(&text, ",P1024:1");
  assert_non_null(offset_list_parse(buffer_slice(&text), &list));
  buffer_release(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lists_keep_their_order),
      cmocka_unit_test(what_is_no_list_is_refused),
      cmocka_unit_test(a_list_has_at_most_1024_entries),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
