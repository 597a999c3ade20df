/* Memory that lives as long as one request and is freed in one call.
 *
 * A zeroed struct is a valid empty arena. Blocks come from chunks of a few KiB; a large request
 * gets a chunk of its own. */
#ifndef PGCURSUS_BASE_ARENA_H
#define PGCURSUS_BASE_ARENA_H

#include <stddef.h>

#include "base/slice.h"

struct arena_chunk;

struct arena {
  struct arena_chunk *chunks;
  size_t allocated; /* bytes held in all chunks, for accounting */
};

/* Uninitialised memory aligned for any type; valid until arena_release(). */
void *arena_allocate(struct arena *arena, size_t size)
    __attribute__((returns_nonnull, warn_unused_result));

/* As above, zeroed. */
void *arena_allocate_zeroed(struct arena *arena, size_t size)
    __attribute__((returns_nonnull, warn_unused_result));

/* A NUL-terminated copy of the bytes. */
char *arena_copy_text(struct arena *arena, struct slice bytes)
    __attribute__((returns_nonnull, warn_unused_result));

/* printf into the arena. */
char *arena_format(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3), returns_nonnull, warn_unused_result));

/* Frees everything and leaves a valid empty arena. */
void arena_release(struct arena *arena);

#endif
