/* The request arena: bump allocation from a list of chunks.
 *
 * It never gives memory back before arena_release(), and it never grows by more than what was asked
 * for plus one chunk. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define ARENA_SMALLEST_CHUNK 4096u
#define ARENA_LARGEST_CHUNK 65536u

struct arena_chunk {
  struct arena_chunk *next;
  size_t size; /* of `bytes` */
  size_t used;
  _Alignas(max_align_t) unsigned char bytes[];
};

static struct arena_chunk *arena_add_chunk(struct arena *arena, size_t size) {
  struct arena_chunk *chunk = memory_allocate(sizeof *chunk + size);
  chunk->size = size;
  chunk->used = 0;
  arena->allocated += sizeof *chunk + size;
  return chunk;
}

/* A large block gets a chunk of its own behind the current one, which keeps serving small ones. */
static void *arena_allocate_apart(struct arena *arena, size_t size) {
  struct arena_chunk *chunk = arena_add_chunk(arena, size);
  chunk->used = size;
  if (arena->chunks) {
    chunk->next = arena->chunks->next;
    arena->chunks->next = chunk;
  } else {
    chunk->next = NULL;
    arena->chunks = chunk;
  }
  return chunk->bytes;
}

/* Chunks grow with the arena, so that many small blocks cost few calls of malloc. */
static size_t arena_chunk_size(const struct arena *arena) {
  if (arena->allocated < ARENA_SMALLEST_CHUNK) return ARENA_SMALLEST_CHUNK;
  return arena->allocated < ARENA_LARGEST_CHUNK ? arena->allocated : ARENA_LARGEST_CHUNK;
}

void *arena_allocate(struct arena *arena, size_t size) {
  const size_t alignment = _Alignof(max_align_t);
  /* Near SIZE_MAX the addition of the chunk's head would wrap; malloc must see a size it refuses.
   */
  if (size > SIZE_MAX / 2) return memory_allocate(SIZE_MAX);
  size = (size + alignment - 1) & ~(alignment - 1);
  struct arena_chunk *chunk = arena->chunks;
  if (!chunk || size > chunk->size - chunk->used) {
    if (size > ARENA_SMALLEST_CHUNK / 2) return arena_allocate_apart(arena, size);
    chunk = arena_add_chunk(arena, arena_chunk_size(arena));
    chunk->next = arena->chunks;
    arena->chunks = chunk;
  }
  void *block = chunk->bytes + chunk->used;
  chunk->used += size;
  return block;
}

void *arena_allocate_zeroed(struct arena *arena, size_t size) {
  return memset(arena_allocate(arena, size), 0, size);
}

char *arena_copy_text(struct arena *arena, struct slice bytes) {
  char *copy = arena_allocate(arena, bytes.length + 1);
  if (bytes.length) memcpy(copy, bytes.data, bytes.length);
  copy[bytes.length] = '\0';
  return copy;
}

char *arena_format(struct arena *arena, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  if (length < 0) length = 0;
  char *text = arena_allocate(arena, (size_t)length + 1);
  text[0] = '\0';
  va_start(arguments, format);
  vsnprintf(text, (size_t)length + 1, format, arguments);
  va_end(arguments);
  return text;
}

void arena_release(struct arena *arena) {
  struct arena_chunk *chunk = arena->chunks;
  while (chunk) {
    struct arena_chunk *next = chunk->next;
    free(chunk);
    chunk = next;
  }
  *arena = (struct arena){0};
}
