/* When the configuration's groups are registered, and when again. */
#include "cluster/configured_groups.h"

#include <ev.h>

#include "base/log.h"
#include "db/control.h"
#include "unit.h"

static struct control_call *sent[16];
static unsigned sent_count;
static struct ev_loop *loop;
static struct configured_groups *configured;

void control_submit(struct control *control, struct control_call *call) {
  assert_null(control);
  assert_int_equal(call->statement, CONTROL_REGISTER_CONFIGURED_GROUP);
  sent[sent_count++] = call;
}

/* Answers the oldest call. */
static void answer(enum control_status status, const char *code) {
  assert_true(sent_count > 0);
  struct control_call *call = sent[0];
  memmove(sent, sent + 1, --sent_count * sizeof *sent);
  const struct control_result result = {.status = status, .code = code, .detail = ""};
  call->on_done(call, &result);
}

static int open_groups(void **state) {
  (void)state;
  static struct config_group_topic topics[] = {{"a", 0}, {"b", 4}};
  static struct config_group groups[] = {{"g", 1, topics, 2}, {"h", 1, topics, 1}};
  sent_count = 0;
  loop = ev_loop_new(EVFLAG_AUTO);
  configured = configured_groups_open(loop, NULL, &(struct config_groups){groups, 2});
  return 0;
}

static int close_groups(void **state) {
  (void)state;
  configured_groups_stop(configured);
  while (sent_count) answer(CONTROL_UNAVAILABLE, "stopping");
  configured_groups_free(configured);
  configured_groups_free(NULL);
  ev_loop_destroy(loop);
  return 0;
}

static void note(const char *topic) {
  configured_groups_note_topic(configured, slice_text(topic));
}

static void all_are_settled_when_each_has_an_answer(void **state) {
  (void)state;
  assert_int_equal(sent_count, 2);
  answer(CONTROL_REFUSED, "topic_not_found");
  assert_false(configured_groups_are_settled(configured));
  answer(CONTROL_OK, "");
  assert_true(configured_groups_are_settled(configured));
}

static void a_refused_group_is_tried_again_when_a_topic_of_its_own_changes(void **state) {
  (void)state;
  answer(CONTROL_REFUSED, "topic_not_found");
  answer(CONTROL_OK, "");
  note("c");
  assert_int_equal(sent_count, 0);
  note("b");
  assert_int_equal(sent_count, 1);
  answer(CONTROL_REFUSED, "topic_not_found");
  assert_int_equal(sent_count, 0);
  note(""); /* perhaps any */
  assert_int_equal(sent_count, 1);
  answer(CONTROL_OK, "");
  note("a");
  assert_int_equal(sent_count, 0); /* both are registered */
}

static void a_change_during_the_call_is_not_missed(void **state) {
  (void)state;
  note("a");
  answer(CONTROL_REFUSED, "topic_not_found");
  answer(CONTROL_OK, "");
  assert_int_equal(sent_count, 1);
  answer(CONTROL_REFUSED, "topic_not_found");
  assert_int_equal(sent_count, 0);
}

static void while_postgresql_is_away_it_is_tried_again(void **state) {
  (void)state;
  answer(CONTROL_UNAVAILABLE, "down");
  answer(CONTROL_TIMED_OUT, "slow");
  assert_int_equal(sent_count, 0);
  assert_false(configured_groups_are_settled(configured));
  while (sent_count < 2) ev_run(loop, EVRUN_ONCE);
  answer(CONTROL_OK, "");
  answer(CONTROL_FAILED, "broken");
  assert_true(configured_groups_are_settled(configured));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_groups, close_groups)

int main(void) {
  log_set_level(LOG_ERROR + 1);
  const struct CMUnitTest tests[] = {
      TEST(all_are_settled_when_each_has_an_answer),
      TEST(a_refused_group_is_tried_again_when_a_topic_of_its_own_changes),
      TEST(a_change_during_the_call_is_not_missed),
      TEST(while_postgresql_is_away_it_is_tried_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
