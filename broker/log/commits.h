/* Committing consumers' offsets: many connections share one transaction, as publishes do.
 *
 * While a transaction is in flight arriving commits queue; when it returns, all that queued leaves
 * as the next one, a call of pgcursus.commit_offsets() each. A refusal is that call's answer and
 * harms no neighbour. Nothing is reported as committed before PostgreSQL has committed it. */
#ifndef PGCURSUS_LOG_COMMITS_H
#define PGCURSUS_LOG_COMMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "db/array.h"
#include "db/control.h"

#define COMMIT_PARAMETERS 7

struct database;
struct commits;

/* One request: the offsets of one topic, all or none. A zeroed struct whose first part the caller
 * fills and keeps, with what it points to, until `on_done`: called exactly once, never before
 * commits_submit() has returned. The result has no rows; CONTROL_REFUSED has code and detail as SQL
 * gave them. */
struct commit_item {
  struct slice group, topic, member;
  int64_t generation;
  int64_t registration_epoch; /* 0: any */
  int64_t deadline_us;        /* monotonic */
  void (*on_done)(struct commit_item *item, const struct control_result *result);
  /* private to log/commits.c */
  struct db_array partitions, offsets;
  struct commit_item *next;
  int64_t not_before_us;
  unsigned attempts;
  bool alone;           /* to be sent in a transaction of its own */
  bool maybe_committed; /* an earlier attempt ended unknown */
  union db_scalar scalars[2];
  struct db_parameter parameters[COMMIT_PARAMETERS];
};

/* Adds an entry: the next offset to read of a partition. */
void commit_item_add(struct commit_item *item, int32_t partition, int64_t next_offset);

/* Frees what commit_item_add() took; commits_submit() does it for items that were submitted. */
void commit_item_release(struct commit_item *item);

struct commits *commits_open(const struct database *database)
    __attribute__((returns_nonnull, warn_unused_result));

void commits_submit(struct commits *commits, struct commit_item *item);

/* Fails what is queued, closes the session, frees. */
void commits_close(struct commits *commits);

#endif
