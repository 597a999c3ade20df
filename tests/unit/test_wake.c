/* Who is woken by what, and that callbacks may do what they like with waiters. */
#include "log/wake.h"
#include "unit.h"

enum { WAITERS = 6 };

struct waiting {
  struct wake_waiter waiter; /* first */
  unsigned calls;
  unsigned order;
  int64_t log_id;
  int32_t partition;
  struct waiting *victim; /* removed by the callback */
};

static struct wake *wake;
static struct waiting waits[WAITERS];
static unsigned calls;

static void note(struct wake_waiter *waiter) {
  struct waiting *waiting = (struct waiting *)waiter;
  waiting->calls++;
  waiting->order = calls++;
}

static void note_and_wait_again(struct wake_waiter *waiter) {
  struct waiting *waiting = (struct waiting *)waiter;
  note(waiter);
  assert_true(calls < 100); /* not for ever */
  wake_add(wake, waiter, waiting->log_id, waiting->partition);
}

static void note_and_remove(struct wake_waiter *waiter) {
  struct waiting *waiting = (struct waiting *)waiter;
  note(waiter);
  wake_remove(wake, &waiting->victim->waiter);
}

static struct waiting *wait_for(unsigned index, int64_t log_id, int32_t partition, int64_t offset) {
  struct waiting *waiting = &waits[index];
  waiting->log_id = log_id;
  waiting->partition = partition;
  waiting->waiter.offset = offset;
  if (waiting->waiter.on_wake == NULL) waiting->waiter.on_wake = note;
  wake_add(wake, &waiting->waiter, log_id, partition);
  return waiting;
}

static int open_wake(void **state) {
  (void)state;
  wake = wake_create();
  memset(waits, 0, sizeof waits);
  calls = 0;
  return 0;
}

static int close_wake(void **state) {
  (void)state;
  for (unsigned i = 0; i < WAITERS; i++) wake_remove(wake, &waits[i].waiter);
  assert_int_equal(wake_partition_count(wake), 0);
  wake_free(wake);
  return 0;
}

static void a_signal_wakes_those_who_wait_for_less(void **state) {
  (void)state;
  for (unsigned i = 0; i < 4; i++) wait_for(i, 1, 0, 10 + i);
  wake_signal(wake, 1, 0, 10);
  assert_int_equal(calls, 0); /* the end is 10: offset 10 does not exist yet */
  wake_signal(wake, 1, 0, 12);
  assert_int_equal(calls, 2);
  assert_int_equal(waits[0].calls, 1);
  assert_int_equal(waits[1].calls, 1);
  wake_signal(wake, 1, 0, 100);
  assert_int_equal(calls, 4);
  wake_signal(wake, 1, 0, 1000);
  assert_int_equal(calls, 4); /* once */
}

static void a_signal_concerns_one_partition_of_one_log(void **state) {
  (void)state;
  wait_for(0, 1, 0, 0);
  wait_for(1, 1, 1, 0);
  wait_for(2, 2, 0, 0);
  wake_signal(wake, 1, 0, 5);
  wake_signal(wake, 7, 7, 5);
  assert_int_equal(waits[0].calls, 1);
  assert_int_equal(calls, 1);
}

static void waiters_are_woken_in_the_order_they_came(void **state) {
  (void)state;
  for (unsigned i = 0; i < WAITERS; i++) wait_for(i, 1, 0, 0);
  wake_signal(wake, 1, 0, 1);
  for (unsigned i = 0; i < WAITERS; i++) assert_int_equal(waits[i].order, i);
}

static void a_removed_waiter_is_not_woken(void **state) {
  (void)state;
  for (unsigned i = 0; i < 3; i++) wait_for(i, 1, 0, 0);
  wake_remove(wake, &waits[1].waiter);
  wake_remove(wake, &waits[1].waiter);
  wake_remove(wake, &waits[5].waiter); /* never added */
  wake_signal(wake, 1, 0, 1);
  assert_int_equal(waits[1].calls, 0);
  assert_int_equal(calls, 2);
}

static void a_callback_may_wait_again(void **state) {
  (void)state;
  for (unsigned i = 0; i < 3; i++) {
    waits[i].waiter.on_wake = note_and_wait_again;
    wait_for(i, 1, 0, 0);
  }
  wake_signal(wake, 1, 0, 1);
  assert_int_equal(calls, 3); /* each once, though each waits for the same again */
  wake_signal(wake, 1, 0, 1);
  assert_int_equal(calls, 6);
}

static void a_signal_of_a_log_reaches_all_of_its_waiters_once(void **state) {
  (void)state;
  for (unsigned i = 0; i < WAITERS; i++) {
    waits[i].waiter.on_wake = note_and_wait_again;
    wait_for(i, i == 5 ? 2 : 1, (int32_t)i, INT64_MAX);
  }
  wake_signal_log(wake, 1);
  assert_int_equal(calls, 5);
  assert_int_equal(waits[5].calls, 0);
  assert_int_equal(wake_partition_count(wake), WAITERS);
}

static void a_callback_may_end_the_wait_of_others(void **state) {
  (void)state;
  for (unsigned i = 0; i < 4; i++) {
    waits[i].waiter.on_wake = note_and_remove;
    waits[i].victim = &waits[3 - i];
    wait_for(i, 1, 0, 0);
  }
  wake_signal(wake, 1, 0, 1);
  assert_int_equal(calls, 2);
  assert_int_equal(waits[2].calls + waits[3].calls, 0);

  calls = 0;
  for (unsigned i = 0; i < 4; i++) wait_for(i, 1, (int32_t)i, 0);
  wake_signal_log(wake, 1);
  assert_int_equal(calls, 2);
}

static unsigned visited;

static void visit(void *context, int64_t log_id, int32_t partition) {
  assert_ptr_equal(context, &visited);
  assert_int_equal(log_id, 1);
  visited |= 1u << partition;
}

static void each_partition_that_is_waited_for_is_visited(void **state) {
  (void)state;
  for (unsigned i = 0; i < WAITERS; i++) wait_for(i, 1, (int32_t)(i / 2), 0);
  assert_int_equal(wake_partition_count(wake), 3);
  visited = 0;
  wake_each_partition(wake, visit, &visited);
  assert_int_equal(visited, 7);
  wake_remove(wake, &waits[0].waiter);
  assert_int_equal(wake_partition_count(wake), 3);
  wake_remove(wake, &waits[1].waiter);
  assert_int_equal(wake_partition_count(wake), 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_wake, close_wake)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_signal_wakes_those_who_wait_for_less),
      TEST(a_signal_concerns_one_partition_of_one_log),
      TEST(waiters_are_woken_in_the_order_they_came),
      TEST(a_removed_waiter_is_not_woken),
      TEST(a_callback_may_wait_again),
      TEST(a_signal_of_a_log_reaches_all_of_its_waiters_once),
      TEST(a_callback_may_end_the_wait_of_others),
      TEST(each_partition_that_is_waited_for_is_visited),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
