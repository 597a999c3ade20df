/* Listening sockets: accepts connections up to a limit and hands them to a front end.
 *
 * Above `max_connections` it stops accepting, so the excess waits in the listen queue (crs2-wire
 * 14), and goes on when a connection has closed. Running out of file descriptors pauses accepting
 * for a moment and is logged; it never spins. */
#ifndef PGCURSUS_NET_LISTENER_H
#define PGCURSUS_NET_LISTENER_H

#include <stdbool.h>
#include <stdint.h>

#include "net/budget.h"
#include "net/connection.h"

struct ev_loop;
struct listener;
struct tls_server;

struct listener_options {
  const char *host; /* name or address; "*" or "" means every address */
  const char *port; /* decimal; "0" lets the system choose */
  unsigned max_connections;
  int64_t
      write_timeout_ms; /* a peer that takes none of the queued output for that long is cut off */
  struct memory_budget *budget;
  struct tls_server *tls; /* NULL: plain sockets. Outlives the listener */
  /* Called for each new connection; must attach a handler. */
  void (*on_accept)(struct connection *connection, void *context);
  void *context;
};

/* Binds (SO_REUSEADDR, SO_REUSEPORT) and starts accepting. NULL, with `*reason` set to a text the
 * caller frees, when that fails. */
struct listener *listener_open(struct ev_loop *loop, const struct listener_options *options,
                               char **reason) __attribute__((warn_unused_result));

/* "host:port" really bound. */
const char *listener_address(const struct listener *listener);

/* True when only this machine can reach it. */
bool listener_is_local(const struct listener *listener);

unsigned listener_connection_count(const struct listener *listener);

/* Stops accepting; open connections go on. */
void listener_stop(struct listener *listener);

/* Calls `visit` for each open connection; `visit` may close it. */
void listener_each_connection(struct listener *listener,
                              void (*visit)(struct connection *connection, void *context),
                              void *context);

/* Closes every connection and frees the listener. */
void listener_close(struct listener *listener);

#endif
