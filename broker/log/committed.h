/* Where consumer groups stand: looks committed offsets up, one query for all that ask at the same
 * time. Caches nothing, so an offset that was committed, on whatever node, is seen by the next
 * look. */
#ifndef PGCURSUS_LOG_COMMITTED_H
#define PGCURSUS_LOG_COMMITTED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct database;
struct committed;

enum committed_status {
  COMMITTED_OK,
  COMMITTED_UNAVAILABLE, /* worth trying again */
  COMMITTED_TIMED_OUT,   /* the deadline passed */
  COMMITTED_FAILED,      /* PostgreSQL refused; trying again will not help */
};

/* Embedded in the caller's struct, which keeps it and what it points to until `on_done`: called
 * exactly once, never before committed_submit() has returned. */
struct committed_request {
  struct slice group;
  int64_t log_id;
  int32_t partition;
  int64_t deadline_us; /* monotonic */
  /* `next_offset` is -1 when the group is not registered or has committed nothing. `reason` is for
   * a person. */
  void (*on_done)(struct committed_request *request, enum committed_status status,
                  int64_t next_offset, const char *reason);
  /* private to log/committed.c */
  struct committed_request *next;
};

struct committed *committed_open(const struct database *database)
    __attribute__((returns_nonnull, warn_unused_result));

void committed_submit(struct committed *committed, struct committed_request *request);

/* Fails what is queued, closes the session, frees. */
void committed_close(struct committed *committed);

#endif
