/* Waiters by partition. Calls back, but never reads anything itself. */
#include "log/wake.h"

#include <stdlib.h>
#include <uthash.h>
#include <utlist.h>

#include "base/memory.h"

struct wake_key {
  int64_t log_id;
  int64_t partition;
};

struct wake_partition {
  struct wake_key key;
  struct wake_waiter *waiters;
  bool is_detached; /* a list of those being woken, not in the table */
  UT_hash_handle hh;
};

struct wake {
  struct wake_partition *partitions;
};

struct wake *wake_create(void) {
  return memory_allocate_zeroed(1, sizeof(struct wake));
}

void wake_free(struct wake *wake) {
  if (wake == NULL) return;
  struct wake_partition *partition, *next;
  HASH_ITER(hh, wake->partitions, partition, next) {
    HASH_DEL(wake->partitions, partition);
    free(partition);
  }
  free(wake);
}

void wake_add(struct wake *wake, struct wake_waiter *waiter, int64_t log_id, int32_t partition) {
  struct wake_key key = {.log_id = log_id, .partition = partition};
  struct wake_partition *found;
  HASH_FIND(hh, wake->partitions, &key, sizeof key, found);
  if (found == NULL) {
    found = memory_allocate_zeroed(1, sizeof *found);
    found->key = key;
    HASH_ADD(hh, wake->partitions, key, sizeof found->key, found);
  }
  waiter->partition = found;
  DL_APPEND(found->waiters, waiter);
}

static void drop_if_empty(struct wake *wake, struct wake_partition *partition) {
  if (partition->waiters || partition->is_detached) return;
  HASH_DEL(wake->partitions, partition);
  free(partition);
}

void wake_remove(struct wake *wake, struct wake_waiter *waiter) {
  struct wake_partition *partition = waiter->partition;
  if (partition == NULL) return;
  waiter->partition = NULL;
  DL_DELETE(partition->waiters, waiter);
  drop_if_empty(wake, partition);
}

/* Moves a partition's waiters to the list of those to be woken. */
static void detach(struct wake_partition *partition, struct wake_waiter *waiter,
                   struct wake_partition *woken, int64_t end_offset) {
  DL_DELETE(partition->waiters, waiter);
  DL_APPEND(woken->waiters, waiter);
  waiter->partition = woken;
  waiter->end_offset = end_offset;
}

/* All are detached before the first is called, since callbacks may register again; and until its
 * own turn each may still be removed by another's callback. */
static void call_woken(struct wake_partition *woken) {
  struct wake_waiter *waiter;
  while ((waiter = woken->waiters) != NULL) {
    DL_DELETE(woken->waiters, waiter);
    waiter->partition = NULL;
    waiter->on_wake(waiter);
  }
}

void wake_signal(struct wake *wake, int64_t log_id, int32_t partition, int64_t end_offset) {
  struct wake_key key = {.log_id = log_id, .partition = partition};
  struct wake_partition *found, woken = {.is_detached = true};
  struct wake_waiter *waiter, *next;
  HASH_FIND(hh, wake->partitions, &key, sizeof key, found);
  if (found == NULL) return;
  DL_FOREACH_SAFE(found->waiters, waiter, next) {
    if (waiter->offset < end_offset) detach(found, waiter, &woken, end_offset);
  }
  drop_if_empty(wake, found);
  call_woken(&woken);
}

void wake_signal_log(struct wake *wake, int64_t log_id) {
  struct wake_partition *partition, *next, woken = {.is_detached = true};
  HASH_ITER(hh, wake->partitions, partition, next) {
    if (partition->key.log_id != log_id) continue;
    while (partition->waiters) detach(partition, partition->waiters, &woken, INT64_MAX);
    drop_if_empty(wake, partition);
  }
  call_woken(&woken);
}

size_t wake_partition_count(const struct wake *wake) {
  return HASH_COUNT(wake->partitions);
}

void wake_each_partition(struct wake *wake,
                         void (*visit)(void *context, int64_t log_id, int32_t partition),
                         void *context) {
  struct wake_partition *partition, *next;
  HASH_ITER(hh, wake->partitions, partition, next) {
    visit(context, partition->key.log_id, (int32_t)partition->key.partition);
  }
}
