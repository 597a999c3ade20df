/* Control-plane calls: what is tried again and until when, and what each caller is told. */
#include "db/control.h"

#include <ev.h>

#include "base/clock.h"
#include "base/log.h"
#include "db/array.h"
#include "db/control_batch.h"
#include "db_fixture.h"
#include "unit.h"

enum { CALLS = 16, LONG_AGO = 1 };

struct caller {
  struct control_call call; /* first */
  unsigned answers;
  enum control_status status;
  int rows;
  int32_t value;
  char code[80], detail[80];
};

static struct control *control;
static struct caller callers[CALLS];
static unsigned used;

static int open_with(unsigned connections) {
  db_fixture_begin();
  used = 0;
  memset(callers, 0, sizeof callers);
  control =
      control_open(&(struct control_options){.database = &database, .connections = connections});
  db_fixture_connect();
  return 0;
}

static int open_one(void **state) {
  (void)state;
  return open_with(1);
}

static int open_two(void **state) {
  (void)state;
  return open_with(2);
}

static int close_all(void **state) {
  (void)state;
  if (control) control_close(control);
  control = NULL;
  db_fixture_end();
  return 0;
}

static void on_done(struct control_call *call, const struct control_result *result) {
  struct caller *caller = (struct caller *)call;
  caller->answers++;
  caller->status = result->status;
  caller->rows = result->rows ? PQntuples(result->rows) : -1;
  if (caller->rows > 0) caller->value = db_get_int4(result->rows, 0, 0);
  snprintf(caller->code, sizeof caller->code, "%s", result->code);
  snprintf(caller->detail, sizeof caller->detail, "%s", result->detail);
}

static struct caller *submit(bool is_read_only) {
  struct caller *caller = &callers[used++];
  caller->call.statement = CONTROL_TOPIC_DEFINITION;
  caller->call.is_read_only = is_read_only;
  caller->call.deadline_us = clock_monotonic_us() + 60000000;
  caller->call.parameters[0] = db_bytes(slice_text("t"));
  caller->call.on_done = on_done;
  control_submit(control, &caller->call);
  return caller;
}

static void assert_told(const struct caller *caller, enum control_status status) {
  assert_int_equal(caller->answers, 1);
  assert_int_equal(caller->status, status);
}

static void commit(struct db_connection *connection, int32_t value) {
  PGresult *rows = db_fixture_result(1);
  db_fixture_set_int4(rows, 0, 0, value);
  db_fixture_commit(connection, &rows, 1);
}

/* Until a call is in flight again. */
static void wait_for_retry(void) {
  run_until(session->in_flight);
  assert_int_equal(session->in_flight, 1);
}

/* ---- the common way ---- */

static void a_call_is_one_transaction_and_its_rows_reach_the_caller(void **state) {
  (void)state;
  struct caller *caller = submit(false);
  assert_int_equal(session->batches, 0); /* never before submit has returned */
  turn();
  assert_int_equal(session->sent[0].count, 1);
  assert_int_equal(session->sent[0].calls->statement, CONTROL_TOPIC_DEFINITION);
  assert_slice_text(db_fixture_bytes(&session->sent[0], 0, 0), "t");
  commit(session, 42);
  assert_told(caller, CONTROL_OK);
  assert_int_equal(caller->rows, 1);
  assert_int_equal(caller->value, 42);
}

static void calls_wait_their_turn_in_order(void **state) {
  (void)state;
  for (unsigned i = 0; i < 5; i++) submit(false);
  turn();
  for (unsigned i = 0; i < 5; i++) {
    assert_int_equal(session->in_flight, 1);
    for (unsigned j = 0; j < 5; j++) assert_int_equal(callers[j].answers, j < i);
    commit(session, (int32_t)i);
    assert_int_equal(callers[i].value, i);
  }
}

static void sessions_work_side_by_side(void **state) {
  (void)state;
  for (unsigned i = 0; i < 3; i++) submit(false);
  turn();
  assert_int_equal(db_fixture[0]->in_flight, 1);
  assert_int_equal(db_fixture[1]->in_flight, 1);
  commit(db_fixture[1], 1);
  assert_told(&callers[1], CONTROL_OK);
  assert_int_equal(callers[0].answers, 0);
  assert_int_equal(db_fixture[1]->in_flight, 1);
}

static void a_call_without_rows_has_none(void **state) {
  (void)state;
  struct caller *caller = submit(false);
  turn();
  PGresult *none = db_fixture_result(1);
  db_fixture_commit(session, &none, 1);
  assert_told(caller, CONTROL_OK);
  assert_int_equal(caller->rows, 0);
}

/* ---- refusals and conflicts ---- */

static void a_refusal_by_rule_is_passed_on(void **state) {
  (void)state;
  struct caller *caller = submit(false);
  turn();
  db_fixture_refuse(session, 0, "PC001", "topic_exists", "{\"topic\": \"t\"}");
  assert_told(caller, CONTROL_REFUSED);
  assert_string_equal(caller->code, "topic_exists");
  assert_string_equal(caller->detail, "{\"topic\": \"t\"}");
  assert_int_equal(caller->rows, -1);
}

static void conflicts_are_tried_again_until_they_pass(void **state) {
  (void)state;
  static const char *const conflicts[] = {"40001", "40P01", "55P03", "40001", "40001",
                                          "40001", "40001", "40001", "40001", "40001"};
  struct caller *caller = submit(false);
  turn();
  for (unsigned i = 0; i < 10; i++) {
    db_fixture_refuse(session, 0, conflicts[i], "conflict", "");
    assert_int_equal(caller->answers, 0);
    assert_int_equal(session->in_flight, 0); /* not at once: the other one must get on */
    wait_for_retry();
  }
  commit(session, 7);
  assert_told(caller, CONTROL_OK);
  assert_int_equal(caller->value, 7);
  assert_int_equal(session->batches, 11);
}

static void a_call_that_waits_for_its_retry_holds_up_nobody(void **state) {
  (void)state;
  struct caller *first = submit(false), *second = submit(false);
  turn();
  db_fixture_refuse(session, 0, "40001", "conflict", "");
  assert_int_equal(session->in_flight, 1);
  commit(session, 2);
  assert_told(second, CONTROL_OK);
  wait_for_retry();
  commit(session, 1);
  assert_told(first, CONTROL_OK);
}

static void a_call_keeps_its_place_before_those_that_came_after_it(void **state) {
  (void)state;
  struct caller *first = submit(false), *second = submit(false), *third = submit(false);
  turn();
  db_fixture_refuse(session, 0, "40001", "conflict", "");
  int64_t over_us = clock_monotonic_us() + 10000; /* more than a first pause */
  while (clock_monotonic_us() < over_us) turn();
  commit(session, 2);
  assert_told(second, CONTROL_OK);
  commit(session, 1);
  assert_told(first, CONTROL_OK);
  assert_int_equal(third->answers, 0);
  commit(session, 3);
  assert_told(third, CONTROL_OK);
}

static void conflicts_end_at_the_deadline(void **state) {
  (void)state;
  struct caller *caller = submit(false);
  turn();
  caller->call.deadline_us = LONG_AGO;
  db_fixture_refuse(session, 0, "40001", "conflict", "");
  assert_told(caller, CONTROL_TIMED_OUT);

  struct caller *waiting = submit(false);
  turn();
  db_fixture_refuse(session, 0, "40001", "conflict", "");
  waiting->call.deadline_us = LONG_AGO;
  run_until(waiting->answers);
  assert_told(waiting, CONTROL_TIMED_OUT);
}

static void errors_that_pass_are_told_from_those_that_do_not(void **state) {
  (void)state;
  static const struct {
    const char *sqlstate;
    enum control_status status;
  } cases[] = {{"53300", CONTROL_UNAVAILABLE}, {"57014", CONTROL_UNAVAILABLE},
               {"57P01", CONTROL_UNAVAILABLE}, {"25006", CONTROL_UNAVAILABLE},
               {"55000", CONTROL_UNAVAILABLE}, {"58030", CONTROL_UNAVAILABLE},
               {"08006", CONTROL_UNAVAILABLE}, {"22003", CONTROL_FAILED},
               {"42501", CONTROL_FAILED},      {"XX000", CONTROL_FAILED}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct caller *caller = submit(true);
    turn();
    db_fixture_refuse(session, 0, cases[i].sqlstate, "what happened", "");
    assert_told(caller, cases[i].status);
    assert_string_equal(caller->code, "what happened");
  }
}

/* ---- isolation ---- */

static void commit_setting(struct db_connection *connection) {
  PGresult *no_rows = NULL;
  db_fixture_commit(connection, &no_rows, 1);
}

static struct caller *submit_deletion(void) {
  struct caller *caller = submit(false);
  caller->call.statement = CONTROL_DELETE_TOPIC;
  return caller;
}

static void the_isolation_level_is_changed_before_a_call_that_needs_another(void **state) {
  (void)state;
  struct caller *deletion = submit_deletion(), *again = submit_deletion(), *plain = submit(false);
  turn();
  assert_int_equal(session->in_flight, 2); /* in one go: no round trip is waited for */
  assert_int_equal(session->sent[0].calls->statement, CONTROL_SET_READ_COMMITTED);
  assert_int_equal(session->sent[1].calls->statement, CONTROL_DELETE_TOPIC);
  commit_setting(session);
  assert_int_equal(deletion->answers, 0);
  commit(session, 1);
  assert_told(deletion, CONTROL_OK);
  assert_int_equal(session->in_flight, 1); /* it is so already */
  commit(session, 2);
  assert_told(again, CONTROL_OK);
  assert_int_equal(session->sent[0].calls->statement, CONTROL_SET_SERIALIZABLE);
  commit_setting(session);
  commit(session, 3);
  assert_told(plain, CONTROL_OK);
}

static void a_new_session_has_the_usual_isolation_level(void **state) {
  (void)state;
  struct caller *deletion = submit_deletion();
  turn();
  db_fixture_lose(session);
  assert_told(deletion, CONTROL_UNKNOWN);
  submit(false);
  turn();
  db_fixture_make_ready(session);
  assert_int_equal(session->in_flight, 1);
  assert_int_equal(session->sent[0].calls->statement, CONTROL_TOPIC_DEFINITION);
}

/* ---- lost connections ---- */

static void only_a_reading_call_is_repeated_after_a_loss(void **state) {
  (void)state;
  struct caller *reads = submit(true), *writes = submit(false);
  turn();
  db_fixture_lose(db_fixture[0]);
  db_fixture_lose(db_fixture[1]);
  assert_told(writes, CONTROL_UNKNOWN);
  assert_int_equal(reads->answers, 0);
  db_fixture_make_ready(db_fixture[1]);
  commit(db_fixture[1], 3);
  assert_told(reads, CONTROL_OK);
  assert_int_equal(reads->value, 3);
}

static void rows_of_a_transaction_that_was_lost_are_forgotten(void **state) {
  (void)state;
  struct caller *caller = submit(true);
  turn();
  PGresult *rows = db_fixture_result(1);
  db_fixture_set_int4(rows, 0, 0, 1);
  session->sent[0].batch->on_result(session->sent[0].batch, 0, rows);
  PQclear(rows);
  db_fixture_lose(session);
  db_fixture_make_ready(session);
  PGresult *none[1] = {NULL};
  db_fixture_commit(session, none, 1);
  assert_told(caller, CONTROL_OK);
  assert_int_equal(caller->rows, -1);
}

static void calls_wait_while_connecting_and_fail_when_all_is_down(void **state) {
  (void)state;
  db_fixture_lose(db_fixture[0]);
  db_fixture_make_down(db_fixture[0]);
  db_fixture_lose(db_fixture[1]);
  struct caller *first = submit(false);
  turn();
  assert_int_equal(first->answers, 0);
  db_fixture_make_down(db_fixture[1]);
  assert_told(first, CONTROL_UNAVAILABLE);
  struct caller *second = submit(true);
  turn();
  assert_told(second, CONTROL_UNAVAILABLE);
}

static void a_deadline_that_passes_in_the_queue_means_that_nothing_happened(void **state) {
  (void)state;
  submit(false);
  turn();
  struct caller *late = submit(false), *patient = submit(false);
  late->call.deadline_us = LONG_AGO;
  turn();
  run_until(late->answers);
  assert_told(late, CONTROL_TIMED_OUT);
  commit(session, 1);
  commit(session, 2);
  assert_told(patient, CONTROL_OK);
}

/* ---- callbacks and the end ---- */

static void submit_again(struct control_call *call, const struct control_result *result) {
  struct caller *caller = (struct caller *)call;
  on_done(call, result);
  if (caller->answers < 3) control_submit(control, call);
}

static void a_call_may_be_submitted_again_from_its_answer(void **state) {
  (void)state;
  struct caller *caller = submit(false);
  caller->call.on_done = submit_again;
  for (unsigned i = 0; i < 3; i++) {
    turn();
    commit(session, (int32_t)i);
  }
  assert_int_equal(caller->answers, 3);
  assert_int_equal(caller->value, 2);
  caller->answers = 0;
  db_fixture_lose(session);
  db_fixture_make_down(session);
  control_submit(control, &caller->call);
  turn(); /* ends, though each failure is followed by another call */
  for (unsigned i = 0; i < 5; i++) turn();
  assert_int_equal(caller->answers, 3);
}

static void closing_tells_everybody(void **state) {
  (void)state;
  struct caller *writes = submit(false), *reads = submit(true), *queued = submit(false);
  turn();
  db_fixture_refuse(db_fixture[0], 0, "40001", "conflict", ""); /* `writes` waits for its retry */
  control_close(control);
  control = NULL;
  assert_told(reads, CONTROL_UNKNOWN);
  assert_int_equal(writes->answers, 1);
  assert_int_equal(queued->answers, 1);
}

/* ---- calls that share a transaction ---- */

static struct caller *submit_sharing(const char *transactional_id, const char *group,
                                     bool may_end) {
  struct caller *caller = submit(false);
  caller->call.statement = CONTROL_BEGIN_TRANSACTION;
  caller->call.locks = (struct control_locks){.transactional_id = slice_text(transactional_id),
                                              .group = slice_text(group),
                                              .may_end = may_end};
  return caller;
}

/* A text parameter of the call that locks. */
static void assert_texts(unsigned parameter, const char *const want[], unsigned count) {
  struct cursor cursor;
  assert_int_equal(db_array_open(&cursor, db_fixture_bytes(&session->sent[0], 0, parameter)),
                   count);
  for (unsigned i = 0; i < count; i++) assert_slice_text(db_array_next(&cursor), want[i]);
}

static void calls_that_say_what_they_lock_share_a_transaction(void **state) {
  (void)state;
  submit_sharing("a", "", false);
  submit_sharing("b", "", true);
  submit_sharing("c", "g", false);
  turn();
  commit_setting(session);
  assert_int_equal(session->in_flight, 1);
  assert_int_equal(session->sent[0].count, 4);
  assert_int_equal(session->sent[0].calls[0].statement, CONTROL_LOCK_CHANGES);
  assert_texts(0, (const char *const[]){"a", "b", "c"}, 3);
  assert_texts(1, (const char *const[]){"b"}, 1);
  assert_texts(2, (const char *const[]){"g"}, 1);
  PGresult *rows[4];
  for (unsigned i = 0; i < 4; i++) {
    rows[i] = db_fixture_result(1);
    db_fixture_set_int4(rows[i], 0, 0, (int32_t)i);
  }
  db_fixture_commit(session, rows, 4);
  for (unsigned i = 0; i < 3; i++) {
    assert_told(&callers[i], CONTROL_OK);
    assert_int_equal(callers[i].value, i + 1);
  }
}

static void a_call_that_shares_and_is_alone_locks_by_itself(void **state) {
  (void)state;
  submit_sharing("a", "", true);
  submit(false);
  turn();
  commit_setting(session);
  assert_int_equal(session->sent[0].count, 1);
  assert_int_equal(session->sent[0].calls[0].statement, CONTROL_BEGIN_TRANSACTION);
  commit(session, 1);
  commit_setting(session);
  assert_int_equal(session->sent[0].count, 1);
  commit(session, 2);
  assert_told(&callers[1], CONTROL_OK);
}

static void a_refusal_is_one_callers_and_the_others_go_again_alone(void **state) {
  (void)state;
  for (unsigned i = 0; i < 3; i++) submit_sharing("a", "", false);
  turn();
  commit_setting(session);
  db_fixture_refuse(session, 2, "PC001", "producer_fenced", "{}");
  for (unsigned i = 0; i < 3; i++) assert_int_equal(callers[i].answers, 0);
  assert_int_equal(session->sent[0].count, 1);
  commit(session, 1);
  db_fixture_refuse(session, 0, "PC001", "producer_fenced", "{}");
  commit(session, 3);
  assert_told(&callers[0], CONTROL_OK);
  assert_told(&callers[1], CONTROL_REFUSED);
  assert_told(&callers[2], CONTROL_OK);
  assert_int_equal(callers[2].value, 3);
}

static void a_batch_is_bounded_and_the_rest_goes_next(void **state) {
  (void)state;
  static struct caller many[CONTROL_BATCH_MAX + 2];
  memset(many, 0, sizeof many);
  for (unsigned i = 0; i < CONTROL_BATCH_MAX + 2; i++) {
    many[i].call = (struct control_call){.statement = CONTROL_END_TRANSACTION,
                                         .deadline_us = INT64_MAX,
                                         .locks = {.transactional_id = slice_text("a")},
                                         .on_done = on_done};
    control_submit(control, &many[i].call);
  }
  turn();
  commit_setting(session);
  assert_int_equal(session->sent[0].count, CONTROL_BATCH_MAX + 1);
  PGresult *rows[CONTROL_BATCH_MAX + 1] = {NULL};
  db_fixture_commit(session, rows, CONTROL_BATCH_MAX + 1);
  assert_told(&many[CONTROL_BATCH_MAX - 1], CONTROL_OK);
  assert_int_equal(session->sent[0].count, 3);
  db_fixture_lose(session);
  assert_told(&many[CONTROL_BATCH_MAX + 1], CONTROL_UNKNOWN);
}

#define ONE(test) cmocka_unit_test_setup_teardown(test, open_one, close_all)
#define TWO(test) cmocka_unit_test_setup_teardown(test, open_two, close_all)

int main(void) {
  log_set_level(LOG_ERROR + 1);
  const struct CMUnitTest tests[] = {
      ONE(a_call_is_one_transaction_and_its_rows_reach_the_caller),
      ONE(calls_wait_their_turn_in_order),
      TWO(sessions_work_side_by_side),
      ONE(a_call_without_rows_has_none),
      ONE(a_refusal_by_rule_is_passed_on),
      ONE(conflicts_are_tried_again_until_they_pass),
      ONE(a_call_that_waits_for_its_retry_holds_up_nobody),
      ONE(a_call_keeps_its_place_before_those_that_came_after_it),
      ONE(conflicts_end_at_the_deadline),
      ONE(errors_that_pass_are_told_from_those_that_do_not),
      ONE(the_isolation_level_is_changed_before_a_call_that_needs_another),
      ONE(a_new_session_has_the_usual_isolation_level),
      TWO(only_a_reading_call_is_repeated_after_a_loss),
      ONE(rows_of_a_transaction_that_was_lost_are_forgotten),
      TWO(calls_wait_while_connecting_and_fail_when_all_is_down),
      ONE(a_deadline_that_passes_in_the_queue_means_that_nothing_happened),
      ONE(a_call_may_be_submitted_again_from_its_answer),
      ONE(calls_that_say_what_they_lock_share_a_transaction),
      ONE(a_call_that_shares_and_is_alone_locks_by_itself),
      ONE(a_refusal_is_one_callers_and_the_others_go_again_alone),
      ONE(a_batch_is_bounded_and_the_rest_goes_next),
      TWO(closing_tells_everybody),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
