/* One budget for the memory of all requests in progress (input bytes, decoded payloads, answers).
 *
 * Nothing is charged for a length that a peer only claimed: the charge follows the bytes that are
 * really held. The budget refuses nothing by itself; over its limit, connections stop reading large
 * frames (connection.c) until memory has been given back. */
#ifndef PGCURSUS_NET_BUDGET_H
#define PGCURSUS_NET_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

/* Set `limit` and leave the rest zero: the first listener that is opened with a budget takes
 * `on_relief` and `owner` for itself, and gives them back when the last one is closed. */
struct memory_budget {
  size_t limit; /* bytes */
  size_t used;
  size_t peak;
  size_t promised; /* may still be charged by reads on their way: nobody waits for it, but who asks
                    * how much is free counts it as used */
  void (*on_relief)(struct memory_budget *budget); /* called when use falls below the limit again */
  void *owner;
};

void memory_budget_charge(struct memory_budget *budget, size_t bytes);
void memory_budget_release(struct memory_budget *budget, size_t bytes);

/* What is neither used nor promised. */
static inline size_t memory_budget_free(const struct memory_budget *budget) {
  size_t taken = budget->used + budget->promised;
  return taken < budget->limit ? budget->limit - taken : 0;
}

static inline bool memory_budget_is_over(const struct memory_budget *budget) {
  return budget->used > budget->limit;
}

#endif
