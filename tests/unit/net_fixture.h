/* A listener on a free loopback port, a recording front end, and blocking clients, for the tests of
 * net/. */
#ifndef PGCURSUS_TESTS_NET_FIXTURE_H
#define PGCURSUS_TESTS_NET_FIXTURE_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "net/budget.h"
#include "net/connection.h"
#include "net/listener.h"

enum { NET_FIXTURE_FRONTS = 1100 };

/* The front end of one connection: what it was told, and what it shall do. */
struct front {
  struct connection *connection; /* NULL once closed */
  unsigned inputs, ends, drains, deadlines, closes;
  char reason[64];
  size_t unread_at_input; /* at the last on_input */
  void (*on_input)(struct front *front);
  void (*on_end)(struct front *front);
  struct buffer received;
  unsigned counter, depth, deepest; /* free for the test's on_input */
};

struct net_fixture {
  struct ev_loop *loop;
  struct memory_budget budget;
  struct listener *listener;
  struct front fronts[NET_FIXTURE_FRONTS];
  unsigned accepted;
  void (*on_input)(struct front *front); /* of the next fronts */
};

struct net_fixture_options {
  const char *host;
  size_t memory_limit;
  unsigned max_connections;
  int64_t write_timeout_ms;
  struct tls_server *tls;
};

/* Zero fields mean 127.0.0.1, 256 MiB, 2000 connections, 30 s. */
struct net_fixture *net_fixture_open(struct net_fixture_options options);
/* Closes everything and checks that the budget is balanced. */
void net_fixture_close(struct net_fixture *fixture);

/* Lets the loop run for that long. */
void net_fixture_run(struct net_fixture *fixture, int milliseconds);
/* Until the value is at least `wanted`; fails the test after five seconds. */
void net_fixture_run_until(struct net_fixture *fixture, const unsigned *value, unsigned wanted);
void net_fixture_run_until_size(struct net_fixture *fixture, const size_t *value, size_t wanted);

/* A TCP connection to the listener, not yet accepted. */
int net_fixture_dial(struct net_fixture *fixture);
/* The same, accepted; its front is the last one. */
int net_fixture_connect(struct net_fixture *fixture, struct front **front);

/* All of it, running the loop while the socket is full. */
void net_fixture_send(struct net_fixture *fixture, int fd, const void *data, size_t length);
/* As much as the sockets take without anybody reading. */
size_t net_fixture_stuff(struct net_fixture *fixture, int fd, const void *data, size_t length);
/* Reads `length` bytes, running the loop; fewer only at the end of input. */
size_t net_fixture_receive(struct net_fixture *fixture, int fd, void *data, size_t length);
/* The broker has closed the connection in an orderly way. */
bool net_fixture_is_at_end(struct net_fixture *fixture, int fd);

/* on_input functions: keep everything; consume everything; read nothing. */
void front_take_all(struct front *front);
void front_consume_all(struct front *front);
void front_ignore(struct front *front);

#endif
