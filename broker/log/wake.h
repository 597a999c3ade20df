/* Who waits for a partition to grow. A waiter is woken once and must then look for itself: a
 * wake-up is a hint and may be wrong; a missed one costs latency, never a record, because waiters
 * also look again on a slow tick. */
#ifndef PGCURSUS_LOG_WAKE_H
#define PGCURSUS_LOG_WAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wake;

/* Embedded in the waiter's own struct. Register before reading, so that nothing is missed in
 * between. */
struct wake_waiter {
  /* May register and remove waiters, itself and others. */
  void (*on_wake)(struct wake_waiter *waiter);
  int64_t offset; /* the first offset not yet seen */
  /* Set before on_wake: the log reaches this far; INT64_MAX: the log itself changed. */
  int64_t end_offset;
  /* private to log/wake.c */
  struct wake_partition *partition;
  struct wake_waiter *prev, *next;
};

struct wake *wake_create(void) __attribute__((returns_nonnull, warn_unused_result));
void wake_free(struct wake *wake);

void wake_add(struct wake *wake, struct wake_waiter *waiter, int64_t log_id, int32_t partition);

/* Harmless when the waiter is not registered. A zeroed waiter is not registered. */
void wake_remove(struct wake *wake, struct wake_waiter *waiter);

/* The partition's next offset is now (at least) `end_offset`: wakes whoever waits for less. Waiters
 * are removed before they are called. */
void wake_signal(struct wake *wake, int64_t log_id, int32_t partition, int64_t end_offset);

/* Wakes everyone who waits for a log that changed or is gone. */
void wake_signal_log(struct wake *wake, int64_t log_id);

/* Number of partitions waited for, and a visit of each (the visitor must not add or remove
 * waiters). */
size_t wake_partition_count(const struct wake *wake);
void wake_each_partition(struct wake *wake,
                         void (*visit)(void *context, int64_t log_id, int32_t partition),
                         void *context);

#endif
