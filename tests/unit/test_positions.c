/* What a connection remembers of its consumers. */
#include <stdio.h>

#include "crs2/positions.h"
#include "unit.h"

static struct position_key key_of(const char *group, const char *member, const char *topic,
                                  int64_t generation, int32_t partition) {
  return (struct position_key){.group = slice_text(group),
                               .member = slice_text(member),
                               .topic = slice_text(topic),
                               .generation = generation,
                               .partition = partition};
}

static void every_part_of_the_key_counts(void **state) {
  (void)state;
  struct positions positions = {0};
  const struct position_key key = key_of("g", "m", "t", 1, 0);
  assert_int_equal(positions_find(&positions, &key), -1);
  positions_put(&positions, &key, 7);
  assert_int_equal(positions_find(&positions, &key), 7);
  const struct position_key others[] = {
      key_of("h", "m", "t", 1, 0), key_of("g", "n", "t", 1, 0), key_of("g", "m", "u", 1, 0),
      key_of("g", "m", "t", 2, 0), key_of("g", "m", "t", 1, 1), key_of("g", "m", "t", -1, 0),
      key_of("gm", "", "t", 1, 0), key_of("", "gm", "t", 1, 0), key_of("g", "mt", "", 1, 0),
  };
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    assert_int_equal(positions_find(&positions, &others[i]), -1);
  }
  positions_put(&positions, &key, 3);
  assert_int_equal(positions_find(&positions, &key), 3);
  positions_release(&positions);
}

static void the_longest_unchanged_makes_room(void **state) {
  (void)state;
  struct positions positions = {0};
  const struct position_key first = key_of("g", "m", "t", 1, 0),
                            second = key_of("g", "m", "t", 1, 1);
  positions_put(&positions, &first, 1);
  positions_put(&positions, &second, 2);
  for (int32_t i = 2; i < 2048; i++) {
    const struct position_key key = key_of("g", "m", "t", 1, i);
    positions_put(&positions, &key, i);
  }
  positions_put(&positions, &first, 9);
  const struct position_key one_more = key_of("g", "m", "t", 1, 2048);
  positions_put(&positions, &one_more, 5);
  assert_int_equal(positions_find(&positions, &first), 9);
  assert_int_equal(positions_find(&positions, &one_more), 5);
  assert_int_equal(positions_find(&positions, &second), -1);
  positions_release(&positions);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_part_of_the_key_counts),
      cmocka_unit_test(the_longest_unchanged_makes_room),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
