/* Hash functions that are part of a contract, so they must not change. */
#ifndef PGCURSUS_BASE_HASH_H
#define PGCURSUS_BASE_HASH_H

#include <stdint.h>

#include "base/slice.h"

/* FNV-1a, 64 bit (offset basis 14695981039346656037, prime 1099511628211). Keyed records are placed
 * by this value modulo the partition count (commands-1 4.5). */
uint64_t hash_fnv1a64(struct slice bytes);

#endif
