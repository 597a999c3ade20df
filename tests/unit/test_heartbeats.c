/* Heartbeats: which are answered from memory, and what is written down. */
#include "cluster/heartbeats.h"

#include <ev.h>

#include "base/log.h"
#include "db_fixture.h"
#include "unit.h"

static struct heartbeats *heartbeats;

static int open_all(void **state) {
  (void)state;
  db_fixture_begin();
  heartbeats = heartbeats_open(
      &(struct heartbeats_options){.database = &database, .session_timeout_ms = 30000});
  db_fixture_connect();
  heartbeats_set_listening(heartbeats, true);
  return 0;
}

static int close_all(void **state) {
  (void)state;
  heartbeats_close(heartbeats);
  db_fixture_end();
  return 0;
}

static void learn(const char *member, int64_t generation) {
  heartbeats_learn(heartbeats, heartbeats_changes(heartbeats), slice_text("g"), slice_text(member),
                   slice_text("t"), 11, generation);
}

/* The generation that is answered, or -1 when PostgreSQL must be asked. */
static int64_t beat(const char *member, const char *topic, int64_t claimed) {
  int64_t generation;
  bool known = heartbeats_beat(heartbeats, slice_text("g"), slice_text(member), slice_text(topic),
                               claimed < 0 ? NULL : &claimed, &generation);
  return known ? generation : -1;
}

/* Runs the loop until the timer that writes down has fired. */
static void write_down(void) {
  unsigned before = session->batches;
  for (int i = 0; i < 400 && session->batches == before; i++) {
    ev_now_update(loop);
    ev_run(loop, EVRUN_ONCE);
  }
  assert_int_equal(session->batches, before + 1);
}

static PGresult *written(int64_t generation, bool is_written) {
  PGresult *result = db_fixture_result(2);
  if (generation >= 0) db_fixture_set_int8(result, 0, 0, generation);
  db_fixture_set_bool(result, 0, 1, is_written);
  return result;
}

static void only_what_was_confirmed_is_answered(void **state) {
  (void)state;
  assert_int_equal(beat("m", "t", -1), -1);
  learn("m", 4);
  assert_int_equal(beat("m", "t", 4), 4);
  assert_int_equal(beat("m", "t", -1), 4);
  assert_int_equal(beat("m", "t", 3), -1);
  assert_int_equal(beat("m", "t", 5), -1);
  assert_int_equal(beat("m", "u", 4), -1);
  assert_int_equal(beat("m", "", 4), -1);
  assert_int_equal(beat("n", "t", 4), -1);
}

static void a_change_is_noticed(void **state) {
  (void)state;
  learn("m", 4);
  heartbeats_forget_group(heartbeats, slice_text("other"));
  assert_int_equal(beat("m", "t", 4), 4);
  heartbeats_forget_group(heartbeats, slice_text("g"));
  assert_int_equal(beat("m", "t", 4), -1);
}

static void an_answer_that_a_change_may_have_overtaken_is_not_kept(void **state) {
  (void)state;
  uint64_t changes = heartbeats_changes(heartbeats);
  heartbeats_forget_group(heartbeats, slice_text("g"));
  heartbeats_learn(heartbeats, changes, slice_text("g"), slice_text("m"), slice_text("t"), 11, 4);
  assert_int_equal(beat("m", "t", 4), -1);
}

static void nothing_is_answered_while_changes_are_not_heard(void **state) {
  (void)state;
  learn("m", 4);
  heartbeats_set_listening(heartbeats, false);
  assert_int_equal(beat("m", "t", 4), -1);
  learn("m", 4);
  assert_int_equal(beat("m", "t", 4), -1);
  heartbeats_set_listening(heartbeats, true);
  assert_int_equal(beat("m", "t", 4), -1);
}

static void heartbeats_are_written_down_together_and_only_once(void **state) {
  (void)state;
  learn("m", 4);
  assert_int_equal(beat("m", "t", 4), 4);
  assert_int_equal(beat("m", "t", 4), 4);
  write_down();
  assert_int_equal(session->sent[0].count, 1);
  assert_int_equal(session->in_flight, 1);
  PGresult *results[] = {written(4, true)};
  db_fixture_commit(session, results, 1);
  assert_int_equal(beat("m", "t", 4), 4);
}

static void a_later_generation_is_noticed_when_writing(void **state) {
  (void)state;
  learn("m", 4);
  assert_int_equal(beat("m", "t", 4), 4);
  write_down();
  PGresult *results[] = {written(5, true)};
  db_fixture_commit(session, results, 1);
  assert_int_equal(beat("m", "t", 4), -1);
}

static void what_could_not_be_written_comes_again(void **state) {
  (void)state;
  learn("m", 4);
  assert_int_equal(beat("m", "t", 4), 4);
  write_down();
  PGresult *results[] = {written(4, false)};
  db_fixture_commit(session, results, 1);
  write_down();
  db_fixture_lose(session);
  unsigned before = session->batches;
  db_fixture_make_ready(session);
  assert_int_equal(session->batches, before + 1); /* at once */
  PGresult *gone[] = {written(-1, false)};
  db_fixture_commit(session, gone, 1);
  assert_int_equal(beat("m", "t", 4), -1);
}

static void what_was_accepted_before_a_change_is_still_written(void **state) {
  (void)state;
  learn("m", 4);
  assert_int_equal(beat("m", "t", 4), 4);
  heartbeats_forget_group(heartbeats, slice_text("g"));
  write_down();
  PGresult *results[] = {written(5, true)};
  db_fixture_commit(session, results, 1);
}

int main(void) {
  log_set_level(LOG_ERROR);
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)
  const struct CMUnitTest tests[] = {
      TEST(only_what_was_confirmed_is_answered),
      TEST(a_change_is_noticed),
      TEST(an_answer_that_a_change_may_have_overtaken_is_not_kept),
      TEST(nothing_is_answered_while_changes_are_not_heard),
      TEST(heartbeats_are_written_down_together_and_only_once),
      TEST(a_later_generation_is_noticed_when_writing),
      TEST(what_could_not_be_written_comes_again),
      TEST(what_was_accepted_before_a_change_is_still_written),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
