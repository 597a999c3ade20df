/* Offset commits: which share a transaction, what is tried again, and what each is told. */
#include "log/commits.h"

#include <ev.h>

#include "base/clock.h"
#include "base/log.h"
#include "db_fixture.h"
#include "unit.h"

enum { ITEMS = 300 };

struct request {
  struct commit_item item; /* first */
  unsigned answers;
  enum control_status status;
  char code[40], detail[40];
};

static struct commits *commits;
static struct request requests[ITEMS];

static int open_all(void **state) {
  (void)state;
  db_fixture_begin();
  memset(requests, 0, sizeof requests);
  commits = commits_open(&database);
  db_fixture_connect();
  return 0;
}

static int close_all(void **state) {
  (void)state;
  if (commits) commits_close(commits);
  commits = NULL;
  db_fixture_end();
  return 0;
}

static void on_done(struct commit_item *item, const struct control_result *result) {
  struct request *request = (struct request *)item;
  request->answers++;
  request->status = result->status;
  snprintf(request->code, sizeof request->code, "%s", result->code);
  snprintf(request->detail, sizeof request->detail, "%s", result->detail);
}

static struct request *submit(unsigned number, const char *group, int64_t offset) {
  struct request *request = &requests[number];
  request->item.group = slice_text(group);
  request->item.topic = slice_text("t");
  request->item.member = slice_text("m");
  request->item.generation = 3;
  request->item.deadline_us = clock_monotonic_us() + 5000000;
  request->item.on_done = on_done;
  commit_item_add(&request->item, 0, offset);
  commits_submit(commits, &request->item);
  return request;
}

static PGresult *said(int32_t status, const char *code, const char *detail) {
  PGresult *result = db_fixture_result(3);
  db_fixture_set_int4(result, 0, 0, status);
  if (code) db_fixture_set_bytes(result, 0, 1, slice_text(code));
  if (detail) db_fixture_set_bytes(result, 0, 2, slice_text(detail));
  return result;
}

static void assert_told(const struct request *request, enum control_status status) {
  assert_int_equal(request->answers, 1);
  assert_int_equal(request->status, status);
}

static void those_that_arrive_together_share_a_transaction_in_order_of_groups(void **state) {
  (void)state;
  submit(0, "b", 1);
  submit(1, "a", 2);
  submit(2, "c", 3);
  turn();
  assert_int_equal(session->in_flight, 1);
  assert_int_equal(session->sent[0].count, 3);
  assert_slice_text(db_fixture_bytes(&session->sent[0], 0, 0), "a");
  assert_slice_text(db_fixture_bytes(&session->sent[0], 1, 0), "b");
  assert_slice_text(db_fixture_bytes(&session->sent[0], 2, 0), "c");
  assert_int_equal(db_fixture_number(&session->sent[0], 0, 3), 3);
  assert_true(db_fixture_is_null(&session->sent[0], 0, 4));
  submit(3, "a", 9); /* waits for the next */
  turn();
  assert_int_equal(session->in_flight, 1);
  PGresult *results[] = {said(0, NULL, NULL), said(1, "NOT_OWNER", "{}"), said(0, NULL, NULL)};
  db_fixture_commit(session, results, 3);
  assert_told(&requests[1], CONTROL_OK);
  assert_told(&requests[0], CONTROL_REFUSED);
  assert_string_equal(requests[0].code, "NOT_OWNER");
  assert_string_equal(requests[0].detail, "{}");
  assert_told(&requests[2], CONTROL_OK);
  assert_int_equal(session->sent[0].count, 1);
  PGresult *last[] = {said(0, NULL, NULL)};
  db_fixture_commit(session, last, 1);
  assert_told(&requests[3], CONTROL_OK);
}

static void nothing_is_said_before_the_commit(void **state) {
  (void)state;
  struct request *request = submit(0, "g", 1);
  turn();
  assert_int_equal(request->answers, 0);
  PGresult *results[] = {said(0, NULL, NULL)};
  db_fixture_commit(session, results, 1);
  assert_told(request, CONTROL_OK);
}

static void a_group_that_is_busy_is_asked_again(void **state) {
  (void)state;
  struct request *request = submit(0, "g", 1);
  turn();
  PGresult *results[] = {said(2, NULL, NULL)};
  db_fixture_commit(session, results, 1);
  assert_int_equal(request->answers, 0);
  run_until(session->in_flight);
  assert_int_equal(session->in_flight, 1);
  PGresult *again[] = {said(0, NULL, NULL)};
  db_fixture_commit(session, again, 1);
  assert_told(request, CONTROL_OK);
}

static void a_lost_answer_is_asked_for_again_and_a_refusal_then_says_nothing(void **state) {
  (void)state;
  struct request *first = submit(0, "g", 1), *second = submit(1, "h", 2);
  turn();
  db_fixture_lose(session);
  turn();
  assert_int_equal(first->answers + second->answers, 0);
  db_fixture_make_ready(session);
  turn();
  assert_int_equal(session->sent[0].count, 2);
  PGresult *results[] = {said(0, NULL, NULL), said(1, "GEN_MISMATCH", "{}")};
  db_fixture_commit(session, results, 2);
  assert_told(first, CONTROL_OK);
  assert_told(second, CONTROL_UNKNOWN);
}

static void an_error_is_that_of_its_item_and_the_others_go_again(void **state) {
  (void)state;
  struct request *first = submit(0, "a", 1), *bad = submit(1, "b", 2);
  turn();
  db_fixture_refuse(session, 1, "22021", "bad text", "");
  assert_told(bad, CONTROL_FAILED);
  assert_int_equal(first->answers, 0);
  assert_int_equal(session->sent[0].count, 1);
  PGresult *results[] = {said(0, NULL, NULL)};
  db_fixture_commit(session, results, 1);
  assert_told(first, CONTROL_OK);
}

static void trouble_of_the_server_is_everybody_s(void **state) {
  (void)state;
  struct request *first = submit(0, "a", 1), *second = submit(1, "b", 2);
  turn();
  db_fixture_refuse(session, 0, "53100", "disk full", "");
  assert_told(first, CONTROL_UNAVAILABLE);
  assert_told(second, CONTROL_UNAVAILABLE);
}

static void without_a_connection_the_answer_is_that_there_is_none(void **state) {
  (void)state;
  db_fixture_make_down(session);
  struct request *request = submit(0, "g", 1);
  turn();
  assert_told(request, CONTROL_UNAVAILABLE);
}

static void a_deadline_passes_in_the_queue(void **state) {
  (void)state;
  db_fixture_lose(session); /* connecting: worth waiting for */
  struct request *request = submit(0, "g", 1);
  request->item.deadline_us = 1;
  turn();
  run_until(request->answers);
  assert_told(request, CONTROL_TIMED_OUT);
}

static void a_transaction_has_at_most_256(void **state) {
  (void)state;
  for (unsigned i = 0; i < ITEMS; i++) submit(i, "g", i);
  turn();
  assert_int_equal(session->sent[0].count, 256);
}

static void closing_answers_everybody(void **state) {
  (void)state;
  struct request *sent = submit(0, "g", 1);
  turn();
  struct request *queued = submit(1, "g", 1);
  commits_close(commits);
  commits = NULL;
  assert_int_equal(sent->answers, 1);
  assert_int_not_equal(sent->status, CONTROL_OK);
  assert_told(queued, CONTROL_UNAVAILABLE);
}

int main(void) {
  log_set_level(LOG_ERROR);
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)
  const struct CMUnitTest tests[] = {
      TEST(those_that_arrive_together_share_a_transaction_in_order_of_groups),
      TEST(nothing_is_said_before_the_commit),
      TEST(a_group_that_is_busy_is_asked_again),
      TEST(a_lost_answer_is_asked_for_again_and_a_refusal_then_says_nothing),
      TEST(an_error_is_that_of_its_item_and_the_others_go_again),
      TEST(trouble_of_the_server_is_everybody_s),
      TEST(without_a_connection_the_answer_is_that_there_is_none),
      TEST(a_deadline_passes_in_the_queue),
      TEST(a_transaction_has_at_most_256),
      TEST(closing_answers_everybody),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
