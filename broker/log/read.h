/* Reading records: from the tail cache where it has all that was asked for, else by queries that
 * readers of the same range share.
 *
 * A query is only shared by readers that came before it was sent: one that comes later may know of
 * records that it would not see. */
#ifndef PGCURSUS_LOG_READ_H
#define PGCURSUS_LOG_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log/batch.h"

struct database;
struct read_pool;
struct tail_cache;
struct wake;

enum read_status {
  READ_OK,
  READ_STALE,       /* the log is no longer the topic's */
  READ_UNAVAILABLE, /* PostgreSQL cannot be asked now; worth trying again */
  READ_TIMED_OUT,   /* the deadline passed before PostgreSQL was asked */
  READ_FAILED,      /* reason */
};

/* Valid during the callback; batches the caller wants to keep must be retained. */
struct read_result {
  enum read_status status;
  bool bounds_known; /* false when the cache had everything: the offset is then inside the log */
  int64_t earliest_offset;
  int64_t end_offset;         /* next offset to be assigned */
  int64_t stable_offset;      /* nothing at or above is decided yet */
  struct log_batch **batches; /* in order; the first may begin below the offset asked for */
  unsigned batch_count;
  const char *reason; /* never NULL */
};

/* The caller fills the first part and keeps the struct until `on_done`, called exactly once, never
 * before read_submit() has returned. */
struct read_request {
  int64_t log_id;
  int32_t partition;
  int64_t offset;
  int64_t max_records;
  int64_t max_bytes; /* of payload and key; the first batch always comes */
  bool committed;    /* read_committed: only batches below the stable offset, all of them decided */
  /* The log is known to reach at least this far (an earlier answer or a wake-up said so): when the
   * cache has everything up to here, that is the answer. 0: not known. */
  int64_t known_end;
  /* The answer must carry the bounds: PostgreSQL is asked. */
  bool needs_bounds;
  int64_t deadline_us;
  void (*on_done)(struct read_request *request, const struct read_result *result);
  /* private to log/read.c */
  struct read_request *next;
  struct log_batch **batches;
  unsigned batch_count, batch_capacity;
  int64_t next_offset;
  int64_t records;
  int64_t bytes;
};

struct read_options {
  const struct database *database;
  struct tail_cache *cache;
  struct wake *wake;
  unsigned connections;
  int64_t poll_interval_ms; /* how often waited-for partitions are looked at, whoever appended */
};

struct read_pool *read_pool_open(const struct read_options *options)
    __attribute__((returns_nonnull, warn_unused_result));
void read_submit(struct read_pool *pool, struct read_request *request);
void read_pool_close(struct read_pool *pool);

#endif
