/* Whom clients are told to go to. Advice only: every node serves everything. */
#ifndef PGCURSUS_CRS2_LEADERS_H
#define PGCURSUS_CRS2_LEADERS_H

#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct crs2;

/* An id and a "host:port" each; valid until the next turn of the loop. */
struct leader {
  const char *id;
  const char *address;
};

/* The node that leads a partition; `preferred` is what ELECT_LEADER chose, or empty. This node
 * while it knows of no other, and without distribution. */
struct leader leader_of_partition(const struct crs2 *crs2, struct slice topic, int32_t partition,
                                  struct slice preferred);

/* The node that coordinates a group or a transactional id (commands-1 2.10); its id is `standalone`
 * without distribution. */
struct leader coordinator_of(const struct crs2 *crs2, struct slice key);

#endif
