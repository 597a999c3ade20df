/* The tail cache: one ordered list of batches a partition, one list of all in order of insertion.
 * Owns references, never batches; does no I/O. */
#include "log/tail_cache.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#include "base/memory.h"

struct partition_key {
  int64_t log_id;
  int64_t partition; /* as wide as the log id, so that the key has no padding */
};

struct entry {
  struct log_batch *batch;
  struct partition_tail *tail;
  struct entry *prev, *next; /* in order of insertion */
};

/* The entries of one partition ordered by base offset: entries[first .. first + count). Dropping
 * the oldest only moves `first`, which is what eviction does nearly always. */
struct partition_tail {
  struct partition_key key;
  struct entry **entries;
  size_t first, count, capacity;
  int64_t stable_offset;
  int64_t floor; /* nothing that begins below is taken */
  UT_hash_handle hh;
};

struct tail_cache {
  size_t limit;
  size_t memory;
  bool is_deaf; /* not told what is trimmed */
  struct partition_tail *partitions;
  struct entry *oldest; /* utlist head */
};

struct tail_cache *tail_cache_create(size_t limit) {
  struct tail_cache *cache = memory_allocate_zeroed(1, sizeof *cache);
  cache->limit = limit;
  return cache;
}

static struct partition_tail *find_partition(struct tail_cache *cache, int64_t log_id,
                                             int32_t partition) {
  struct partition_key key = {.log_id = log_id, .partition = partition};
  struct partition_tail *tail;
  HASH_FIND(hh, cache->partitions, &key, sizeof key, tail);
  return tail;
}

/* The position of the last entry whose base offset is at or below `offset`, plus one. */
static size_t upper_bound(const struct partition_tail *tail, int64_t offset) {
  size_t low = 0, high = tail->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (tail->entries[tail->first + middle]->batch->base_offset <= offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

struct log_batch *tail_cache_find(struct tail_cache *cache, int64_t log_id, int32_t partition,
                                  int64_t offset) {
  struct partition_tail *tail = find_partition(cache, log_id, partition);
  if (tail == NULL) return NULL;
  size_t position = upper_bound(tail, offset);
  if (position == 0) return NULL;
  struct log_batch *batch = tail->entries[tail->first + position - 1]->batch;
  return batch->last_offset >= offset ? batch : NULL;
}

static size_t entry_memory(const struct entry *entry) {
  return sizeof *entry + sizeof(struct entry *) + entry->batch->memory;
}

static void remove_entry(struct tail_cache *cache, struct entry *entry) {
  struct partition_tail *tail = entry->tail;
  size_t position = upper_bound(tail, entry->batch->base_offset) - 1;
  if (position == 0) {
    tail->first++;
  } else {
    struct entry **place = &tail->entries[tail->first + position];
    memmove(place, place + 1, (tail->count - position - 1) * sizeof *place);
  }
  tail->count--;
  cache->memory -= entry_memory(entry);
  DL_DELETE(cache->oldest, entry);
  log_batch_release(entry->batch);
  free(entry);
  if (tail->count == 0) {
    free(tail->entries);
    tail->entries = NULL;
    tail->first = tail->capacity = 0;
  }
}

/* What is known of a partition stays when its batches have gone; it costs little. */
static void remove_partition(struct tail_cache *cache, struct partition_tail *tail) {
  while (tail->count) remove_entry(cache, tail->entries[tail->first]);
  HASH_DEL(cache->partitions, tail);
  free(tail);
}

/* Makes room for one more entry, reclaiming the space that evictions left at the front. */
static void make_room(struct partition_tail *tail) {
  if (tail->first + tail->count < tail->capacity) return;
  if (tail->first > tail->capacity / 2) {
    memmove(tail->entries, tail->entries + tail->first, tail->count * sizeof *tail->entries);
    tail->first = 0;
    return;
  }
  tail->capacity = tail->capacity ? tail->capacity * 2 : 16;
  tail->entries = memory_resize(tail->entries, tail->capacity * sizeof *tail->entries);
}

static struct partition_tail *get_partition(struct tail_cache *cache, int64_t log_id,
                                            int32_t partition) {
  struct partition_tail *tail = find_partition(cache, log_id, partition);
  if (tail) return tail;
  tail = memory_allocate_zeroed(1, sizeof *tail);
  tail->key = (struct partition_key){.log_id = log_id, .partition = partition};
  HASH_ADD(hh, cache->partitions, key, sizeof tail->key, tail);
  return tail;
}

/* One batch must not sweep everything else out. */
bool tail_cache_takes(const struct tail_cache *cache, size_t memory) {
  return memory <= cache->limit / 4 && !cache->is_deaf;
}

void tail_cache_insert(struct tail_cache *cache, struct log_batch *batch) {
  if (!tail_cache_takes(cache, batch->memory)) return;
  struct partition_tail *tail = get_partition(cache, batch->log_id, batch->partition);
  if (batch->base_offset < tail->floor) return;
  size_t position = upper_bound(tail, batch->base_offset);
  if (position > 0 &&
      tail->entries[tail->first + position - 1]->batch->base_offset == batch->base_offset) {
    struct log_batch *known = tail->entries[tail->first + position - 1]->batch;
    if (log_batch_is_undecided(known)) known->decision = batch->decision;
    return;
  }
  struct entry *entry = memory_allocate(sizeof *entry);
  entry->batch = log_batch_retain(batch);
  entry->tail = tail;
  make_room(tail);
  struct entry **place = &tail->entries[tail->first + position];
  memmove(place + 1, place, (tail->count - position) * sizeof *place);
  *place = entry;
  tail->count++;
  DL_APPEND(cache->oldest, entry);
  cache->memory += entry_memory(entry);
  while (cache->memory > cache->limit) remove_entry(cache, cache->oldest);
}

void tail_cache_trim(struct tail_cache *cache, int64_t log_id, int32_t partition, int64_t offset) {
  if (offset <= 0) return;
  struct partition_tail *tail = get_partition(cache, log_id, partition);
  if (offset <= tail->floor) return;
  tail->floor = offset;
  while (tail->count && tail->entries[tail->first]->batch->base_offset < offset) {
    remove_entry(cache, tail->entries[tail->first]);
  }
}

void tail_cache_set_listening(struct tail_cache *cache, bool listening) {
  if (!listening) tail_cache_clear(cache);
  cache->is_deaf = !listening;
}

void tail_cache_drop_log(struct tail_cache *cache, int64_t log_id) {
  struct partition_tail *tail, *next;
  HASH_ITER(hh, cache->partitions, tail, next) {
    if (tail->key.log_id == log_id) remove_partition(cache, tail);
  }
}

int64_t tail_cache_stable(struct tail_cache *cache, int64_t log_id, int32_t partition) {
  const struct partition_tail *tail = find_partition(cache, log_id, partition);
  return tail ? tail->stable_offset : 0;
}

void tail_cache_raise_stable(struct tail_cache *cache, int64_t log_id, int32_t partition,
                             int64_t stable_offset) {
  if (stable_offset <= 0) return;
  struct partition_tail *tail = get_partition(cache, log_id, partition);
  if (stable_offset > tail->stable_offset) tail->stable_offset = stable_offset;
}

size_t tail_cache_memory(const struct tail_cache *cache) {
  return cache->memory;
}

void tail_cache_clear(struct tail_cache *cache) {
  struct partition_tail *tail, *next;
  HASH_ITER(hh, cache->partitions, tail, next) remove_partition(cache, tail);
}

void tail_cache_free(struct tail_cache *cache) {
  if (cache == NULL) return;
  tail_cache_clear(cache);
  free(cache);
}
