/* Allocation that cannot fail quietly.
 *
 * These end the process with a log line when memory is exhausted. Everything whose size a peer
 * decides is bounded before it gets here (frame limits and the request memory budget), so running
 * out means the machine is out of memory, and dying is safe: a node holds no state of its own. */
#ifndef PGCURSUS_BASE_MEMORY_H
#define PGCURSUS_BASE_MEMORY_H

#include <stddef.h>

/* Uninitialised, zeroed, and resized blocks; release with free(). */
void *memory_allocate(size_t size) __attribute__((malloc, returns_nonnull, warn_unused_result));
void *memory_allocate_zeroed(size_t count, size_t size)
    __attribute__((malloc, returns_nonnull, warn_unused_result));
void *memory_resize(void *block, size_t size) __attribute__((returns_nonnull, warn_unused_result));

/* A NUL-terminated copy; release with free(). */
char *memory_copy_text(const char *text)
    __attribute__((malloc, returns_nonnull, warn_unused_result));

#endif
