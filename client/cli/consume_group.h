/* `consume -g`: membership of a consumer group, over a connection of its own.
 *
 * Joins, keeps itself alive, commits, follows rebalances, leaves. What it has is `partitions`; when
 * a call says that the assignment has changed, the caller drops what it reads and begins again with
 * them. */
#ifndef PGCURSUS_CLI_CONSUME_GROUP_H
#define PGCURSUS_CLI_CONSUME_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cli;
struct pgcursus;

struct group_member {
  struct pgcursus *client; /* owned */
  const char *group, *topic;
  char id[256];
  char generation[24];
  int32_t *partitions;
  size_t partition_count;
  int64_t beat_at; /* when the next heartbeat is due; monotonic microseconds */
  bool has_joined;
  bool quiet;
};

/* Joins; the connection passes to the member. Returns the exit status. */
int group_member_join(struct group_member *member, struct pgcursus *client, const char *group,
                      const char *topic, bool quiet);

/* Sends a heartbeat when one is due. `*changed` is set, never cleared, when the assignment has
 * changed. */
int group_member_beat(struct group_member *member, bool *changed);

/* Commits the next offset to read. A commit that comes too late because of a rebalance is no
 * failure: `*changed` is set, and whoever has the partition now reads those records again. */
int group_member_commit(struct group_member *member, int32_t partition, uint64_t next_offset,
                        bool *changed);

/* Leaves, when it has joined, and closes the connection. */
void group_member_end(struct group_member *member);

#endif
