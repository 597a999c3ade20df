/* The registry of nodes as this one sees it, and this node's own place in it.
 *
 * A node is registered while a session of its own holds an advisory lock, so one that is killed is
 * gone at once and nothing is written to stay alive. The list is read again every REFRESH (nodes.c)
 * and whenever a node says that it has come or gone. */
#ifndef PGCURSUS_CLUSTER_NODES_H
#define PGCURSUS_CLUSTER_NODES_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/placement.h"

struct database;
struct nodes;

struct nodes_options {
  const struct database *database;
  const char *node_id;
  const char *address; /* "host:port" that clients are told */
};

/* Starts connecting and registers when connected. The session does not count for the node's
 * readiness. */
struct nodes *nodes_open(const struct nodes_options *options)
    __attribute__((returns_nonnull, warn_unused_result));

/* The registered nodes as last read, ordered by id. Valid until the next turn of the loop. */
const struct node_entry *nodes_list(const struct nodes *nodes, size_t *count);

/* True when another node is alive, and also when that is not known. */
bool nodes_has_others(const struct nodes *nodes);

/* A node has come or gone: reads the list soon. */
void nodes_refresh(struct nodes *nodes);

/* Gives up this node's registration, for good: clients are sent elsewhere. */
void nodes_leave(struct nodes *nodes);

/* After nodes_leave(): nothing is left to wait for. Also when PostgreSQL cannot be reached: the
 * registration then ends with the session. */
bool nodes_has_left(const struct nodes *nodes);

void nodes_close(struct nodes *nodes);

/* Reads rows of pgcursus.registered_nodes(); the caller frees with node_entries_free(). NULL when
 * there is none. */
struct node_entry *node_entries_read(const PGresult *rows, size_t *count);
void node_entries_free(struct node_entry *entries, size_t count);

/* The columns that node_entries_read() wants. */
#define NODE_ENTRY_COLUMNS "node_id, address, started_at, last_seen, is_alive"

#endif
