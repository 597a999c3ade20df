/* Recently read or appended batches, by (log, partition, offset), within a fixed amount of memory.
 *
 * A cache and nothing else: what is here was committed, but what is not here may exist. A batch
 * stays as it is until retention or compaction removes something of it, which the database
 * announces. */
#ifndef PGCURSUS_LOG_TAIL_CACHE_H
#define PGCURSUS_LOG_TAIL_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log/batch.h"

struct tail_cache;

/* `limit` in bytes; 0 keeps nothing. */
struct tail_cache *tail_cache_create(size_t limit)
    __attribute__((returns_nonnull, warn_unused_result));

/* Takes a reference of its own; evicts the oldest insertions to stay within the limit. A batch that
 * is already there is left as it is, but learns its transaction's decision. */
void tail_cache_insert(struct tail_cache *cache, struct log_batch *batch);

/* True when a batch of that much memory would be kept: asked before one is made for the cache. */
bool tail_cache_takes(const struct tail_cache *cache, size_t memory);

/* The batch that contains `offset`, or NULL. Borrowed: retain it to keep it past the next
 * insertion. */
struct log_batch *tail_cache_find(struct tail_cache *cache, int64_t log_id, int32_t partition,
                                  int64_t offset);

/* The partition's stable offset as far as it is known, 0 when nothing is: every transaction with a
 * record below is decided. It never falls, so what was seen once holds. */
int64_t tail_cache_stable(struct tail_cache *cache, int64_t log_id, int32_t partition);
void tail_cache_raise_stable(struct tail_cache *cache, int64_t log_id, int32_t partition,
                             int64_t stable_offset);

/* Something below `offset` was removed or rewritten: forgets what begins there, and takes nothing
 * that does from now on, as a query that is still under way may bring what it was before. */
void tail_cache_trim(struct tail_cache *cache, int64_t log_id, int32_t partition, int64_t offset);

/* Whether such news are heard. While they are not, the cache is empty and takes nothing. */
void tail_cache_set_listening(struct tail_cache *cache, bool listening);

/* Forgets a log that is gone. */
void tail_cache_drop_log(struct tail_cache *cache, int64_t log_id);

/* Forgets everything: after a fail-over the offsets of what was lost are given out again. */
void tail_cache_clear(struct tail_cache *cache);

size_t tail_cache_memory(const struct tail_cache *cache);

void tail_cache_free(struct tail_cache *cache);

#endif
