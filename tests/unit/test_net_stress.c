/* Random traffic under a small memory budget: frames of all sizes, echoes, holds, sudden ends.
 * Whatever happens, what arrives is what was sent, and the budget balances at the end. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "net_fixture.h"
#include "unit.h"

enum { PEERS = 24, ROUNDS = 30000, FRAME_MAX = 400000, HEAD = 4 };

struct peer {
  int fd;
  struct front *front;
  struct buffer outgoing; /* frames being sent */
  size_t sent;
  size_t echo_expected, echo_received;
};

static struct net_fixture *fixture;
static uint64_t seed = 2026;
static unsigned frames_seen, peers_made;

/* Frames waiting to be answered: the front end holds the connection and their charge meanwhile. */
struct work {
  struct front *front;
  struct buffer frame;
};
static struct work works[PEERS * 4];
static unsigned work_count;

static uint8_t pattern(size_t length, size_t i) {
  return (uint8_t)(length * 31 + i);
}

static void check_pattern(const struct buffer *frame) {
  for (size_t i = 0; i < frame->length; i += 1 + frame->length / 64) {
    assert_int_equal(frame->data[i], pattern(frame->length, i));
  }
}

/* One frame a call, as a session does. */
static void read_frame(struct front *front) {
  struct connection *connection = front->connection;
  struct slice input = connection_input(connection);
  if (input.length < HEAD) {
    connection_want_input(connection, HEAD);
    return;
  }
  uint32_t length;
  memcpy(&length, input.data, HEAD);
  if (input.length < HEAD + length) {
    connection_want_input(connection, HEAD + length);
    return;
  }
  struct work *work = &works[work_count++];
  assert_true(work_count < sizeof works / sizeof works[0]);
  *work = (struct work){.front = front};
  connection_consume(connection, HEAD);
  connection_take_input(connection, length, &work->frame);
  check_pattern(&work->frame);
  frames_seen++;
  connection_want_input(connection, HEAD);
  connection_hold(connection, true);
}

static void finish_work(unsigned index) {
  struct work work = works[index];
  works[index] = works[--work_count];
  memory_budget_release(&fixture->budget, work.frame.length);
  struct connection *connection = work.front->connection;
  if (!connection) {
    buffer_release(&work.frame);
  } else if (noise_below(&seed, 50) == 0) {
    buffer_release(&work.frame);
    connection_close(connection, "at random");
  } else {
    connection_write(connection, &work.frame);
    connection_hold(connection, false);
  }
}

static void start_peer(struct peer *peer) {
  *peer = (struct peer){0};
  fixture->on_input = read_frame;
  assert_true(++peers_made < NET_FIXTURE_FRONTS);
  peer->fd = net_fixture_connect(fixture, &peer->front);
}

static void stop_peer(struct peer *peer) {
  close(peer->fd);
  buffer_release(&peer->outgoing);
}

static void queue_frame(struct peer *peer) {
  uint32_t length = (uint32_t)noise_below(&seed, noise_below(&seed, 4) ? 300 : FRAME_MAX) + 1;
  buffer_append(&peer->outgoing, &length, HEAD);
  uint8_t *bytes = buffer_extend(&peer->outgoing, length);
  for (size_t i = 0; i < length; i++) bytes[i] = pattern(length, i);
  peer->echo_expected += length;
}

/* False when the connection has ended. */
static bool move_bytes(struct peer *peer) {
  if (peer->sent == peer->outgoing.length) {
    peer->outgoing.length = peer->sent = 0;
    if (peer->echo_expected - peer->echo_received < FRAME_MAX) queue_frame(peer);
  }
  size_t left = peer->outgoing.length - peer->sent;
  size_t step = noise_below(&seed, 60000) + 1;
  ssize_t count = send(peer->fd, peer->outgoing.data + peer->sent, left < step ? left : step,
                       MSG_DONTWAIT | MSG_NOSIGNAL);
  if (count > 0) peer->sent += (size_t)count;
  if (count < 0 && errno != EAGAIN) return false;
  static uint8_t sink[100000];
  count = recv(peer->fd, sink, noise_below(&seed, sizeof sink) + 1, MSG_DONTWAIT);
  if (count > 0) peer->echo_received += (size_t)count;
  assert_true(peer->echo_received <= peer->echo_expected);
  return count > 0 || (count < 0 && errno == EAGAIN);
}

static void random_traffic_keeps_its_content_and_the_balance(void **state) {
  (void)state;
  fixture = net_fixture_open((struct net_fixture_options){.memory_limit = 500000});
  struct peer peers[PEERS];
  for (int i = 0; i < PEERS; i++) start_peer(&peers[i]);
  for (unsigned round = 0; round < ROUNDS && peers_made < 500; round++) {
    struct peer *peer = &peers[noise_below(&seed, PEERS)];
    bool ends = !move_bytes(peer) || noise_below(&seed, 2000) == 0;
    if (ends) {
      stop_peer(peer);
      start_peer(peer);
    }
    if (work_count && noise_below(&seed, 3) == 0)
      finish_work((unsigned)noise_below(&seed, work_count));
    ev_run(fixture->loop, EVRUN_NOWAIT);
  }
  assert_true(frames_seen > 500);
  assert_true(fixture->budget.peak > fixture->budget.limit);
  for (int i = 0; i < PEERS; i++) stop_peer(&peers[i]);
  while (work_count) finish_work(0);
  net_fixture_close(fixture);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_traffic_keeps_its_content_and_the_balance),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
