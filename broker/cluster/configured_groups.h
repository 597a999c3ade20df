/* The consumer groups of the configuration (static_consumer_groups): registered when the node
 * starts, or as soon as their topics are there. */
#ifndef PGCURSUS_CLUSTER_CONFIGURED_GROUPS_H
#define PGCURSUS_CLUSTER_CONFIGURED_GROUPS_H

#include <stdbool.h>

#include "base/slice.h"
#include "config/config.h"

struct configured_groups;
struct control;
struct ev_loop;

/* Begins registering. The groups are copied. */
struct configured_groups *configured_groups_open(struct ev_loop *loop, struct control *control,
                                                 const struct config_groups *groups)
    __attribute__((returns_nonnull, warn_unused_result));

/* True once PostgreSQL has accepted or refused each of them. */
bool configured_groups_are_settled(const struct configured_groups *configured);

/* A topic has been created or changed; a name of length 0: perhaps any. */
void configured_groups_note_topic(struct configured_groups *configured, struct slice topic);

/* To be called before `control` is closed, which answers what is in flight. */
void configured_groups_stop(struct configured_groups *configured);

void configured_groups_free(struct configured_groups *configured);

#endif
