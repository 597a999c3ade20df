/* How far a connection has delivered, by consumer and partition (commands-1 3.2, ruling R-15).
 *
 * Clients poll ahead of their commits; without this every poll would begin at the committed offset
 * again. It lives and dies with the connection and is never a commit. */
#ifndef PGCURSUS_CRS2_POSITIONS_H
#define PGCURSUS_CRS2_POSITIONS_H

#include <stdint.h>

#include "base/slice.h"

struct position;

/* A zeroed struct is empty. */
struct positions {
  struct position *entries; /* oldest first */
};

/* Who reads what. `generation` is -1 when the client names none. */
struct position_key {
  struct slice group, member, topic;
  int64_t generation;
  int32_t partition;
};

/* The next offset to deliver, or -1 when nothing is known. */
int64_t positions_find(const struct positions *positions, const struct position_key *key);

/* Remembers it. The longest unchanged entry makes room when there are very many: that consumer then
 * begins at its committed offset again. */
void positions_put(struct positions *positions, const struct position_key *key,
                   int64_t next_offset);

void positions_release(struct positions *positions);

#endif
