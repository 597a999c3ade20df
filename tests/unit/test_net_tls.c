/* The TLS transport over a socket pair: bytes that come in pieces, a socket that is full, and every
 * way to end. Then connections over it: no spinning, back-pressure, memory. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "net/connection_private.h"
#include "net_fixture.h"
#include "tls_fixture.h"
#include "unit.h"

static struct tls_fixture files;
static struct tls_server *server;

/* One connection: the transport on one end of a socket pair, the client's bytes at the other. */
struct pair {
  const struct transport_ops *ops;
  void *state;
  int fd;   /* the transport's */
  int peer; /* ours */
  struct tls_client client;
};

static void open_pair(struct pair *pair, int version) {
  int fds[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
  pair->fd = fds[0];
  pair->peer = fds[1];
  pair->ops = transport_tls_accept(server, pair->fd, "a test", &pair->state);
  assert_non_null(pair->ops);
  tls_client_open(&pair->client, version);
}

static void close_pair(struct pair *pair) {
  pair->ops->close(pair->fd, pair->state);
  tls_client_close(&pair->client);
  close(pair->peer);
}

static ssize_t read_some(struct pair *pair, void *bytes, size_t size) {
  return pair->ops->read(pair->fd, pair->state, bytes, size);
}

static void assert_nothing_to_read(struct pair *pair) {
  char byte;
  assert_int_equal(read_some(pair, &byte, 1), -1);
  assert_int_equal(errno, EAGAIN);
}

/* Sends bytes of the client's to the transport. */
static void deliver(struct pair *pair, struct buffer bytes) {
  assert_int_equal(send(pair->peer, bytes.data, bytes.length, 0), bytes.length);
  buffer_release(&bytes);
}

/* Takes what the transport has sent to the client. */
static size_t collect(struct pair *pair) {
  uint8_t bytes[65536];
  size_t total = 0;
  ssize_t count;
  while ((count = recv(pair->peer, bytes, sizeof bytes, 0)) > 0) {
    tls_client_feed(&pair->client, bytes, (size_t)count);
    total += (size_t)count;
  }
  return total;
}

static void shake_hands(struct pair *pair) {
  for (int turn = 0; turn < 10; turn++) {
    bool done = tls_client_handshake(&pair->client);
    struct buffer flight = tls_client_take(&pair->client);
    if (flight.length) {
      deliver(pair, flight);
      assert_nothing_to_read(pair);
    }
    collect(pair);
    if (done) return;
  }
  fail_msg("no handshake");
}

static void open_ready(struct pair *pair) {
  open_pair(pair, TLS1_3_VERSION);
  shake_hands(pair);
}

static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

/* Pieces */

static void a_handshake_of_single_bytes_succeeds(void **state) {
  (void)state;
  for (size_t v = 0; v < 2; v++) {
    struct pair pair;
    open_pair(&pair, versions[v]);
    bool done = false;
    for (int turn = 0; turn < 10 && !done; turn++) {
      done = tls_client_handshake(&pair.client);
      struct buffer flight = tls_client_take(&pair.client);
      for (size_t i = 0; i < flight.length; i++) {
        assert_int_equal(send(pair.peer, flight.data + i, 1, 0), 1);
        assert_nothing_to_read(&pair);
        assert_false(pair.ops->read_needs_write(pair.state));
        assert_false(pair.ops->has_pending_input(pair.state));
      }
      buffer_release(&flight);
      collect(&pair);
    }
    assert_true(done);
    close_pair(&pair);
  }
}

static void a_record_in_pieces_is_read_when_it_is_whole(void **state) {
  (void)state;
  struct pair pair;
  open_ready(&pair);
  struct buffer record = tls_client_encrypt(&pair.client, "hello", 5);
  for (size_t i = 0; i + 1 < record.length; i++) {
    assert_int_equal(send(pair.peer, record.data + i, 1, 0), 1);
    assert_nothing_to_read(&pair);
    assert_false(pair.ops->has_pending_input(pair.state)); /* the loop would spin */
  }
  assert_int_equal(send(pair.peer, record.data + record.length - 1, 1, 0), 1);
  char bytes[16];
  assert_int_equal(read_some(&pair, bytes, sizeof bytes), 5);
  assert_memory_equal(bytes, "hello", 5);
  buffer_release(&record);
  close_pair(&pair);
}

static void what_is_left_of_a_record_is_pending(void **state) {
  (void)state;
  struct pair pair;
  open_ready(&pair);
  deliver(&pair, tls_client_encrypt(&pair.client, "hello", 5));
  char bytes[16];
  assert_int_equal(read_some(&pair, bytes, 2), 2);
  assert_true(pair.ops->has_pending_input(pair.state));
  assert_int_equal(read_some(&pair, bytes + 2, sizeof bytes), 3);
  assert_memory_equal(bytes, "hello", 5);
  assert_false(pair.ops->has_pending_input(pair.state));
  close_pair(&pair);
}

static void full_records_are_read_in_one_go(void **state) {
  (void)state;
  struct pair pair;
  open_ready(&pair);
  size_t length = 50000;
  uint64_t seed = 3;
  uint8_t *sent = memory_allocate(length), *received = memory_allocate(length + 1);
  noise_fill(&seed, sent, length);
  deliver(&pair, tls_client_encrypt(&pair.client, sent, length));
  assert_int_equal(read_some(&pair, received, length + 1), length);
  assert_memory_equal(received, sent, length);
  free(sent);
  free(received);
  close_pair(&pair);
}

/* A full socket */

static size_t fill(int fd) {
  static const uint8_t zeros[4096];
  size_t total = 0;
  ssize_t count;
  while ((count = send(fd, zeros, sizeof zeros, MSG_DONTWAIT)) > 0) total += (size_t)count;
  return total;
}

static void drain(int fd, size_t length) {
  uint8_t bytes[4096];
  while (length) {
    ssize_t count = recv(fd, bytes, length < sizeof bytes ? length : sizeof bytes, 0);
    assert_true(count > 0);
    length -= (size_t)count;
  }
}

static void a_handshake_that_cannot_send_waits_for_the_socket_to_take_bytes(void **state) {
  (void)state;
  struct pair pair;
  open_pair(&pair, TLS1_3_VERSION);
  size_t garbage = fill(pair.fd);
  assert_false(tls_client_handshake(&pair.client));
  deliver(&pair, tls_client_take(&pair.client));
  assert_nothing_to_read(&pair);
  assert_true(pair.ops->read_needs_write(pair.state));
  drain(pair.peer, garbage);
  assert_nothing_to_read(&pair);
  assert_false(pair.ops->read_needs_write(pair.state));
  assert_true(collect(&pair) > 0);
  shake_hands(&pair);
  deliver(&pair, tls_client_encrypt(&pair.client, "x", 1));
  char byte;
  assert_int_equal(read_some(&pair, &byte, 1), 1);
  close_pair(&pair);
}

static void a_write_before_the_handshake_waits_for_input(void **state) {
  (void)state;
  struct pair pair;
  open_pair(&pair, TLS1_3_VERSION);
  const struct iovec part = {.iov_base = "hello", .iov_len = 5};
  assert_int_equal(pair.ops->write(pair.fd, pair.state, &part, 1), -1);
  assert_int_equal(errno, EAGAIN);
  assert_true(pair.ops->write_needs_read(pair.state));
  shake_hands(&pair);
  assert_int_equal(pair.ops->write(pair.fd, pair.state, &part, 1), 5);
  assert_false(pair.ops->write_needs_read(pair.state));
  struct buffer plain = {0};
  collect(&pair);
  assert_true(tls_client_decrypt(&pair.client, &plain));
  assert_slice_text(buffer_slice(&plain), "hello");
  buffer_release(&plain);
  close_pair(&pair);
}

/* The queue of a connection: parts of these sizes in turn, over and over. */
static size_t gather_parts(uint8_t *bytes, size_t length, struct iovec *parts, size_t most) {
  static const size_t sizes[] = {1, 100, 16383, 16384, 40000, 7, 3000};
  size_t count = 0, at = 0;
  while (at < length && count < most) {
    size_t size = sizes[count % (sizeof sizes / sizeof sizes[0])];
    if (size > length - at) size = length - at;
    parts[count++] = (struct iovec){.iov_base = bytes + at, .iov_len = size};
    at += size;
  }
  return count;
}

static void output_survives_a_socket_that_takes_it_in_pieces(void **state) {
  (void)state;
  struct pair pair;
  open_ready(&pair);
  int small = 4096;
  setsockopt(pair.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  size_t length = 1 << 20, written = 0;
  uint64_t seed = 5;
  uint8_t *bytes = memory_allocate(length);
  noise_fill(&seed, bytes, length);
  struct buffer plain = {0};
  unsigned refusals = 0;
  while (plain.length < length) {
    struct iovec parts[64];
    size_t count = gather_parts(bytes + written, length - written, parts, 64);
    ssize_t taken = count ? pair.ops->write(pair.fd, pair.state, parts, count) : 0;
    if (taken < 0) {
      assert_int_equal(errno, EAGAIN);
      assert_false(pair.ops->write_needs_read(pair.state));
      refusals++;
    } else {
      written += (size_t)taken;
    }
    collect(&pair);
    assert_true(tls_client_decrypt(&pair.client, &plain));
  }
  assert_true(refusals > 3);
  assert_slices(buffer_slice(&plain), slice_of(bytes, length));
  buffer_release(&plain);
  free(bytes);
  close_pair(&pair);
}

static void small_parts_share_a_record(void **state) {
  (void)state;
  struct pair pair;
  open_ready(&pair);
  uint8_t bytes[640];
  struct iovec parts[64];
  memset(bytes, 'x', sizeof bytes);
  for (int i = 0; i < 64; i++) parts[i] = (struct iovec){bytes + 10 * i, 10};
  assert_int_equal(pair.ops->write(pair.fd, pair.state, parts, 64), sizeof bytes);
  assert_true(collect(&pair) < sizeof bytes + 64);
  close_pair(&pair);
}

/* Ends */

static void close_notify_ends_the_input_and_leaves_the_output(void **state) {
  (void)state;
  struct pair pair;
  open_ready(&pair);
  SSL_shutdown(pair.client.ssl);
  deliver(&pair, tls_client_take(&pair.client));
  char byte;
  assert_int_equal(read_some(&pair, &byte, 1), 0);
  const struct iovec part = {.iov_base = "last", .iov_len = 4};
  assert_int_equal(pair.ops->write(pair.fd, pair.state, &part, 1), 4);
  assert_true(collect(&pair) > 0);
  close_pair(&pair);
}

static void an_end_without_close_notify_leaves_the_output_too(void **state) {
  (void)state;
  struct pair pair;
  open_ready(&pair);
  deliver(&pair, tls_client_encrypt(&pair.client, "x", 1));
  shutdown(pair.peer, SHUT_WR);
  char bytes[4];
  assert_int_equal(read_some(&pair, bytes, sizeof bytes), 1);
  assert_int_equal(read_some(&pair, bytes, sizeof bytes), 0);
  const struct iovec part = {.iov_base = "last", .iov_len = 4};
  assert_int_equal(pair.ops->write(pair.fd, pair.state, &part, 1), 4);
  struct buffer plain = {0};
  collect(&pair);
  assert_true(tls_client_decrypt(&pair.client, &plain));
  assert_slice_text(buffer_slice(&plain), "last");
  buffer_release(&plain);
  close_pair(&pair);
}

/* Only what is read tells the end; the socket itself stays silent when the peer keeps it open. */
static void an_end_behind_a_full_record_is_pending(void **state) {
  (void)state;
  struct pair pair;
  open_ready(&pair);
  uint8_t *bytes = memory_allocate_zeroed(1, 20000);
  deliver(&pair, tls_client_encrypt(&pair.client, bytes, 16384));
  SSL_shutdown(pair.client.ssl);
  deliver(&pair, tls_client_take(&pair.client));
  assert_int_equal(read_some(&pair, bytes, 20000), 16384);
  assert_true(pair.ops->has_pending_input(pair.state));
  assert_int_equal(read_some(&pair, bytes, 20000), 0);
  assert_false(pair.ops->has_pending_input(pair.state));
  free(bytes);
  close_pair(&pair);
}

static void an_end_inside_a_record_is_a_failure(void **state) {
  (void)state;
  for (size_t cut = 1; cut < 25; cut += 4) {
    struct pair pair;
    open_ready(&pair);
    struct buffer record = tls_client_encrypt(&pair.client, "hello", 5);
    record.length = cut < record.length ? cut : record.length - 1;
    deliver(&pair, record);
    shutdown(pair.peer, SHUT_WR);
    char byte;
    assert_int_equal(read_some(&pair, &byte, 1), -1);
    assert_int_equal(errno, EPROTO);
    assert_int_equal(read_some(&pair, &byte, 1), -1); /* and stays one */
    close_pair(&pair);
  }
}

static void rubbish_is_a_failure(void **state) {
  (void)state;
  struct pair pair;
  open_ready(&pair);
  assert_int_equal(send(pair.peer, "no record at all, but long enough", 33, 0), 33);
  char byte;
  assert_int_equal(read_some(&pair, &byte, 1), -1);
  assert_int_equal(errno, EPROTO);
  const struct iovec part = {.iov_base = "x", .iov_len = 1};
  assert_int_equal(pair.ops->write(pair.fd, pair.state, &part, 1), -1);
  assert_int_equal(errno, EPIPE);
  close_pair(&pair);
}

static void finishing_says_close_notify(void **state) {
  (void)state;
  struct pair pair;
  open_ready(&pair);
  pair.ops->finish_output(pair.fd, pair.state);
  struct buffer plain = {0};
  collect(&pair);
  assert_false(tls_client_decrypt(&pair.client, &plain));
  buffer_release(&plain);
  char byte;
  assert_int_equal(recv(pair.peer, &byte, 1, 0), 0);
  close_pair(&pair);
}

static void closing_says_close_notify_too(void **state) {
  (void)state;
  struct pair pair;
  open_ready(&pair);
  pair.ops->close(pair.fd, pair.state);
  struct buffer plain = {0};
  collect(&pair);
  assert_false(tls_client_decrypt(&pair.client, &plain));
  buffer_release(&plain);
  tls_client_close(&pair.client);
  close(pair.peer);
}

static void closing_within_the_handshake_is_quiet(void **state) {
  (void)state;
  struct pair pair;
  open_pair(&pair, TLS1_3_VERSION);
  assert_false(tls_client_handshake(&pair.client));
  struct buffer hello = tls_client_take(&pair.client);
  hello.length /= 2;
  deliver(&pair, hello);
  assert_nothing_to_read(&pair);
  pair.ops->finish_output(pair.fd, pair.state);
  close_pair(&pair);
}

static void an_idle_connection_is_small(void **state) {
  (void)state;
  enum { COUNT = 50 };
  static struct pair pairs[COUNT];
  struct pair first;
  open_ready(&first); /* what OpenSSL sets up once */
  close_pair(&first);
  size_t before = mallinfo2().uordblks;
  for (int i = 0; i < COUNT; i++) {
    open_ready(&pairs[i]);
    deliver(&pairs[i], tls_client_encrypt(&pairs[i].client, "hello", 5));
    char bytes[8];
    assert_int_equal(read_some(&pairs[i], bytes, sizeof bytes), 5);
    tls_client_close(&pairs[i].client);
  }
  size_t each = (mallinfo2().uordblks - before) / COUNT;
  print_message("an idle TLS connection holds %zu bytes\n", each);
  assert_true(each < 24000);
  for (int i = 0; i < COUNT; i++) {
    pairs[i].ops->close(pairs[i].fd, pairs[i].state);
    close(pairs[i].peer);
  }
}

/* Connections */

static void pump(struct net_fixture *fixture, int fd, struct tls_client *client) {
  uint8_t bytes[65536];
  struct buffer out = tls_client_take(client);
  if (out.length) net_fixture_send(fixture, fd, out.data, out.length);
  buffer_release(&out);
  net_fixture_run(fixture, 2);
  ssize_t count;
  while ((count = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
    tls_client_feed(client, bytes, (size_t)count);
  }
}

static struct net_fixture *open_listener(void) {
  return net_fixture_open((struct net_fixture_options){.tls = server});
}

static int connect_ready(struct net_fixture *fixture, struct tls_client *client,
                         struct front **front) {
  int fd = net_fixture_connect(fixture, front);
  tls_client_open(client, TLS1_3_VERSION);
  while (!tls_client_handshake(client)) pump(fixture, fd, client);
  pump(fixture, fd, client);
  return fd;
}

static void close_client(struct net_fixture *fixture, struct tls_client *client, int fd) {
  tls_client_close(client);
  close(fd);
  net_fixture_close(fixture);
}

/* A transport whose next read, or write, waits for the other direction. */
static bool crossed_read, crossed_write;
static unsigned reads, writes;

static bool read_is_crossed(const void *state) {
  (void)state;
  return crossed_read;
}

static bool write_is_crossed(const void *state) {
  (void)state;
  return crossed_write;
}

static ssize_t crossing_read(int fd, void *state, void *data, size_t length) {
  crossed_read = reads++ == 0;
  if (!crossed_read) return transport_plain.read(fd, state, data, length);
  errno = EAGAIN;
  return -1;
}

static ssize_t crossing_write(int fd, void *state, const struct iovec *parts, size_t count) {
  crossed_write = writes++ == 0;
  if (!crossed_write) return transport_plain.write(fd, state, parts, count);
  errno = EAGAIN;
  return -1;
}

static const struct transport_ops *crossing_transport(void) {
  static struct transport_ops ops;
  ops = transport_plain;
  ops.read = crossing_read;
  ops.write = crossing_write;
  ops.read_needs_write = read_is_crossed;
  ops.write_needs_read = write_is_crossed;
  reads = writes = 0;
  crossed_read = crossed_write = false;
  return &ops;
}

static void a_read_that_waits_for_the_output_goes_on_when_the_socket_takes_bytes(void **state) {
  (void)state;
  struct net_fixture *fixture = net_fixture_open((struct net_fixture_options){0});
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  front->connection->ops = crossing_transport();
  net_fixture_send(fixture, fd, "hello", 5);
  net_fixture_run_until_size(fixture, &front->received.length, 5);
  assert_int_equal(reads, 2);
  assert_int_equal(front->connection->watcher.events & (EV_READ | EV_WRITE), EV_READ);
  front->connection->ops = &transport_plain;
  close(fd);
  net_fixture_close(fixture);
}

static void a_write_that_waits_for_the_input_does_not_spin_the_loop(void **state) {
  (void)state;
  struct net_fixture *fixture = net_fixture_open((struct net_fixture_options){0});
  struct front *front;
  int fd = net_fixture_connect(fixture, &front);
  front->connection->ops = crossing_transport();
  reads = 1; /* reads are as usual */
  struct buffer answer = {0};
  buffer_append_text(&answer, "answer");
  connection_write(front->connection, &answer);
  unsigned before = ev_iteration(fixture->loop);
  net_fixture_run(fixture, 50);
  assert_int_equal(writes, 1);
  assert_true(ev_iteration(fixture->loop) - before < 20);
  net_fixture_send(fixture, fd, "x", 1);
  char bytes[6];
  assert_int_equal(net_fixture_receive(fixture, fd, bytes, 6), 6);
  assert_int_equal(writes, 2);
  net_fixture_run_until_size(fixture, &front->received.length, 1);
  front->connection->ops = &transport_plain;
  close(fd);
  net_fixture_close(fixture);
}

static unsigned slow_reads;

static bool always(const void *state) {
  (void)state;
  return true;
}

static ssize_t slow_read(int fd, void *state, void *data, size_t length) {
  slow_reads++;
  usleep(3000);
  return transport_plain.read(fd, state, data, length);
}

static void many_handshakes_at_once_leave_the_loop_to_others(void **state) {
  (void)state;
  enum { COUNT = 10 };
  struct net_fixture *fixture = net_fixture_open((struct net_fixture_options){0});
  struct transport_ops slow = transport_plain;
  slow.read = slow_read;
  slow.is_handshaking = always;
  struct front *fronts[COUNT];
  int fds[COUNT];
  for (int i = 0; i < COUNT; i++) {
    fds[i] = net_fixture_connect(fixture, &fronts[i]);
    fronts[i]->connection->ops = &slow;
  }
  for (int i = 0; i < COUNT; i++) assert_int_equal(send(fds[i], "x", 1, 0), 1);
  slow_reads = 0;
  ev_run(fixture->loop, EVRUN_NOWAIT);
  assert_in_range(slow_reads, 1, 2); /* 3 ms each, and 5 ms is the most */
  for (int i = 0; i < COUNT; i++) {
    net_fixture_run_until_size(fixture, &fronts[i]->received.length, 1);
    fronts[i]->connection->ops = &transport_plain;
    close(fds[i]);
  }
  assert_int_equal(slow_reads, COUNT);
  net_fixture_close(fixture);
}

static void held_input_stops_at_the_read_ahead_and_goes_on(void **state) {
  (void)state;
  struct net_fixture *fixture = open_listener();
  struct front *front;
  struct tls_client client;
  int fd = connect_ready(fixture, &client, &front);
  size_t length = 1 << 20;
  uint64_t seed = 11;
  uint8_t *sent = memory_allocate(length);
  noise_fill(&seed, sent, length);
  connection_hold(front->connection, true);
  struct buffer records = tls_client_encrypt(&client, sent, length);
  size_t stuffed = net_fixture_stuff(fixture, fd, records.data, records.length);
  assert_true(connection_input(front->connection).length <= READ_AHEAD_LIMIT + 1);
  assert_int_equal(front->inputs, 0);
  unsigned before = ev_iteration(fixture->loop);
  net_fixture_run(fixture, 50);
  assert_true(ev_iteration(fixture->loop) - before < 20);
  connection_hold(front->connection, false);
  net_fixture_send(fixture, fd, records.data + stuffed, records.length - stuffed);
  net_fixture_run_until_size(fixture, &front->received.length, length);
  assert_slices(buffer_slice(&front->received), slice_of(sent, length));
  buffer_release(&records);
  free(sent);
  close_client(fixture, &client, fd);
}

static void output_is_written_whole_and_then_closed(void **state) {
  (void)state;
  struct net_fixture *fixture = open_listener();
  struct front *front;
  struct tls_client client;
  int fd = connect_ready(fixture, &client, &front);
  size_t length = 4 << 20;
  uint64_t seed = 13;
  struct buffer answer = {0}, copy = {0}, plain = {0};
  noise_fill(&seed, buffer_extend(&answer, length), length);
  buffer_append_slice(&copy, buffer_slice(&answer));
  connection_write(front->connection, &answer);
  connection_close_after_output(front->connection, 5000, "done");
  bool open = true;
  for (int turn = 0; turn < 5000 && open; turn++) {
    pump(fixture, fd, &client);
    open = tls_client_decrypt(&client, &plain);
  }
  assert_false(open);
  assert_slices(buffer_slice(&plain), buffer_slice(&copy));
  assert_string_equal(front->reason, "done");
  buffer_release(&plain);
  buffer_release(&copy);
  close_client(fixture, &client, fd);
}

static void a_new_certificate_leaves_open_connections_alone(void **state) {
  (void)state;
  struct net_fixture *fixture = open_listener();
  struct front *front;
  struct tls_client client;
  int fd = connect_ready(fixture, &client, &front);
  const struct tls_files good = {.certificate = files.certificate, .key = files.key};
  const struct tls_files bad = {.certificate = files.key, .key = files.key};
  char *reason = NULL;
  assert_true(tls_server_reload(server, &good, &reason));
  assert_false(tls_server_reload(server, &bad, &reason));
  assert_non_null(strstr(reason, files.key));
  free(reason);
  struct buffer record = tls_client_encrypt(&client, "hello", 5);
  net_fixture_send(fixture, fd, record.data, record.length);
  buffer_release(&record);
  net_fixture_run_until_size(fixture, &front->received.length, 5);
  close_client(fixture, &client, fd);
}

static int open_files(void **state) {
  (void)state;
  log_set_level(LOG_ERROR);
  tls_fixture_open(&files);
  server = tls_fixture_server(&files);
  return 0;
}

static int close_files(void **state) {
  (void)state;
  tls_server_close(server);
  tls_fixture_close(&files);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_handshake_of_single_bytes_succeeds),
      cmocka_unit_test(a_record_in_pieces_is_read_when_it_is_whole),
      cmocka_unit_test(what_is_left_of_a_record_is_pending),
      cmocka_unit_test(full_records_are_read_in_one_go),
      cmocka_unit_test(a_handshake_that_cannot_send_waits_for_the_socket_to_take_bytes),
      cmocka_unit_test(a_write_before_the_handshake_waits_for_input),
      cmocka_unit_test(output_survives_a_socket_that_takes_it_in_pieces),
      cmocka_unit_test(small_parts_share_a_record),
      cmocka_unit_test(close_notify_ends_the_input_and_leaves_the_output),
      cmocka_unit_test(an_end_without_close_notify_leaves_the_output_too),
      cmocka_unit_test(an_end_behind_a_full_record_is_pending),
      cmocka_unit_test(an_end_inside_a_record_is_a_failure),
      cmocka_unit_test(rubbish_is_a_failure),
      cmocka_unit_test(finishing_says_close_notify),
      cmocka_unit_test(closing_says_close_notify_too),
      cmocka_unit_test(closing_within_the_handshake_is_quiet),
      cmocka_unit_test(an_idle_connection_is_small),
      cmocka_unit_test(a_read_that_waits_for_the_output_goes_on_when_the_socket_takes_bytes),
      cmocka_unit_test(a_write_that_waits_for_the_input_does_not_spin_the_loop),
      cmocka_unit_test(many_handshakes_at_once_leave_the_loop_to_others),
      cmocka_unit_test(held_input_stops_at_the_read_ahead_and_goes_on),
      cmocka_unit_test(output_is_written_whole_and_then_closed),
      cmocka_unit_test(a_new_certificate_leaves_open_connections_alone),
  };
  return cmocka_run_group_tests(tests, open_files, close_files);
}
