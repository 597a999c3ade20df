/* The arithmetic of the request memory budget. What happens above the limit is decided in
 * admission.c. */
#include "net/budget.h"

#include <assert.h>

void memory_budget_charge(struct memory_budget *budget, size_t bytes) {
  budget->used += bytes;
  if (budget->used > budget->peak) budget->peak = budget->used;
}

void memory_budget_release(struct memory_budget *budget, size_t bytes) {
  assert(bytes <= budget->used);
  bool was_over = memory_budget_is_over(budget);
  budget->used -= bytes;
  if (was_over && !memory_budget_is_over(budget) && budget->on_relief) budget->on_relief(budget);
}
