/* Heartbeats of the members of consumer groups that this node serves, written down together once a
 * second.
 *
 * A member that PostgreSQL has confirmed is answered from memory while its group does not change:
 * the generation is dropped when a change is announced, and compared by the statement that writes
 * heartbeats down. While the node does not listen, nothing is answered from memory. */
#ifndef PGCURSUS_CLUSTER_HEARTBEATS_H
#define PGCURSUS_CLUSTER_HEARTBEATS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct database;
struct heartbeats;

struct heartbeats_options {
  const struct database *database;
  int64_t session_timeout_ms; /* a member that is silent for longer is forgotten */
};

struct heartbeats *heartbeats_open(const struct heartbeats_options *options)
    __attribute__((returns_nonnull, warn_unused_result));
void heartbeats_close(struct heartbeats *heartbeats);

/* A member's heartbeat, for a group that it says consumes `topic` (may be empty), in the generation
 * `claimed` (may be NULL). True when it may be answered now, with `*generation` the group's; it is
 * then noted. False: ask PostgreSQL. */
bool heartbeats_beat(struct heartbeats *heartbeats, struct slice group, struct slice member,
                     struct slice topic, const int64_t *claimed, int64_t *generation)
    __attribute__((warn_unused_result));

/* Counts what was forgotten: taken before PostgreSQL is asked and given to heartbeats_learn(), so
 * that an answer that a change may have overtaken is not kept. */
uint64_t heartbeats_changes(const struct heartbeats *heartbeats);

/* PostgreSQL has confirmed the member, the topic and the generation, and written the heartbeat
 * down. */
void heartbeats_learn(struct heartbeats *heartbeats, uint64_t changes, struct slice group,
                      struct slice member, struct slice topic, int64_t group_id,
                      int64_t generation);

/* The group has changed. Heartbeats that were accepted before are still written down. */
void heartbeats_forget_group(struct heartbeats *heartbeats, struct slice group);

/* Whether changes are announced to this node at the moment. */
void heartbeats_set_listening(struct heartbeats *heartbeats, bool listening);

#endif
