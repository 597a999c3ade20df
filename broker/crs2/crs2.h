/* The CRS2 front end of a node: what its sessions and commands share. */
#ifndef PGCURSUS_CRS2_CRS2_H
#define PGCURSUS_CRS2_CRS2_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"

struct announce;
struct append;
struct commits;
struct committed;
struct connection;
struct control;
struct ev_loop;
struct heartbeats;
struct memory_budget;
struct metric;
struct nodes;
struct read_pool;
struct session;
struct topics;
struct users;
struct wake;
struct worker_pool;

struct crs2 {
  struct ev_loop *loop;
  const struct config *config; /* the one in force; replaced on reload */
  struct announce *announce;
  struct append *append;
  struct commits *commits;
  struct committed *committed;
  struct control *control;
  struct heartbeats *heartbeats;
  struct control *transactions; /* for the functions of transactions: READ COMMITTED */
  struct control *queries;      /* large reads */
  struct nodes *nodes;
  struct read_pool *reads;
  struct topics *topics;
  struct users *users;
  struct wake *wake;
  struct worker_pool *workers;
  struct memory_budget *budget;
  const char *advertised; /* "host:port" told to clients */
  const char *node_id;

  /* private to crs2/ */
  struct session *sessions; /* list of open ones */
  unsigned session_count;
  unsigned calls_in_progress; /* also of clients that have gone */
  struct stream *streams;     /* list of accepted ones */
  unsigned open_stream_count; /* of those */
  unsigned stream_count;      /* likewise, with ended ones that wait for a read in flight */
  bool draining;
  struct metric *requests_total;
  struct metric *request_seconds;
};

/* Prepares tables and metrics; the fields above "private" must be set. */
void crs2_init(struct crs2 *crs2);

/* Takes a new connection: the listener's accept callback, with the struct crs2 as context. */
void crs2_accept(struct connection *connection, void *crs2);

/* Lets requests in progress finish, ends waits, and closes each connection as soon as it has
 * nothing left to answer. */
void crs2_drain(struct crs2 *crs2);

/* True when nothing is in progress and no session is open. */
bool crs2_is_idle(const struct crs2 *crs2);

#endif
