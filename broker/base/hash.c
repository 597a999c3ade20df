/* FNV-1a. The result places keyed records, so it may never change. */
#include "base/hash.h"

uint64_t hash_fnv1a64(struct slice bytes) {
  uint64_t hash = UINT64_C(14695981039346656037);
  for (size_t i = 0; i < bytes.length; i++) {
    hash ^= bytes.data[i];
    hash *= UINT64_C(1099511628211);
  }
  return hash;
}
