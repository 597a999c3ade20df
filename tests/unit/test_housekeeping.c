/* The table of housekeeping tasks: what a row must keep so that the session can prepare and run it.
 */
#include "cluster/housekeeping.h"

#include <ev.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "db/values.h"
#include "db_fixture.h"
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
    assert_non_null(strstr(task->statement, task->counts_removed
                                                ? "SELECT done, more, records, bytes FROM pgcursus."
                                                : "SELECT done, more FROM pgcursus."));
  }
}

/* ---- two tasks over a played PostgreSQL ---- */

enum { PLAIN = 4, SERIALIZABLE = 5 }; /* statements; those of the session itself come first */

static struct config config;
static char policy[] = "compact";
static struct housekeeping *housekeeping;

static const struct housekeeping_task tasks[] = {
    {.name = "plain",
     .statement = "SELECT done, more, records, bytes FROM pgcursus.plain($1, $2)",
     .interval = {offsetof(struct config, log_retention_check_interval_ms), DB_INT8},
     .parameters = {{offsetof(struct config, log_retention_hours), DB_INT8},
                    {offsetof(struct config, log_cleanup_policy), DB_TEXT}},
     .counts_removed = true},
    {.name = "serializable",
     .statement = "SELECT done, more FROM pgcursus.serializable()",
     .interval = {offsetof(struct config, log_compaction_check_interval_ms), DB_INT8},
     .is_serializable = true},
};

static int open_all(void **state) {
  (void)state;
  log_set_level(LOG_ERROR + 1);
  db_fixture_begin();
  config = (struct config){.log_retention_check_interval_ms = 60000,
                           .log_compaction_check_interval_ms = 60000,
                           .log_retention_hours = 77,
                           .log_cleanup_policy = policy};
  housekeeping = housekeeping_open(&(struct housekeeping_options){
      .database = &database, .config = &config, .tasks = tasks, .task_count = 2});
  db_fixture_connect();
  return 0;
}

static int close_all(void **state) {
  (void)state;
  housekeeping_close(housekeeping);
  db_fixture_end();
  return 0;
}

static void answer_lock(bool granted) {
  PGresult *rows = db_fixture_result(1);
  db_fixture_set_bool(rows, 0, 0, granted);
  db_fixture_commit(session, &rows, 1);
}

static void answer_step(int64_t done, bool more) {
  PGresult *rows = db_fixture_result(4);
  db_fixture_set_int8(rows, 0, 0, done);
  db_fixture_set_bool(rows, 0, 1, more);
  db_fixture_set_int8(rows, 0, 2, done * 10);
  db_fixture_set_int8(rows, 0, 3, done * 1000);
  db_fixture_commit(session, &rows, 1);
}

static void answer_setting(void) {
  PGresult *no_rows = NULL;
  db_fixture_commit(session, &no_rows, 1);
}

/* Until something is in flight; its statement. `seconds` is how long that may take. */
static unsigned next_statement(double seconds) {
  int64_t deadline = clock_monotonic_us() + (int64_t)(seconds * 1e6);
  while (session->in_flight == 0 && clock_monotonic_us() < deadline) ev_run(loop, EVRUN_ONCE);
  assert_true(session->in_flight > 0);
  return session->sent[session->in_flight - 1].calls->statement;
}

static double total_of(const char *name, const char *task) {
  return metric_value(metric_with(metric_counter(name, "", "task", NULL), task, NULL));
}

static double steps_of(const char *task) {
  return total_of("pgcursus_housekeeping_steps_total", task);
}

static void a_node_asks_for_the_lock_and_again_after_a_second(void **state) {
  (void)state;
  assert_int_equal(session->in_flight, 1); /* at once */
  int64_t start = clock_monotonic_us();
  ev_now_update(loop);
  answer_lock(false);
  assert_false(housekeeping_is_active(housekeeping));
  assert_int_equal(session->in_flight, 0);
  assert_int_equal(next_statement(5), 0);
  assert_true(clock_monotonic_us() - start >= 900000);
  answer_lock(true);
  assert_true(housekeeping_is_active(housekeeping));
}

static void each_task_runs_at_take_over_with_its_settings(void **state) {
  (void)state;
  answer_lock(true);
  assert_int_equal(next_statement(1), PLAIN);
  assert_int_equal(db_fixture_number(&session->sent[0], 0, 0), 77);
  assert_slice_text(db_fixture_bytes(&session->sent[0], 0, 1), "compact");
  answer_step(3, false);
  assert_int_equal(session->in_flight, 0); /* not at once: others come first */
  assert_int_equal(next_statement(5), SERIALIZABLE);
  assert_int_equal(session->in_flight, 2); /* behind the isolation level */
  answer_setting();
  answer_step(0, false);
  ev_run(loop, EVRUN_NOWAIT);
  assert_int_equal(session->in_flight, 0);
}

static void a_step_with_more_to_do_is_followed_by_another(void **state) {
  (void)state;
  answer_lock(true);
  answer_step(1, true);
  assert_int_equal(next_statement(5), SERIALIZABLE); /* the other task is not starved */
  answer_setting();
  answer_step(0, false);
  assert_int_equal(next_statement(5), PLAIN);
  answer_setting(); /* the level is what it was */
  answer_step(1, true);
  assert_int_equal(next_statement(5), PLAIN);
  assert_int_equal(session->in_flight, 1);
  answer_step(1, false);
}

static void what_a_step_removed_is_counted_once_it_is_committed(void **state) {
  (void)state;
  static const char rows[] = "pgcursus_housekeeping_rows_total";
  static const char records[] = "pgcursus_housekeeping_records_total";
  static const char bytes[] = "pgcursus_housekeeping_bytes_total";
  double rows_before = total_of(rows, "plain"), records_before = total_of(records, "plain");
  double bytes_before = total_of(bytes, "plain");
  answer_lock(true);
  answer_step(3, true);
  assert_int_equal(next_statement(5), SERIALIZABLE);
  answer_setting();
  answer_step(5, false);
  assert_int_equal(next_statement(5), PLAIN);
  answer_setting();
  db_fixture_refuse(session, 0, "40001", "a conflict", "");
  assert_int_equal((int)(total_of(rows, "plain") - rows_before), 3);
  assert_int_equal((int)(total_of(records, "plain") - records_before), 30);
  assert_int_equal((int)(total_of(bytes, "plain") - bytes_before), 3000);
}

static void an_interval_counts_from_the_last_step(void **state) {
  (void)state;
  config.log_retention_check_interval_ms = 200;
  answer_lock(true);
  answer_step(0, false);
  int64_t start = clock_monotonic_us();
  ev_now_update(loop);
  assert_int_equal(next_statement(5), SERIALIZABLE);
  answer_setting();
  answer_step(0, false);
  assert_int_equal(next_statement(5), PLAIN);
  assert_true(clock_monotonic_us() - start >= 190000);
}

static void a_conflict_is_tried_again_soon_and_an_error_later(void **state) {
  (void)state;
  answer_lock(true);
  double before = steps_of("plain");
  db_fixture_refuse(session, 0, "55P03", "canceling statement due to lock timeout", "");
  assert_int_equal(next_statement(5), SERIALIZABLE);
  answer_setting();
  db_fixture_refuse(session, 0, "XX000", "something is broken", "");
  assert_int_equal(next_statement(5), PLAIN); /* long before its interval is over */
  assert_true(steps_of("plain") - before == 1);
  answer_setting();
  answer_step(0, false);
  ev_run(loop, EVRUN_NOWAIT);
  assert_int_equal(session->in_flight, 0);
}

static void a_lost_session_is_no_keeper_and_its_successor_asks_anew(void **state) {
  (void)state;
  answer_lock(true);
  assert_true(housekeeping_is_active(housekeeping));
  db_fixture_lose(session); /* in the middle of a step */
  assert_false(housekeeping_is_active(housekeeping));
  db_fixture_make_down(session);
  db_fixture_make_ready(session);
  assert_int_equal(next_statement(1), 0);
  answer_lock(false);
  assert_false(housekeeping_is_active(housekeeping));
}

static void a_new_configuration_counts_from_the_next_step_on(void **state) {
  (void)state;
  struct config changed = config;
  changed.log_retention_hours = 5;
  housekeeping_set_config(housekeeping, &changed);
  answer_lock(true);
  assert_int_equal(db_fixture_number(&session->sent[0], 0, 0), 5);
  housekeeping_set_config(housekeeping, &config);
  answer_step(0, false);
}

#define PLAYED(test) cmocka_unit_test_setup_teardown(test, open_all, close_all)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_task_has_a_name_of_its_own_and_an_interval),
      cmocka_unit_test(a_task_has_a_setting_for_each_parameter_and_no_other),
      PLAYED(a_node_asks_for_the_lock_and_again_after_a_second),
      PLAYED(each_task_runs_at_take_over_with_its_settings),
      PLAYED(a_step_with_more_to_do_is_followed_by_another),
      PLAYED(what_a_step_removed_is_counted_once_it_is_committed),
      PLAYED(an_interval_counts_from_the_last_step),
      PLAYED(a_conflict_is_tried_again_soon_and_an_error_later),
      PLAYED(a_lost_session_is_no_keeper_and_its_successor_asks_anew),
      PLAYED(a_new_configuration_counts_from_the_next_step_on),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
