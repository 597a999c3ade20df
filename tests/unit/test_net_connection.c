/* A connection over loopback: what reaches the front end and when, how output leaves, how it ends.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "net/connection_private.h"
#include "net_fixture.h"
#include "unit.h"

static struct net_fixture *fixture;

static int open_fixture(void **state) {
  (void)state;
  fixture = net_fixture_open((struct net_fixture_options){0});
  return 0;
}

static int close_fixture(void **state) {
  (void)state;
  net_fixture_close(fixture);
  return 0;
}

static uint8_t *noise(size_t length) {
  uint64_t seed = 7;
  uint8_t *bytes = memory_allocate(length);
  noise_fill(&seed, bytes, length);
  return bytes;
}

/* Input */

static void input_arrives_in_order_byte_by_byte(void **state) {
  (void)state;
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  const char text[] = "one byte at a time";
  for (size_t i = 0; i < strlen(text); i++) net_fixture_send(fixture, fd, text + i, 1);
  net_fixture_run_until_size(fixture, &front->received.length, strlen(text));
  assert_slice_text(buffer_slice(&front->received), text);
  close(fd);
}

static void input_is_delivered_only_when_the_wanted_length_is_there(void **state) {
  (void)state;
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  connection_want_input(front->connection, 10);
  for (int i = 0; i < 9; i++) net_fixture_send(fixture, fd, "x", 1);
  net_fixture_run(fixture, 20);
  assert_int_equal(front->inputs, 0);
  assert_int_equal(connection_input(front->connection).length, 9);
  net_fixture_send(fixture, fd, "y", 1);
  net_fixture_run_until(fixture, &front->inputs, 1);
  assert_int_equal(front->unread_at_input, 10);
  net_fixture_run(fixture, 20);
  assert_int_equal(front->inputs, 1);
  close(fd);
}

static void lowering_the_wanted_length_delivers_what_is_there(void **state) {
  (void)state;
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  connection_want_input(front->connection, 100);
  net_fixture_send(fixture, fd, "abcdef", 6);
  net_fixture_run(fixture, 20);
  connection_want_input(front->connection, 6);
  assert_int_equal(front->inputs, 0); /* never from within the call */
  net_fixture_run_until(fixture, &front->inputs, 1);
  close(fd);
}

static void input_that_is_not_consumed_is_not_delivered_again_without_news(void **state) {
  (void)state;
  fixture->on_input = front_ignore;
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  net_fixture_send(fixture, fd, "abc", 3);
  net_fixture_run(fixture, 50);
  assert_int_equal(front->inputs, 1);
  net_fixture_send(fixture, fd, "d", 1);
  net_fixture_run_until(fixture, &front->inputs, 2);
  assert_slice_text(connection_input(front->connection), "abcd");
  close(fd);
}

static void take_frame(struct front *front) {
  struct buffer frame = {0};
  connection_take_input(front->connection, connection_input(front->connection).length, &frame);
  assert_int_equal(frame.length, front->unread_at_input);
  memory_budget_release(&fixture->budget, frame.length);
  buffer_append_slice(&front->received, buffer_slice(&frame));
  buffer_release(&frame);
}

static void a_large_frame_arrives_whole_and_gives_its_memory_back(void **state) {
  (void)state;
  size_t length = 3 << 20;
  uint8_t *sent = noise(length);
  fixture->on_input = take_frame;
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  connection_want_input(front->connection, length);
  net_fixture_send(fixture, fd, sent, length);
  net_fixture_run_until(fixture, &front->inputs, 1);
  assert_int_equal(front->unread_at_input, length); /* read to the frame's end, not beyond */
  assert_slices(buffer_slice(&front->received), slice_of(sent, length));
  assert_int_equal(fixture->budget.used, 0);
  assert_true(fixture->budget.peak <= 2 * length);
  free(sent);
  close(fd);
}

static void take_two_parts(struct front *front) {
  struct buffer part = {0};
  size_t unread = connection_input(front->connection).length;
  for (int i = 0; i < 2; i++) {
    size_t count = i == 0 ? front->counter : unread - front->counter;
    connection_take_input(front->connection, count, &part);
    assert_int_equal(part.length, count);
    memory_budget_release(&fixture->budget, count);
    buffer_append_slice(&front->received, buffer_slice(&part));
    buffer_release(&part);
  }
}

static void input_can_be_taken_in_parts_of_any_size(void **state) {
  (void)state;
  static const unsigned firsts[] = {1, 100, 60000, 99999, 150000, 199999};
  size_t length = 200000;
  uint8_t *sent = noise(length);
  fixture->on_input = take_two_parts;
  for (size_t i = 0; i < sizeof firsts / sizeof firsts[0]; i++) {
    struct front *front;
    int fd = net_fixture_connect(fixture, &front);
    front->counter = firsts[i];
    connection_want_input(front->connection, length);
    net_fixture_send(fixture, fd, sent, length);
    net_fixture_run_until(fixture, &front->inputs, 1);
    assert_slices(buffer_slice(&front->received), slice_of(sent, length));
    assert_int_equal(fixture->budget.used, 0);
    close(fd);
  }
  free(sent);
}

static void memory_follows_what_arrived_not_what_was_wanted(void **state) {
  (void)state;
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  connection_want_input(front->connection, 64u << 20);
  uint8_t *sent = noise(200000);
  net_fixture_send(fixture, fd, sent, 1000);
  net_fixture_run(fixture, 20);
  assert_int_equal(fixture->budget.used, 1000);
  net_fixture_send(fixture, fd, sent, 199000);
  net_fixture_run(fixture, 50);
  assert_int_equal(connection_input(front->connection).length, 200000);
  assert_true(fixture->budget.used <= 400000);
  free(sent);
  close(fd);
}

/* Hold */

static void a_held_connection_reads_ahead_a_little_and_delivers_nothing(void **state) {
  (void)state;
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  connection_hold(front->connection, true);
  size_t length = 16 << 20;
  uint8_t *bytes = noise(length);
  size_t sent = net_fixture_stuff(fixture, fd, bytes, length);
  assert_true(sent < length);
  assert_int_equal(front->inputs, 0);
  assert_int_equal(connection_input(front->connection).length, READ_AHEAD_LIMIT);
  assert_true(fixture->budget.used <= 2 * READ_AHEAD_LIMIT);
  connection_hold(front->connection, false);
  assert_int_equal(front->inputs, 0);
  net_fixture_run_until_size(fixture, &front->received.length, sent);
  assert_slices(buffer_slice(&front->received), slice_of(bytes, sent));
  free(bytes);
  close(fd);
}

static void the_end_of_input_is_noticed_while_held(void **state) {
  (void)state;
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  connection_hold(front->connection, true);
  net_fixture_send(fixture, fd, "last words", 10);
  shutdown(fd, SHUT_WR);
  net_fixture_run_until(fixture, &front->ends, 1);
  assert_int_equal(front->inputs, 0);
  assert_slice_text(connection_input(front->connection), "last words");
  connection_hold(front->connection, false);
  net_fixture_run_until(fixture, &front->inputs, 1);
  assert_slice_text(buffer_slice(&front->received), "last words");
  net_fixture_run(fixture, 20);
  assert_int_equal(front->ends, 1);
  assert_int_equal(front->closes, 0); /* that is the front end's decision */
  close(fd);
}

static void a_dead_peer_is_noticed_although_nothing_is_read(void **state) {
  (void)state;
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  connection_hold(front->connection, true);
  size_t length = 4 << 20;
  uint8_t *bytes = noise(length);
  net_fixture_stuff(fixture, fd, bytes, length);
  struct linger reset = {.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  close(fd);
  net_fixture_run_until(fixture, &front->closes, 1);
  assert_string_equal(front->reason, "connection lost");
  free(bytes);
}

static void a_reset_closes_the_connection(void **state) {
  (void)state;
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  struct linger reset = {.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  close(fd);
  net_fixture_run_until(fixture, &front->closes, 1);
  assert_string_equal(front->reason, "connection reset by the peer");
}

/* Consumes one byte a call, holds and lifts at once, as a front end does that answers without
 * waiting. */
static void answer_one_byte(struct front *front) {
  if (++front->depth > front->deepest) front->deepest = front->depth;
  buffer_append_slice(&front->received, slice_of(connection_input(front->connection).data, 1));
  connection_consume(front->connection, 1);
  connection_hold(front->connection, true);
  connection_hold(front->connection, false);
  front->depth--;
}

static void lifting_the_hold_at_once_does_not_recurse(void **state) {
  (void)state;
  fixture->on_input = answer_one_byte;
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  uint8_t *bytes = noise(5000);
  net_fixture_send(fixture, fd, bytes, 5000);
  net_fixture_run_until_size(fixture, &front->received.length, 5000);
  assert_int_equal(front->deepest, 1);
  assert_slices(buffer_slice(&front->received), slice_of(bytes, 5000));
  free(bytes);
  close(fd);
}

static unsigned read_calls;

static ssize_t counted_read(int fd, void *state, void *data, size_t length) {
  read_calls++;
  return transport_plain.read(fd, state, data, length);
}

static void a_full_read_ahead_is_refilled_in_large_steps(void **state) {
  (void)state;
  fixture->on_input = front_ignore;
  struct transport_ops counted = transport_plain;
  counted.read = counted_read;
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  front->connection->ops = &counted;
  uint8_t *bytes = noise(200000);
  net_fixture_stuff(fixture, fd, bytes, 200000);
  read_calls = 0;
  for (int i = 0; i < 100; i++) {
    connection_consume(front->connection, 300);
    net_fixture_run(fixture, 1);
  }
  assert_int_equal(read_calls, 0);
  connection_consume(front->connection, 5000);
  net_fixture_run(fixture, 20);
  assert_true(read_calls >= 1 && read_calls <= 3);
  assert_int_equal(connection_input(front->connection).length, READ_AHEAD_LIMIT);
  assert_memory_equal(connection_input(front->connection).data, bytes + 35000, READ_AHEAD_LIMIT);
  front->connection->ops = &transport_plain;
  free(bytes);
  close(fd);
}

static unsigned hoard;

static bool hoards_input(const void *state) {
  (void)state;
  return hoard > 0;
}

/* As TLS does: takes all there is from the socket, which then wakes nobody, and hands it out
 * piecemeal. */
static ssize_t read_from_hoard(int fd, void *state, void *data, size_t length) {
  char bytes[16];
  ssize_t count = transport_plain.read(fd, state, bytes, sizeof bytes);
  if (count > 0) hoard += (unsigned)count;
  if (!hoard) return count;
  hoard--;
  memset(data, 'h', 1);
  return length ? 1 : 0;
}

static void bytes_held_by_the_transport_are_read_without_the_socket(void **state) {
  (void)state;
  struct transport_ops hoarder = transport_plain;
  hoarder.read = read_from_hoard;
  hoarder.has_pending_input = hoards_input;
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  front->connection->ops = &hoarder;
  assert_int_equal(send(fd, "xxxx", 4, 0), 4);
  net_fixture_run_until_size(fixture, &front->received.length, 4);
  assert_slice_text(buffer_slice(&front->received), "hhhh");

  /* Nor when reading stopped before all of it was handed out. */
  size_t limit = READ_AHEAD_LIMIT;
  front->on_input = front_ignore;
  connection_want_input(front->connection, 1);
  hoard = (unsigned)limit + 3;
  assert_int_equal(send(fd, "x", 1, 0), 1);
  while (connection_input(front->connection).length < limit) ev_run(fixture->loop, EVRUN_ONCE);
  net_fixture_run(fixture, 20);
  assert_int_equal(hoard, 4);
  connection_consume(front->connection, limit);
  net_fixture_run(fixture, 20);
  assert_int_equal(hoard, 0);
  assert_int_equal(connection_input(front->connection).length, 4);
  front->connection->ops = &transport_plain;
  close(fd);
}

/* Output */

static void queue_output(struct front *front, const uint8_t *bytes, size_t length) {
  struct buffer block = {0};
  buffer_append(&block, bytes, length);
  connection_write(front->connection, &block);
  assert_int_equal(block.length, 0);
  assert_null(block.data);
}

static void output_arrives_in_order_and_is_reported_drained_once(void **state) {
  (void)state;
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  size_t length = 8 << 20, step = 100000;
  uint8_t *bytes = noise(length), *received = memory_allocate(length);
  for (size_t at = 0; at < length; at += step) {
    queue_output(front, bytes + at, length - at < step ? length - at : step);
  }
  assert_true(connection_output_is_full(front->connection));
  assert_true(fixture->budget.used >= length);
  net_fixture_run(fixture, 50); /* the peer reads nothing */
  assert_true(connection_output_pending(front->connection) > 0);
  assert_int_equal(front->drains, 0);
  assert_int_equal(net_fixture_receive(fixture, fd, received, length), length);
  assert_memory_equal(received, bytes, length);
  net_fixture_run_until(fixture, &front->drains, 1);
  net_fixture_run(fixture, 20);
  assert_int_equal(front->drains, 1);
  assert_int_equal(connection_output_pending(front->connection), 0);
  assert_int_equal(fixture->budget.used, 0);
  free(bytes);
  free(received);
  close(fd);
}

static unsigned write_calls;
static size_t largest_write;

static ssize_t counted_write(int fd, void *state, const struct iovec *parts, size_t count) {
  size_t length = 0;
  for (size_t i = 0; i < count; i++) length += parts[i].iov_len;
  if (length > largest_write) largest_write = length;
  write_calls++;
  return transport_plain.write(fd, state, parts, count);
}

static void the_answers_of_one_turn_leave_in_one_write(void **state) {
  (void)state;
  struct transport_ops counted = transport_plain;
  counted.write = counted_write;
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  front->connection->ops = &counted;
  write_calls = 0;
  for (int i = 0; i < 20; i++) queue_output(front, (const uint8_t *)"0123456789", 10);
  assert_int_equal(write_calls, 0);
  char received[200];
  assert_int_equal(net_fixture_receive(fixture, fd, received, 200), 200);
  assert_int_equal(write_calls, 1);
  front->connection->ops = &transport_plain;
  close(fd);
}

static ssize_t swallow(int fd, void *state, const struct iovec *parts, size_t count) {
  (void)fd;
  (void)state;
  size_t length = 0;
  for (size_t i = 0; i < count; i++) length += parts[i].iov_len;
  if (length > largest_write) largest_write = length;
  write_calls++;
  return (ssize_t)length;
}

static void one_large_answer_does_not_hold_the_loop(void **state) {
  (void)state;
  struct transport_ops greedy = transport_plain;
  greedy.write = swallow;
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  front->connection->ops = &greedy;
  write_calls = 0;
  largest_write = 0;
  uint8_t *bytes = noise(8 << 20);
  queue_output(front, bytes, 8 << 20);
  net_fixture_run_until(fixture, &front->drains, 1);
  assert_int_equal(largest_write, WRITE_PER_TURN);
  assert_int_equal(write_calls, 8);
  front->connection->ops = &transport_plain;
  free(bytes);
  close(fd);
}

/* Deadlines */

static void a_deadline_fires_once_when_it_was_moved_not_before(void **state) {
  (void)state;
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  connection_set_deadline(front->connection, 30);
  connection_set_deadline(front->connection, 1000);
  net_fixture_run(fixture, 100);
  assert_int_equal(front->deadlines, 0);
  net_fixture_run_until(fixture, &front->deadlines, 1);
  net_fixture_run(fixture, 250);
  assert_int_equal(front->deadlines, 1);
  close(fd);
}

static void a_deadline_can_be_brought_forward_and_cleared(void **state) {
  (void)state;
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  connection_set_deadline(front->connection, 60000);
  connection_set_deadline(front->connection, 20);
  net_fixture_run(fixture, 60);
  assert_int_equal(front->deadlines, 1);
  connection_set_deadline(front->connection, 20);
  connection_set_deadline(front->connection, 0);
  net_fixture_run(fixture, 60);
  assert_int_equal(front->deadlines, 1);
  close(fd);
}

static void a_peer_that_takes_no_output_is_cut_off(void **state) {
  (void)state;
  net_fixture_close(fixture);
  fixture = net_fixture_open((struct net_fixture_options){.write_timeout_ms = 150});
  struct front *front, *idle;
  int fd = net_fixture_connect(fixture, &front), other = net_fixture_connect(fixture, &idle);
  uint8_t *bytes = noise(16 << 20);
  queue_output(front, bytes, 16 << 20);
  net_fixture_run_until(fixture, &front->closes, 1);
  assert_string_equal(front->reason, "the peer takes no output");
  net_fixture_run(fixture, 200);
  assert_int_equal(idle->closes, 0);
  free(bytes);
  close(fd);
  close(other);
}

static void a_slow_peer_that_makes_progress_is_not_cut_off(void **state) {
  (void)state;
  net_fixture_close(fixture);
  fixture = net_fixture_open((struct net_fixture_options){.write_timeout_ms = 1500});
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  size_t length = 16 << 20, step = 2 << 20;
  uint8_t *bytes = noise(length), *received = memory_allocate(length);
  queue_output(front, bytes, length);
  for (size_t at = 0; at < length; at += step) {
    net_fixture_run(fixture, 250);
    assert_int_equal(net_fixture_receive(fixture, fd, received + at, step), step);
  }
  assert_memory_equal(received, bytes, length);
  assert_int_equal(front->closes, 0);
  free(bytes);
  free(received);
  close(fd);
}

/* The end */

static void close_it(struct front *front) {
  connection_close(front->connection, "enough");
  assert_null(front->connection); /* on_closed came before the return */
}

static void on_input_may_close_the_connection(void **state) {
  (void)state;
  fixture->on_input = close_it;
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  uint8_t *bytes = noise(300000);
  net_fixture_stuff(fixture, fd, bytes, 300000);
  net_fixture_run_until(fixture, &front->closes, 1);
  assert_string_equal(front->reason, "enough");
  assert_int_equal(front->inputs, 1);
  assert_int_equal(listener_connection_count(fixture->listener), 0);
  free(bytes);
  close(fd);
}

static void on_end_of_input_may_close_the_connection(void **state) {
  (void)state;
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  front->on_end = close_it;
  shutdown(fd, SHUT_WR);
  net_fixture_run_until(fixture, &front->closes, 1);
  close(fd);
}

static void say_goodbye(struct front *front) {
  size_t unread = connection_input(front->connection).length;
  queue_output(front, (const uint8_t *)"goodbye", 7);
  connection_close_after_output(front->connection, 1000, "said goodbye");
  connection_consume(front->connection, unread); /* allowed, and without effect */
  struct buffer late = {0};
  buffer_append_text(&late, "late");
  connection_write(front->connection, &late);
  assert_null(late.data);
}

static void the_last_answer_arrives_although_input_was_left_unread(void **state) {
  (void)state;
  fixture->on_input = say_goodbye;
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  uint8_t *bytes = noise(200000);
  net_fixture_stuff(fixture, fd, bytes, 200000);
  char received[16];
  assert_int_equal(net_fixture_receive(fixture, fd, received, 16), 7);
  assert_memory_equal(received, "goodbye", 7);
  assert_int_equal(front->closes, 1);
  assert_string_equal(front->reason, "said goodbye");
  free(bytes);
  close(fd);
}

static void closing_waits_for_the_output_but_not_longer_than_its_grace(void **state) {
  (void)state;
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  uint8_t *bytes = noise(16 << 20);
  queue_output(front, bytes, 16 << 20);
  connection_close_after_output(front->connection, 150, "stopping");
  net_fixture_run(fixture, 50);
  assert_int_equal(front->closes, 0);
  net_fixture_run_until(fixture, &front->closes, 1);
  assert_string_equal(front->reason, "stopping");
  free(bytes);
  close(fd);
}

static void calls_after_the_close_do_nothing(void **state) {
  (void)state;
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  struct connection *connection = front->connection;
  connection_close(connection, "first");
  connection_close(connection, "second");
  connection_hold(connection, true);
  connection_want_input(connection, 5);
  connection_set_deadline(connection, 1);
  assert_string_equal(front->reason, "first");
  assert_true(net_fixture_is_at_end(fixture, fd));
  close(fd);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)
  const struct CMUnitTest tests[] = {
      CASE(input_arrives_in_order_byte_by_byte),
      CASE(input_is_delivered_only_when_the_wanted_length_is_there),
      CASE(lowering_the_wanted_length_delivers_what_is_there),
      CASE(input_that_is_not_consumed_is_not_delivered_again_without_news),
      CASE(a_large_frame_arrives_whole_and_gives_its_memory_back),
      CASE(input_can_be_taken_in_parts_of_any_size),
      CASE(memory_follows_what_arrived_not_what_was_wanted),
      CASE(a_held_connection_reads_ahead_a_little_and_delivers_nothing),
      CASE(the_end_of_input_is_noticed_while_held),
      CASE(a_dead_peer_is_noticed_although_nothing_is_read),
      CASE(a_reset_closes_the_connection),
      CASE(lifting_the_hold_at_once_does_not_recurse),
      CASE(a_full_read_ahead_is_refilled_in_large_steps),
      CASE(bytes_held_by_the_transport_are_read_without_the_socket),
      CASE(output_arrives_in_order_and_is_reported_drained_once),
      CASE(the_answers_of_one_turn_leave_in_one_write),
      CASE(one_large_answer_does_not_hold_the_loop),
      CASE(a_deadline_fires_once_when_it_was_moved_not_before),
      CASE(a_deadline_can_be_brought_forward_and_cleared),
      CASE(a_peer_that_takes_no_output_is_cut_off),
      CASE(a_slow_peer_that_makes_progress_is_not_cut_off),
      CASE(on_input_may_close_the_connection),
      CASE(on_end_of_input_may_close_the_connection),
      CASE(the_last_answer_arrives_although_input_was_left_unread),
      CASE(closing_waits_for_the_output_but_not_longer_than_its_grace),
      CASE(calls_after_the_close_do_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
