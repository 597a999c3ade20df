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

void wake_remove(struct wake *wake, struct wake_waiter *waiter) {
  struct wake_partition *partition = waiter->partition;
  if (partition == NULL) return;
  waiter->partition = NULL;
  DL_DELETE(partition->waiters, waiter);
  if (partition->waiters == NULL) {
    HASH_DEL(wake->partitions, partition);
    free(partition);
  }
}

/* Moves the waiters to be woken to a list of their own first, since their callbacks may register
 * again. */
static void wake_below(struct wake *wake, struct wake_partition *partition, int64_t end_offset) {
  struct wake_partition woken = {.waiters = NULL};
  struct wake_waiter *waiter, *next;
  DL_FOREACH_SAFE(partition->waiters, waiter, next) {
    if (waiter->offset >= end_offset) continue;
    DL_DELETE(partition->waiters, waiter);
    DL_APPEND(woken.waiters, waiter);
    waiter->partition = NULL;
  }
  if (partition->waiters == NULL) {
    HASH_DEL(wake->partitions, partition);
    free(partition);
  }
  while ((waiter = woken.waiters) != NULL) {
    DL_DELETE(woken.waiters, waiter);
    waiter->end_offset = end_offset;
    waiter->on_wake(waiter);
  }
}

void wake_signal(struct wake *wake, int64_t log_id, int32_t partition, int64_t end_offset) {
  struct wake_key key = {.log_id = log_id, .partition = partition};
  struct wake_partition *found;
  HASH_FIND(hh, wake->partitions, &key, sizeof key, found);
  if (found) wake_below(wake, found, end_offset);
}

void wake_signal_log(struct wake *wake, int64_t log_id) {
  struct wake_partition *partition, *next;
  HASH_ITER(hh, wake->partitions, partition, next) {
    if (partition->key.log_id == log_id) wake_below(wake, partition, INT64_MAX);
  }
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
