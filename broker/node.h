/* A running node: every part of the broker, put together in the order of their dependence. */
#ifndef PGCURSUS_NODE_H
#define PGCURSUS_NODE_H

#include "config/config.h"

struct ev_loop;
struct node;

/* Opens everything. NULL, with a line in the log, when a port cannot be had. `config` passes to the
 * node. */
struct node *node_open(struct ev_loop *loop, struct config *config)
    __attribute__((warn_unused_result));

/* Stops accepting and lets requests in progress finish, within the drain timeout; then breaks the
 * loop. */
void node_drain(struct node *node);

/* Reads the configuration again. */
void node_reload(struct node *node);

/* Closes everything and frees the node; the loop must not run any more. */
void node_close(struct node *node);

#endif
