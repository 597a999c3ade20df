/* What a node knows of its primary. The session that looks for another is played by the test. */
#include <ev.h>

#include "base/log.h"
#include "base/worker.h"
#include "db/connect.h"
#include "db/database.h"
#include "db/primary.h"
#include "unit.h"

static struct ev_loop *loop;
static struct database database;
static struct primary *primary;
static struct primary_follower follower;
static unsigned changes;
static struct db_connect *look;
static unsigned looks;

void db_connect_start(struct db_connect *connect) {
  look = connect;
  looks++;
}

static void on_change(struct primary_follower *one) {
  assert_ptr_equal(one, &follower);
  changes++;
}

static int open_it(void **state) {
  (void)state;
  log_set_level(LOG_ERROR);
  loop = ev_loop_new(0);
  database = (struct database){.loop = loop, .connect_workers = worker_pool_start(loop, 1)};
  primary = primary_create(&database);
  follower = (struct primary_follower){.on_change = on_change};
  primary_follow(primary, &follower);
  changes = looks = 0;
  return 0;
}

static int close_it(void **state) {
  (void)state;
  primary_unfollow(primary, &follower);
  primary_free(primary);
  worker_pool_stop(database.connect_workers);
  ev_loop_destroy(loop);
  return 0;
}

static struct db_server_identity server(uint64_t system, uint32_t timeline) {
  return (struct db_server_identity){.system = system, .timeline = timeline};
}

static void assert_host(const char *want) {
  char *host = primary_host(primary);
  assert_string_equal(host, want);
  free(host);
}

static void the_first_primary_is_no_change(void **state) {
  (void)state;
  assert_null(primary_host(primary));
  assert_true(primary_admit(primary, server(7, 1), "a"));
  assert_true(primary_admit(primary, server(7, 1), "a"));
  primary_settle(primary);
  assert_int_equal(changes, 0);
  assert_true(primary_is(primary, server(7, 1)));
  assert_host("a");
}

static void a_later_timeline_is_followed_once(void **state) {
  (void)state;
  assert_true(primary_admit(primary, server(7, 1), "a"));
  primary_settle(primary);
  assert_true(primary_admit(primary, server(7, 2), "b"));
  assert_int_equal(changes, 0); /* not before the loop says so */
  primary_settle(primary);
  primary_settle(primary);
  assert_int_equal(changes, 1);
  assert_false(primary_is(primary, server(7, 1)));
  assert_true(primary_is(primary, server(7, 2)));
  assert_host("b");
}

static void an_earlier_timeline_is_not_gone_back_to(void **state) {
  (void)state;
  assert_true(primary_admit(primary, server(7, 2), "b"));
  primary_settle(primary);
  assert_false(primary_admit(primary, server(7, 1), "a"));
  primary_settle(primary);
  assert_int_equal(changes, 0);
  assert_true(primary_is(primary, server(7, 2)));
  assert_host("b");
}

static void another_system_has_timelines_of_its_own(void **state) {
  (void)state;
  assert_true(primary_admit(primary, server(7, 5), "a"));
  primary_settle(primary);
  assert_true(primary_admit(primary, server(8, 1), "a"));
  primary_settle(primary);
  assert_int_equal(changes, 1);
}

static void one_look_at_a_time_tells_of_what_it_found(void **state) {
  (void)state;
  assert_true(primary_admit(primary, server(7, 1), "a"));
  primary_settle(primary);
  primary_look(primary);
  primary_look(primary);
  assert_int_equal(looks, 1);
  assert_ptr_equal(look->database, &database);
  assert_true(primary_admit(primary, server(7, 2), "b")); /* on its thread */
  look->done(look);
  assert_int_equal(changes, 1);
  primary_look(primary);
  assert_int_equal(looks, 2);
  look->done(look); /* it found the same */
  assert_int_equal(changes, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(the_first_primary_is_no_change, open_it, close_it),
      cmocka_unit_test_setup_teardown(a_later_timeline_is_followed_once, open_it, close_it),
      cmocka_unit_test_setup_teardown(an_earlier_timeline_is_not_gone_back_to, open_it, close_it),
      cmocka_unit_test_setup_teardown(another_system_has_timelines_of_its_own, open_it, close_it),
      cmocka_unit_test_setup_teardown(one_look_at_a_time_tells_of_what_it_found, open_it, close_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
