/* Which node a partition or a group is best served by: rendezvous hashing, so that a node that
 * comes or goes moves only what it takes or had. Advice for locality; every node serves everything.
 * Pure. */
#ifndef PGCURSUS_CLUSTER_PLACEMENT_H
#define PGCURSUS_CLUSTER_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct node_entry {
  char *id;
  char *address;      /* "host:port" that clients are told */
  int64_t started_at; /* microseconds since 1970 */
  int64_t last_seen;  /* likewise */
  bool is_alive;
};

/* The node for a key among those that are alive, NULL when none is. Depends on the set of living
 * nodes only, so every node comes to the same result. */
const struct node_entry *placement_choose(const struct node_entry *nodes, size_t count,
                                          struct slice key);

/* The same for a partition; `preferred` (may be empty) is the node that was elected, and is taken
 * while it lives. */
const struct node_entry *placement_leader(const struct node_entry *nodes, size_t count,
                                          struct slice topic, int32_t partition,
                                          struct slice preferred);

const struct node_entry *placement_find(const struct node_entry *nodes, size_t count,
                                        struct slice id);

#endif
