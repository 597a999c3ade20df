/* See net_fixture.h. */
#include "net_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "unit.h"

enum { PATIENCE_MS = 60000 };

static void on_input(struct connection *connection, void *owner) {
  struct front *front = owner;
  front->inputs++;
  front->unread_at_input = connection_input(connection).length;
  front->on_input(front);
}

static void on_end_of_input(struct connection *connection, void *owner) {
  (void)connection;
  struct front *front = owner;
  front->ends++;
  if (front->on_end) front->on_end(front);
}

static void on_output_drained(struct connection *connection, void *owner) {
  (void)connection;
  ((struct front *)owner)->drains++;
}

static void on_deadline(struct connection *connection, void *owner) {
  (void)connection;
  ((struct front *)owner)->deadlines++;
}

static void on_closed(struct connection *connection, void *owner, const char *reason) {
  struct front *front = owner;
  assert_ptr_equal(front->connection, connection);
  front->closes++;
  front->connection = NULL;
  snprintf(front->reason, sizeof front->reason, "%s", reason);
}

static const struct connection_handler handler = {
    .on_input = on_input,
    .on_end_of_input = on_end_of_input,
    .on_output_drained = on_output_drained,
    .on_deadline = on_deadline,
    .on_closed = on_closed,
};

static void on_accept(struct connection *connection, void *context) {
  struct net_fixture *fixture = context;
  assert_true(fixture->accepted < NET_FIXTURE_FRONTS);
  struct front *front = &fixture->fronts[fixture->accepted++];
  front->connection = connection;
  front->on_input = fixture->on_input;
  connection_attach(connection, &handler, front);
}

struct net_fixture *net_fixture_open(struct net_fixture_options options) {
  struct net_fixture *fixture = memory_allocate_zeroed(1, sizeof *fixture);
  fixture->loop = ev_loop_new(EVFLAG_AUTO);
  fixture->budget.limit = options.memory_limit ? options.memory_limit : 256u << 20;
  fixture->on_input = front_take_all;
  struct listener_options listener = {
      .host = options.host ? options.host : "127.0.0.1",
      .port = "0",
      .max_connections = options.max_connections ? options.max_connections : 2000,
      .write_timeout_ms = options.write_timeout_ms ? options.write_timeout_ms : 30000,
      .budget = &fixture->budget,
      .tls = options.tls,
      .on_accept = on_accept,
      .context = fixture,
  };
  char *reason = NULL;
  fixture->listener = listener_open(fixture->loop, &listener, &reason);
  if (!fixture->listener) fail_msg("%s", reason);
  return fixture;
}

void net_fixture_close(struct net_fixture *fixture) {
  listener_close(fixture->listener);
  assert_int_equal(fixture->budget.used, 0);
  for (unsigned i = 0; i < fixture->accepted; i++) {
    assert_int_equal(fixture->fronts[i].closes, 1);
    buffer_release(&fixture->fronts[i].received);
  }
  ev_loop_destroy(fixture->loop);
  free(fixture);
}

static void on_tick(struct ev_loop *loop, ev_timer *timer, int revents) {
  (void)loop;
  (void)timer;
  (void)revents;
}

static void run_once(struct net_fixture *fixture, int milliseconds) {
  ev_timer timer;
  ev_timer_init(&timer, on_tick, milliseconds / 1000., 0.);
  ev_now_update(fixture->loop);
  ev_timer_start(fixture->loop, &timer);
  ev_run(fixture->loop, EVRUN_ONCE);
  ev_timer_stop(fixture->loop, &timer);
}

void net_fixture_run(struct net_fixture *fixture, int milliseconds) {
  int64_t end = clock_monotonic_us() + milliseconds * 1000;
  for (int64_t now; (now = clock_monotonic_us()) < end;) {
    run_once(fixture, (int)((end - now) / 1000) + 1);
  }
  /* Once more for what became due while this process was not running. */
  ev_now_update(fixture->loop);
  ev_run(fixture->loop, EVRUN_NOWAIT);
}

void net_fixture_run_until(struct net_fixture *fixture, const unsigned *value, unsigned wanted) {
  int64_t end = clock_monotonic_us() + PATIENCE_MS * 1000;
  while (*value < wanted) {
    if (clock_monotonic_us() > end) fail_msg("waited for %u, have %u", wanted, *value);
    run_once(fixture, 20);
  }
}

void net_fixture_run_until_size(struct net_fixture *fixture, const size_t *value, size_t wanted) {
  int64_t end = clock_monotonic_us() + PATIENCE_MS * 1000;
  while (*value < wanted) {
    if (clock_monotonic_us() > end) fail_msg("waited for %zu, have %zu", wanted, *value);
    run_once(fixture, 20);
  }
}

int net_fixture_dial(struct net_fixture *fixture) {
  char host[64];
  snprintf(host, sizeof host, "%s", listener_address(fixture->listener));
  char *port = strrchr(host, ':');
  *port++ = 0;
  const char *name = host[0] == '[' ? "::1" : host;
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *address;
  assert_int_equal(getaddrinfo(name, port, &hints, &address), 0);
  int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  assert_int_equal(connect(fd, address->ai_addr, address->ai_addrlen), 0);
  freeaddrinfo(address);
  return fd;
}

int net_fixture_connect(struct net_fixture *fixture, struct front **front) {
  unsigned before = fixture->accepted;
  int fd = net_fixture_dial(fixture);
  net_fixture_run_until(fixture, &fixture->accepted, before + 1);
  if (front) *front = &fixture->fronts[before];
  return fd;
}

void net_fixture_send(struct net_fixture *fixture, int fd, const void *data, size_t length) {
  const uint8_t *bytes = data;
  while (length) {
    ssize_t sent = send(fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) {
      bytes += sent;
      length -= (size_t)sent;
    } else if (errno != EAGAIN) {
      fail_msg("send: %s", strerror(errno));
    }
    run_once(fixture, 1);
  }
}

size_t net_fixture_stuff(struct net_fixture *fixture, int fd, const void *data, size_t length) {
  const uint8_t *bytes = data;
  size_t sent = 0;
  for (int quiet = 0; quiet < 3 && sent < length;) {
    ssize_t count = send(fd, bytes + sent, length - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    quiet = count > 0 ? 0 : quiet + 1;
    if (count > 0) sent += (size_t)count;
    net_fixture_run(fixture, 10);
  }
  return sent;
}

size_t net_fixture_receive(struct net_fixture *fixture, int fd, void *data, size_t length) {
  uint8_t *bytes = data;
  size_t received = 0;
  int64_t end = clock_monotonic_us() + PATIENCE_MS * 1000;
  while (received < length) {
    if (clock_monotonic_us() > end) fail_msg("received %zu of %zu", received, length);
    ssize_t count = recv(fd, bytes + received, length - received, MSG_DONTWAIT);
    if (count == 0) break;
    if (count > 0) {
      received += (size_t)count;
    } else if (errno != EAGAIN) {
      fail_msg("recv: %s", strerror(errno));
    } else {
      run_once(fixture, 5);
    }
  }
  return received;
}

bool net_fixture_is_at_end(struct net_fixture *fixture, int fd) {
  char byte;
  net_fixture_run(fixture, 20);
  return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

void front_take_all(struct front *front) {
  struct slice input = connection_input(front->connection);
  buffer_append_slice(&front->received, input);
  connection_consume(front->connection, input.length);
}

void front_consume_all(struct front *front) {
  connection_consume(front->connection, connection_input(front->connection).length);
}

void front_ignore(struct front *front) {
  (void)front;
}
