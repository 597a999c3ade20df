/* The LISTEN session: what a refusal costs, and how sessions that a pooler shares show. PostgreSQL
 * is played by the test. */
#include <ev.h>

#include "base/log.h"
#include "db/listen.h"
#include "db/primary.h"
#include "db_fixture.h"
#include "unit.h"

static struct listen *listener;
static unsigned changes;
static unsigned looks_elsewhere;
static bool listening;

void primary_look(struct primary *primary) {
  (void)primary;
  looks_elsewhere++;
}

static void on_change(void *owner, bool is_listening) {
  (void)owner;
  changes++;
  listening = is_listening;
}

static void on_notify(void *owner, const char *channel, const char *payload) {
  (void)owner;
  (void)channel;
  (void)payload;
}

static int open_it(void **state) {
  (void)state;
  log_set_level(LOG_ERROR);
  db_fixture_begin();
  changes = looks_elsewhere = 0;
  listening = false;
  listener = listen_open(&(struct listen_options){
      .database = &database, .on_notify = on_notify, .on_change = on_change});
  return 0;
}

static int close_it(void **state) {
  (void)state;
  health.stopping = true;
  listen_close(listener);
  db_fixture_end();
  return 0;
}

/* Commits what is in flight; the look is served by `process`. */
static void commit(int32_t process) {
  PGresult *results[3] = {NULL};
  unsigned count = session->sent[0].count;
  results[count - 1] = db_fixture_result(2);
  db_fixture_set_int4(results[count - 1], 0, 0, 1000);
  db_fixture_set_int4(results[count - 1], 0, 1, process);
  db_fixture_commit(session, results, count);
}

/* Runs until the next look. */
static void wait_for_look(void) {
  run_until(session->in_flight);
}

static void it_listens_once_the_session_is_there(void **state) {
  (void)state;
  db_fixture_make_ready(session);
  assert_int_equal(session->sent[0].count, 3);
  assert_false(listen_is_active(listener));
  commit(77);
  assert_true(listening);
  assert_true(listen_is_active(listener));
  wait_for_look();
  assert_int_equal(session->sent[0].count, 1); /* it listens already */
  commit(77);
  db_fixture_lose(session);
  assert_false(listening);
  assert_int_equal(changes, 2);
}

static void a_refusal_costs_the_notifications_only_and_it_tries_again(void **state) {
  (void)state;
  db_fixture_make_ready(session);
  db_fixture_refuse(session, 0, "58P01", "could not access status of transaction 1", "");
  assert_false(listen_is_active(listener));
  assert_true(db_health_is_ready(&health));
  wait_for_look();
  assert_int_equal(session->sent[0].count, 3);
  commit(77);
  assert_true(listening);
}

static void a_session_that_changes_hands_is_not_ready(void **state) {
  (void)state;
  db_fixture_make_ready(session);
  commit(77);
  assert_true(db_health_is_ready(&health));
  wait_for_look();
  commit(78);
  assert_false(db_health_is_ready(&health));
  assert_false(listening);
  assert_non_null(strstr(db_health_text(&health), "pooler"));
  db_fixture_lose(session); /* the pooler was told otherwise */
  db_fixture_make_ready(session);
  commit(79);
  assert_true(db_health_is_ready(&health));
  assert_true(listening);
}

static void another_primary_is_looked_for_when_a_look_is_not_answered(void **state) {
  (void)state;
  db_fixture_make_ready(session);
  commit(77);
  wait_for_look();
  assert_int_equal(looks_elsewhere, 0);
  run_until(looks_elsewhere);
  assert_int_equal(session->in_flight, 1); /* it may still be answered */
  assert_true(listening);
  commit(77);
  wait_for_look();
  assert_int_equal(looks_elsewhere, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(it_listens_once_the_session_is_there, open_it, close_it),
      cmocka_unit_test_setup_teardown(a_refusal_costs_the_notifications_only_and_it_tries_again,
                                      open_it, close_it),
      cmocka_unit_test_setup_teardown(a_session_that_changes_hands_is_not_ready, open_it, close_it),
      cmocka_unit_test_setup_teardown(another_primary_is_looked_for_when_a_look_is_not_answered,
                                      open_it, close_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
