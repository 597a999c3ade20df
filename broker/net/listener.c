/* Accepts connections, counts them, and stops accepting at the limit or when file descriptors run
 * out.
 *
 * Owns the listening sockets and the list of open connections; what they say is the front end's. */
#include "net/listener.h"

#include <errno.h>
#include <ev.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "net/connection_private.h"
#include "net/socket.h"

enum {
  ACCEPTS_PER_TURN = 64,
  WARNING_INTERVAL_US = 1000000,
  /* A peer whose machine has gone is noticed after about two minutes. */
  KEEPALIVE_IDLE_SECONDS = 60,
  KEEPALIVE_INTERVAL_SECONDS = 10,
  KEEPALIVE_PROBES = 6,
};
#define PAUSE_SECONDS 0.1

struct listener {
  struct ev_loop *loop;
  struct net_context *context;
  struct listener_options options; /* host and port are not kept */
  ev_io sockets[SOCKET_LISTEN_MAX];
  unsigned socket_count;
  char address[SOCKET_ADDRESS_SIZE];

  struct connection *connections;
  unsigned connection_count;
  bool stopped; /* for good */
  ev_timer pause;
  int64_t last_warning_us;
};

static void watch_sockets(struct listener *listener, bool watch) {
  for (unsigned i = 0; i < listener->socket_count; i++) {
    if (watch) {
      ev_io_start(listener->loop, &listener->sockets[i]);
    } else {
      ev_io_stop(listener->loop, &listener->sockets[i]);
    }
  }
}

/* Accepts exactly while there is room and a descriptor to be had. */
static void update_accepting(struct listener *listener) {
  bool full = listener->connection_count >= listener->options.max_connections;
  watch_sockets(listener, !listener->stopped && !full && !ev_is_active(&listener->pause));
}

static void on_pause_end(struct ev_loop *loop, ev_timer *timer, int revents) {
  (void)loop;
  (void)revents;
  update_accepting(timer->data);
}

/* Out of descriptors or memory: the waiting connection stays readable, so without a pause the loop
 * would spin. */
static void pause_accepting(struct listener *listener, int error) {
  int64_t now = clock_monotonic_us();
  if (!listener->last_warning_us || now - listener->last_warning_us >= WARNING_INTERVAL_US) {
    listener->last_warning_us = now;
    log_event(LOG_WARN,
              "cannot accept connections; they wait in the listen queue (raise LimitNOFILE "
              "or lower max_client_connections)",
              "address", listener->address, "reason", strerror(error), NULL);
  }
  ev_timer_set(&listener->pause, PAUSE_SECONDS, 0.);
  ev_timer_start(listener->loop, &listener->pause);
  update_accepting(listener);
}

static void set_socket_options(int fd) {
  static const struct {
    int level, name, value;
  } options[] = {
      {IPPROTO_TCP, TCP_NODELAY, 1},
      {SOL_SOCKET, SO_KEEPALIVE, 1},
      {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_SECONDS},
      {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_SECONDS},
      {IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES},
  };
  for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
    /* A connection without one of these still works. */
    (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value,
                     sizeof options[i].value);
  }
}

static void on_connection_released(struct connection *connection, void *context) {
  struct listener *listener = context;
  DL_DELETE2(listener->connections, connection, list_prev, list_next);
  listener->connection_count--;
  update_accepting(listener);
}

static void add_connection(struct listener *listener, int fd, const char *peer) {
  struct connection_options options = {.fd = fd,
                                       .ops = &transport_plain,
                                       .peer = memory_copy_text(peer),
                                       .write_timeout_ms = listener->options.write_timeout_ms,
                                       .on_released = on_connection_released,
                                       .listener = listener};
  if (listener->options.tls) {
    options.ops =
        transport_tls_accept(listener->options.tls, fd, options.peer, &options.transport_state);
    if (!options.ops) {
      log_event(LOG_WARN, "no memory for TLS", "peer", peer, NULL);
      close(fd);
      free(options.peer);
      return;
    }
  }
  struct connection *connection = connection_create(listener->context, &options);
  DL_APPEND2(listener->connections, connection, list_prev, list_next);
  listener->connection_count++;
  listener->options.on_accept(connection, listener->options.context);
  if (connection->state == CONNECTION_NEW) connection_close(connection, "no front end took it");
}

/* The connection died in the listen queue, or the network did: the next one may be well
 * (accept(2)). */
static bool failure_is_of_one_connection(int error) {
  return error == EINTR || error == ECONNABORTED || error == EPROTO || error == ENETDOWN ||
         error == ENOPROTOOPT || error == EHOSTDOWN || error == EHOSTUNREACH ||
         error == ENETUNREACH || error == EPERM;
}

static void on_acceptable(struct ev_loop *loop, ev_io *watcher, int revents) {
  (void)loop;
  (void)revents;
  struct listener *listener = watcher->data;
  for (unsigned i = 0; i < ACCEPTS_PER_TURN; i++) {
    if (listener->stopped || listener->connection_count >= listener->options.max_connections) break;
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    int fd =
        accept4(watcher->fd, (struct sockaddr *)&address, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (failure_is_of_one_connection(errno)) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) pause_accepting(listener, errno);
      break;
    }
    set_socket_options(fd);
    char peer[SOCKET_ADDRESS_SIZE];
    socket_format_address(&address, length, peer);
    add_connection(listener, fd, peer);
  }
  update_accepting(listener);
}

struct listener *listener_open(struct ev_loop *loop, const struct listener_options *options,
                               char **reason) {
  int fds[SOCKET_LISTEN_MAX];
  unsigned count = socket_listen(options->host, options->port, true, fds, reason);
  if (!count) return NULL;
  struct listener *listener = memory_allocate_zeroed(1, sizeof *listener);
  listener->loop = loop;
  listener->context = net_context_acquire(loop, options->budget);
  listener->options = *options;
  listener->options.host = listener->options.port = NULL;
  listener->socket_count = count;
  socket_local_address(fds[0], listener->address);
  for (unsigned i = 0; i < count; i++) {
    ev_io_init(&listener->sockets[i], on_acceptable, fds[i], EV_READ);
    listener->sockets[i].data = listener;
  }
  ev_timer_init(&listener->pause, on_pause_end, 0., 0.);
  listener->pause.data = listener;
  update_accepting(listener);
  return listener;
}

const char *listener_address(const struct listener *listener) {
  return listener->address;
}

bool listener_is_local(const struct listener *listener) {
  for (unsigned i = 0; i < listener->socket_count; i++) {
    if (!socket_is_local(listener->sockets[i].fd)) return false;
  }
  return true;
}

unsigned listener_connection_count(const struct listener *listener) {
  return listener->connection_count;
}

void listener_stop(struct listener *listener) {
  if (listener->stopped) return;
  listener->stopped = true;
  ev_timer_stop(listener->loop, &listener->pause);
  watch_sockets(listener, false);
  /* Closed, not only ignored: with SO_REUSEPORT the kernel goes on to queue new connections here.
   */
  for (unsigned i = 0; i < listener->socket_count; i++) close(listener->sockets[i].fd);
  listener->socket_count = 0;
}

void listener_each_connection(struct listener *listener,
                              void (*visit)(struct connection *connection, void *context),
                              void *context) {
  /* A visit may close any connection, which takes it off the list but keeps its memory until the
   * turn's end; so the next one is chosen before, and skipped when it has been closed meanwhile. */
  struct connection *connection, *next;
  DL_FOREACH_SAFE2(listener->connections, connection, next, list_next) {
    if (!connection_is_closed(connection)) visit(connection, context);
  }
}

static void close_connection(struct connection *connection, void *context) {
  (void)context;
  connection_close(connection, "the broker stops");
}

void listener_close(struct listener *listener) {
  listener_stop(listener);
  listener_each_connection(listener, close_connection, NULL);
  net_context_release(listener->context);
  free(listener);
}
