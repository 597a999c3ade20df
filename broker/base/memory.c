/* Allocation that ends the process instead of returning NULL.
 *
 * This file must not use anything that allocates, so the last line is written with write(2). */
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Noreturn void memory_exhausted(void) {
  static const char line[] =
      "FATAL out of memory; the process ends (no state is lost: it is all in PostgreSQL)\n";
  ssize_t written = write(STDERR_FILENO, line, sizeof line - 1);
  (void)written;
  abort();
}

/* malloc(0) may return NULL, which would look like exhaustion. */
static size_t at_least_one(size_t size) {
  return size ? size : 1;
}

void *memory_allocate(size_t size) {
  void *block = malloc(at_least_one(size));
  if (!block) memory_exhausted();
  return block;
}

void *memory_allocate_zeroed(size_t count, size_t size) {
  void *block = calloc(at_least_one(count), at_least_one(size));
  if (!block) memory_exhausted();
  return block;
}

void *memory_resize(void *block, size_t size) {
  void *resized = realloc(block, at_least_one(size));
  if (!resized) memory_exhausted();
  return resized;
}

char *memory_copy_text(const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = memory_allocate(size);
  memcpy(copy, text, size);
  return copy;
}
