/* The table of housekeeping tasks: what a row must keep so that the session can prepare and run it.
 */
#include <stdio.h>
#include <string.h>

#include "cluster/housekeeping.h"
#include "db/values.h"
#include "unit.h"

static void a_task_has_a_name_of_its_own_and_an_interval(void **state) {
  (void)state;
  assert_true(housekeeping_task_count > 0);
  for (unsigned i = 0; i < housekeeping_task_count; i++) {
    const struct housekeeping_task *task = &housekeeping_tasks[i];
    assert_true(task->name[strspn(task->name, "abcdefghijklmnopqrstuvwxyz_")] == '\0');
    assert_int_equal(task->interval.type, DB_INT8);
    for (unsigned j = 0; j < i; j++)
      assert_string_not_equal(task->name, housekeeping_tasks[j].name);
  }
}

static void a_task_has_a_setting_for_each_parameter_and_no_other(void **state) {
  (void)state;
  for (unsigned i = 0; i < housekeeping_task_count; i++) {
    const struct housekeeping_task *task = &housekeeping_tasks[i];
    unsigned settings = 0;
    while (settings < HOUSEKEEPING_MAX_PARAMETERS && task->parameters[settings].type) settings++;
    for (unsigned j = 1; j <= HOUSEKEEPING_MAX_PARAMETERS; j++) {
      char place[8];
      snprintf(place, sizeof place, "$%u", j);
      assert_int_equal(strstr(task->statement, place) != NULL, j <= settings);
    }
    assert_non_null(strstr(task->statement, "SELECT done, more FROM pgcursus."));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_task_has_a_name_of_its_own_and_an_interval),
      cmocka_unit_test(a_task_has_a_setting_for_each_parameter_and_no_other),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
