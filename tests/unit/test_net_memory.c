/* The request memory budget: who reads on while it is exceeded, who is cut off, and that it
 * balances. */
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "net/connection_private.h"
#include "net_fixture.h"
#include "unit.h"

enum { FRAME = 1 << 20 };

static struct net_fixture *fixture;
static uint8_t *frame;

static int open_fixture(void **state) {
  (void)state;
  uint64_t seed = 11;
  frame = memory_allocate(FRAME);
  noise_fill(&seed, frame, FRAME);
  fixture = net_fixture_open((struct net_fixture_options){.memory_limit = 1 << 20});
  return 0;
}

static int close_fixture(void **state) {
  (void)state;
  net_fixture_close(fixture);
  free(frame);
  return 0;
}

/* Something else holds the whole budget and a little more. */
static void exhaust(void) {
  memory_budget_charge(&fixture->budget, fixture->budget.limit + 1);
}

static void relieve(void) {
  memory_budget_release(&fixture->budget, fixture->budget.limit + 1);
}

static int connect_for_frame(struct front **front) {
  int fd = net_fixture_connect(fixture, front);
  connection_want_input((*front)->connection, FRAME);
  return fd;
}

static void a_budget_remembers_its_peak_and_reports_relief(void **state) {
  (void)state;
  struct memory_budget budget = {.limit = 10};
  memory_budget_charge(&budget, 10);
  assert_false(memory_budget_is_over(&budget));
  memory_budget_charge(&budget, 5);
  assert_true(memory_budget_is_over(&budget));
  memory_budget_release(&budget, 15);
  assert_int_equal(budget.used, 0);
  assert_int_equal(budget.peak, 15);
}

static void small_requests_go_on_while_memory_is_short(void **state) {
  (void)state;
  exhaust();
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  for (int i = 0; i < 20; i++) net_fixture_send(fixture, fd, frame, 10000);
  net_fixture_run_until_size(fixture, &front->received.length, 200000);
  relieve();
  close(fd);
}

static void a_second_large_frame_waits_until_the_first_is_done(void **state) {
  (void)state;
  exhaust();
  struct front *first, *second;
  int fd1 = connect_for_frame(&first), fd2 = connect_for_frame(&second);
  net_fixture_send(fixture, fd1, frame, 200000);
  net_fixture_stuff(fixture, fd2, frame, 200000);
  assert_true(connection_input(first->connection).length == 200000);
  assert_int_equal(connection_input(second->connection).length, READ_AHEAD_LIMIT);

  net_fixture_send(fixture, fd1, frame + 200000, FRAME - 200000);
  net_fixture_run_until(fixture, &first->inputs, 1);
  net_fixture_run(fixture, 50);
  assert_int_equal(connection_input(second->connection).length, 200000);
  net_fixture_send(fixture, fd2, frame + 200000, FRAME - 200000);
  net_fixture_run_until(fixture, &second->inputs, 1);
  assert_slices(buffer_slice(&second->received), slice_of(frame, FRAME));
  relieve();
  close(fd1);
  close(fd2);
}

static void many_large_frames_all_complete_within_bounded_memory(void **state) {
  (void)state;
  enum { COUNT = 12 };
  int fds[COUNT];
  struct front *fronts[COUNT];
  size_t sent[COUNT] = {0}, done = 0;
  for (int i = 0; i < COUNT; i++) fds[i] = connect_for_frame(&fronts[i]);
  for (int round = 0; round < 20000 && done < COUNT; round++) {
    done = 0;
    for (int i = 0; i < COUNT; i++) {
      ssize_t count = send(fds[i], frame + sent[i], FRAME - sent[i], MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count > 0) sent[i] += (size_t)count;
      done += fronts[i]->inputs;
    }
    ev_run(fixture->loop, EVRUN_NOWAIT);
  }
  assert_int_equal(done, COUNT);
  for (int i = 0; i < COUNT; i++) {
    assert_slices(buffer_slice(&fronts[i]->received), slice_of(frame, FRAME));
    close(fds[i]);
  }
  assert_int_equal(fixture->budget.used, 0);
  /* The limit, one frame beyond it, and the read-ahead of the others (a block may be twice that).
   */
  assert_true(fixture->budget.peak <= (1 << 20) + FRAME + COUNT * 4 * READ_AHEAD_LIMIT);
}

static void a_stalled_frame_is_cut_off_and_the_next_goes_on(void **state) {
  (void)state;
  exhaust();
  struct front *stalled, *second;
  int fd1 = connect_for_frame(&stalled), fd2 = connect_for_frame(&second);
  net_fixture_send(fixture, fd1, frame, 200000);
  net_fixture_stuff(fixture, fd2, frame, 500000);
  net_fixture_run(fixture, 300);
  assert_int_equal(stalled->closes, 0);
  net_fixture_run_until(fixture, &stalled->closes, 1);
  assert_string_equal(stalled->reason, "request memory exhausted by a stalled frame");
  net_fixture_run(fixture, 50);
  assert_int_equal(second->closes, 0);
  assert_int_equal(connection_input(second->connection).length, 500000);
  relieve();
  close(fd1);
  close(fd2);
}

static void a_head_that_trickles_is_not_cut_off(void **state) {
  (void)state;
  exhaust();
  struct front *front;
  int fd = connect_for_frame(&front);
  net_fixture_send(fixture, fd, frame, 200000);
  for (int i = 0; i < 7; i++) {
    net_fixture_run(fixture, 250);
    net_fixture_send(fixture, fd, frame, 1);
  }
  assert_int_equal(front->closes, 0);
  relieve();
  close(fd);
}

static void relief_lets_all_read_again(void **state) {
  (void)state;
  exhaust();
  struct front *fronts[4];
  int fds[4];
  for (int i = 0; i < 4; i++) {
    fds[i] = connect_for_frame(&fronts[i]);
    net_fixture_stuff(fixture, fds[i], frame, 150000);
  }
  assert_int_equal(connection_input(fronts[3]->connection).length, READ_AHEAD_LIMIT);
  relieve();
  net_fixture_run(fixture, 50);
  for (int i = 0; i < 4; i++) {
    assert_int_equal(connection_input(fronts[i]->connection).length, 150000);
    assert_false(fronts[i]->connection->in_queue);
    close(fds[i]);
  }
  net_fixture_run(fixture, 1200); /* nobody is a stalled head any more */
  for (int i = 0; i < 4; i++) assert_int_equal(fronts[i]->closes, 0);
}

static void time_spent_waiting_for_memory_is_not_the_owners(void **state) {
  (void)state;
  exhaust();
  struct front *head, *waiting;
  int fd1 = connect_for_frame(&head), fd2 = connect_for_frame(&waiting);
  net_fixture_send(fixture, fd1, frame, 200000);
  net_fixture_stuff(fixture, fd2, frame, 200000);
  assert_true(admission_is_paused(waiting->connection));
  connection_set_deadline(waiting->connection, 250);
  connection_set_deadline(head->connection, 250);
  net_fixture_run(fixture, 500);
  assert_int_equal(head->deadlines, 1);
  assert_int_equal(waiting->deadlines, 0);
  relieve();
  net_fixture_run(fixture, 20);
  assert_int_equal(waiting->deadlines, 0);
  net_fixture_run_until(fixture, &waiting->deadlines, 1);
  close(fd1);
  close(fd2);
}

static void a_waiting_connection_that_closes_leaves_the_queue(void **state) {
  (void)state;
  exhaust();
  struct front *fronts[3];
  int fds[3];
  for (int i = 0; i < 3; i++) {
    fds[i] = connect_for_frame(&fronts[i]);
    net_fixture_stuff(fixture, fds[i], frame, 150000);
  }
  connection_close(fronts[1]->connection, "test");
  connection_close(fronts[0]->connection, "test");
  net_fixture_run(fixture, 50);
  assert_int_equal(connection_input(fronts[2]->connection).length, 150000);
  relieve();
  for (int i = 0; i < 3; i++) close(fds[i]);
}

static void queued_output_counts(void **state) {
  (void)state;
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  struct buffer block = {0};
  buffer_append(&block, frame, FRAME);
  size_t capacity = block.capacity;
  connection_write(front->connection, &block);
  assert_int_equal(fixture->budget.used, capacity);
  connection_close(front->connection, "test");
  assert_int_equal(fixture->budget.used, 0);
  close(fd);
}

/* Queues that much output on a connection whose client reads nothing, until the socket is full. */
static int connect_and_stuff(struct front **front, size_t length) {
  int fd = net_fixture_connect(fixture, front);
  struct buffer block = {0};
  memset(buffer_extend(&block, length), 'x', length);
  connection_write((*front)->connection, &block);
  net_fixture_run(fixture, 20);
  return fd;
}

enum { MORE_THAN_SOCKETS_HOLD = 32 << 20 };

static void output_that_is_not_taken_is_cut_off_while_memory_is_short(void **state) {
  (void)state;
  struct front *front;
  int fd = connect_and_stuff(&front, MORE_THAN_SOCKETS_HOLD);
  assert_true(memory_budget_is_over(&fixture->budget));
  net_fixture_run(fixture, 300);
  assert_int_equal(front->closes, 0);
  net_fixture_run_until(fixture, &front->closes, 1);
  assert_string_equal(front->reason, "request memory exhausted by output that is not taken");
  assert_int_equal(fixture->budget.used, 0);
  close(fd);
}

static void only_as_many_are_cut_off_as_memory_needs(void **state) {
  (void)state;
  struct front *first, *second;
  fixture->budget.limit = MORE_THAN_SOCKETS_HOLD;
  int fd1 = connect_and_stuff(&first, MORE_THAN_SOCKETS_HOLD);
  net_fixture_run(fixture, 1500); /* there is memory enough: it may wait */
  assert_int_equal(first->closes, 0);
  int fd2 = connect_and_stuff(&second, MORE_THAN_SOCKETS_HOLD);
  net_fixture_run_until(fixture, &first->closes, 1);
  net_fixture_run(fixture, 1500);
  assert_int_equal(second->closes, 0);
  close(fd1);
  close(fd2);
}

static void output_that_is_taken_slowly_goes_on(void **state) {
  (void)state;
  struct front *front;
  uint8_t *room = memory_allocate(4 << 20);
  int fd = connect_and_stuff(&front, MORE_THAN_SOCKETS_HOLD);
  for (int i = 0; i < 7; i++) {
    net_fixture_run(fixture, 250);
    assert_int_equal(net_fixture_receive(fixture, fd, room, 4 << 20), 4 << 20);
  }
  assert_int_equal(front->closes, 0);
  close(fd);
  free(room);
}

static void a_little_output_may_wait_though_memory_is_short(void **state) {
  (void)state;
  struct front *front;
  uint8_t *room = memory_allocate(MORE_THAN_SOCKETS_HOLD);
  fixture->budget.limit = 2 * MORE_THAN_SOCKETS_HOLD;
  int fd = connect_and_stuff(&front, MORE_THAN_SOCKETS_HOLD);
  size_t pending = connection_output_pending(front->connection);
  size_t excess = pending > 200000 ? pending - 200000 : 0;
  assert_int_equal(net_fixture_receive(fixture, fd, room, excess), excess);
  net_fixture_run(fixture, 20);
  assert_false(connection_output_is_full(front->connection));
  fixture->budget.limit = 1;
  net_fixture_run(fixture, 1600);
  assert_int_equal(front->closes, 0);
  close(fd);
  free(room);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_budget_remembers_its_peak_and_reports_relief),
      CASE(small_requests_go_on_while_memory_is_short),
      CASE(a_second_large_frame_waits_until_the_first_is_done),
      CASE(many_large_frames_all_complete_within_bounded_memory),
      CASE(a_stalled_frame_is_cut_off_and_the_next_goes_on),
      CASE(a_head_that_trickles_is_not_cut_off),
      CASE(relief_lets_all_read_again),
      CASE(time_spent_waiting_for_memory_is_not_the_owners),
      CASE(a_waiting_connection_that_closes_leaves_the_queue),
      CASE(queued_output_counts),
      CASE(output_that_is_not_taken_is_cut_off_while_memory_is_short),
      CASE(only_as_many_are_cut_off_as_memory_needs),
      CASE(output_that_is_taken_slowly_goes_on),
      CASE(a_little_output_may_wait_though_memory_is_short),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
