/* The listener: addresses, the connection limit, running out of descriptors, and what an idle
 * connection costs. */
#include <arpa/inet.h>
#include <malloc.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "net/socket.h"
#include "net_fixture.h"
#include "unit.h"

static struct net_fixture *open_with(const char *host, unsigned max_connections) {
  return net_fixture_open(
      (struct net_fixture_options){.host = host, .max_connections = max_connections});
}

static void the_bound_address_is_reported(void **state) {
  (void)state;
  struct net_fixture *fixture = open_with("127.0.0.1", 10);
  const char *address = listener_address(fixture->listener);
  assert_memory_equal(address, "127.0.0.1:", 10);
  assert_true(atoi(address + 10) > 0);
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  assert_memory_equal(connection_peer(front->connection), "127.0.0.1:", 10);
  assert_ptr_equal(connection_loop(front->connection), fixture->loop);
  close(fd);
  net_fixture_close(fixture);
}

static int connect_to(int family, const char *host, uint16_t port) {
  struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
  inet_pton(family, host, family == AF_INET ? (void *)&v4.sin_addr : (void *)&v6.sin6_addr);
  int fd = socket(family, SOCK_STREAM, 0);
  int result = family == AF_INET ? connect(fd, (struct sockaddr *)&v4, sizeof v4)
                                 : connect(fd, (struct sockaddr *)&v6, sizeof v6);
  if (result == 0) return fd;
  close(fd);
  return -1;
}

static bool host_has_ipv6(void) {
  int fds[SOCKET_LISTEN_MAX];
  char *reason = NULL;
  unsigned count = socket_listen("::1", "0", false, fds, &reason);
  free(reason);
  for (unsigned i = 0; i < count; i++) close(fds[i]);
  return count > 0;
}

static void every_address_means_both_protocols_on_one_port(void **state) {
  (void)state;
  static const char *const hosts[] = {"*", ""};
  for (int i = 0; i < 2; i++) {
    struct net_fixture *fixture = open_with(hosts[i], 10);
    uint16_t port = (uint16_t)atoi(strrchr(listener_address(fixture->listener), ':') + 1);
    int v4 = connect_to(AF_INET, "127.0.0.1", port);
    assert_true(v4 >= 0);
    net_fixture_run_until(fixture, &fixture->accepted, 1);
    if (host_has_ipv6()) {
      int v6 = connect_to(AF_INET6, "::1", port);
      assert_true(v6 >= 0);
      net_fixture_run_until(fixture, &fixture->accepted, 2);
      assert_memory_equal(connection_peer(fixture->fronts[1].connection), "[::1]:", 6);
      close(v6);
    }
    close(v4);
    net_fixture_close(fixture);
  }
}

static void a_port_of_somebody_else_is_an_error_that_says_so(void **state) {
  (void)state;
  int fds[SOCKET_LISTEN_MAX], again[SOCKET_LISTEN_MAX];
  char *reason = NULL, address[SOCKET_ADDRESS_SIZE];
  assert_int_equal(socket_listen("127.0.0.1", "0", false, fds, &reason), 1);
  socket_local_address(fds[0], address);
  assert_int_equal(socket_listen("127.0.0.1", strrchr(address, ':') + 1, true, again, &reason), 0);
  assert_non_null(strstr(reason, address));
  assert_non_null(strstr(reason, "in use"));
  free(reason);
  close(fds[0]);
}

static void two_processes_may_share_a_port(void **state) {
  (void)state;
  int fds[SOCKET_LISTEN_MAX], again[SOCKET_LISTEN_MAX];
  char *reason = NULL, address[SOCKET_ADDRESS_SIZE];
  assert_int_equal(socket_listen("127.0.0.1", "0", true, fds, &reason), 1);
  socket_local_address(fds[0], address);
  assert_int_equal(socket_listen("127.0.0.1", strrchr(address, ':') + 1, true, again, &reason), 1);
  close(fds[0]);
  close(again[0]);
}

static void an_unknown_host_is_an_error(void **state) {
  (void)state;
  int fds[SOCKET_LISTEN_MAX];
  char *reason = NULL;
  assert_int_equal(socket_listen("999.1.2.3.invalid", "0", true, fds, &reason), 0);
  assert_non_null(strstr(reason, "cannot listen on 999.1.2.3.invalid:0"));
  free(reason);
}

static void connections_above_the_limit_wait_in_the_backlog(void **state) {
  (void)state;
  struct net_fixture *fixture = open_with(NULL, 2);
  int first = net_fixture_connect(fixture, NULL), second = net_fixture_connect(fixture, NULL);
  int third = net_fixture_dial(fixture); /* the kernel takes it */
  assert_int_equal(send(third, "hello", 5, 0), 5);
  unsigned turns = ev_iteration(fixture->loop);
  net_fixture_run(fixture, 100);
  assert_int_equal(fixture->accepted, 2);
  assert_int_equal(listener_connection_count(fixture->listener), 2);
  assert_true(ev_iteration(fixture->loop) - turns < 10); /* waiting is not spinning */

  connection_close(fixture->fronts[0].connection, "test");
  net_fixture_run_until(fixture, &fixture->accepted, 3);
  net_fixture_run_until_size(fixture, &fixture->fronts[2].received.length, 5);
  assert_int_equal(listener_connection_count(fixture->listener), 2);
  close(first);
  close(second);
  close(third);
  net_fixture_close(fixture);
}

static void running_out_of_descriptors_pauses_and_recovers(void **state) {
  (void)state;
  struct net_fixture *fixture = open_with(NULL, 10);
  int waiting = net_fixture_dial(fixture);
  struct rlimit limit, low;
  getrlimit(RLIMIT_NOFILE, &limit);
  low = limit;
  int next = dup(waiting);
  close(next);
  low.rlim_cur = (rlim_t)next; /* no number is left below it */
  setrlimit(RLIMIT_NOFILE, &low);
  unsigned turns = ev_iteration(fixture->loop);
  net_fixture_run(fixture, 350);
  setrlimit(RLIMIT_NOFILE, &limit);
  assert_int_equal(fixture->accepted, 0);
  assert_true(ev_iteration(fixture->loop) - turns < 15);
  net_fixture_run_until(fixture, &fixture->accepted, 1);
  close(waiting);
  net_fixture_close(fixture);
}

static void stopping_refuses_new_connections_and_keeps_open_ones(void **state) {
  (void)state;
  struct net_fixture *fixture = open_with(NULL, 10);
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  listener_stop(fixture->listener);
  uint16_t port = (uint16_t)atoi(strrchr(listener_address(fixture->listener), ':') + 1);
  assert_int_equal(connect_to(AF_INET, "127.0.0.1", port), -1);
  net_fixture_send(fixture, fd, "still here", 10);
  net_fixture_run_until_size(fixture, &front->received.length, 10);
  close(fd);
  net_fixture_close(fixture);
}

static void close_everything(struct connection *connection, void *context) {
  (void)connection;
  struct net_fixture *fixture = context;
  for (unsigned i = 0; i < fixture->accepted; i++) {
    if (fixture->fronts[i].connection) connection_close(fixture->fronts[i].connection, "test");
  }
}

static void a_visit_may_close_any_connection(void **state) {
  (void)state;
  struct net_fixture *fixture = open_with(NULL, 10);
  int fds[4];
  for (int i = 0; i < 4; i++) fds[i] = net_fixture_connect(fixture, NULL);
  listener_each_connection(fixture->listener, close_everything, fixture);
  assert_int_equal(listener_connection_count(fixture->listener), 0);
  for (int i = 0; i < 4; i++) close(fds[i]);
  net_fixture_close(fixture);
}

/* Raises the limit as far as it goes; how many connections (two descriptors each here) fit. */
static unsigned affordable_connections(void) {
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur >= 2200 ? 1000 : (unsigned)(limit.rlim_cur - 100) / 2;
}

static void an_idle_connection_costs_little_memory_and_no_time(void **state) {
  (void)state;
  struct net_fixture *fixture = open_with(NULL, 2000);
  fixture->on_input = front_consume_all;
  unsigned count = affordable_connections();
  int *fds = memory_allocate_zeroed(count, sizeof *fds);
  net_fixture_run(fixture, 10);
  size_t before = mallinfo2().uordblks;
  for (unsigned i = 0; i < count; i++) {
    struct front *front;
    fds[i] = net_fixture_connect(fixture, &front);
    /* Each has had a request, with its deadline, and an answer. */
    connection_set_deadline(front->connection, 30000);
    net_fixture_send(fixture, fds[i], "a request", 9);
    net_fixture_run_until(fixture, &front->inputs, 1);
    struct buffer answer = {0};
    buffer_append_text(&answer, "an answer");
    connection_write(front->connection, &answer);
    connection_set_deadline(front->connection, 0);
  }
  net_fixture_run(fixture, 50);
  size_t cost = (mallinfo2().uordblks - before) / count;
  print_message("%zu bytes a connection\n", cost);
  assert_true(cost < 1024);
  assert_int_equal(fixture->budget.used, 0);
  unsigned turns = ev_iteration(fixture->loop);
  net_fixture_run(fixture, 300);
  assert_true(ev_iteration(fixture->loop) - turns < 5);
  for (unsigned i = 0; i < count; i++) close(fds[i]);
  free(fds);
  net_fixture_close(fixture);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_bound_address_is_reported),
      cmocka_unit_test(every_address_means_both_protocols_on_one_port),
      cmocka_unit_test(a_port_of_somebody_else_is_an_error_that_says_so),
      cmocka_unit_test(two_processes_may_share_a_port),
      cmocka_unit_test(an_unknown_host_is_an_error),
      cmocka_unit_test(connections_above_the_limit_wait_in_the_backlog),
      cmocka_unit_test(running_out_of_descriptors_pauses_and_recovers),
      cmocka_unit_test(stopping_refuses_new_connections_and_keeps_open_ones),
      cmocka_unit_test(a_visit_may_close_any_connection),
      cmocka_unit_test(an_idle_connection_costs_little_memory_and_no_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
