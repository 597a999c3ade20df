/* The one way decoders read bytes: a cursor that never passes the end of its input.
 *
 * Reading past the end sets `failed`, returns zero or an empty slice and stays failed, so a decoder
 * may read a whole structure and test once. */
#ifndef PGCURSUS_BASE_CURSOR_H
#define PGCURSUS_BASE_CURSOR_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct cursor {
  const uint8_t *position;
  const uint8_t *end;
  bool failed;
};

static inline struct cursor cursor_over(struct slice bytes) {
  return (struct cursor){.position = bytes.data,
                         .end = bytes.data ? bytes.data + bytes.length : NULL,
                         .failed = false};
}

static inline size_t cursor_remaining(const struct cursor *cursor) {
  return cursor->failed ? 0 : (size_t)(cursor->end - cursor->position);
}

/* True when every byte was read and none was missing. */
static inline bool cursor_is_finished(const struct cursor *cursor) {
  return !cursor->failed && cursor->position == cursor->end;
}

/* `length` bytes as a view into the input. */
static inline struct slice cursor_take(struct cursor *cursor, size_t length) {
  if (length > cursor_remaining(cursor)) {
    cursor->failed = true;
    return slice_of(NULL, 0);
  }
  struct slice bytes = slice_of(cursor->position, length);
  cursor->position += length;
  return bytes;
}

static inline uint8_t cursor_u8(struct cursor *cursor) {
  struct slice bytes = cursor_take(cursor, 1);
  return bytes.length ? bytes.data[0] : 0;
}

static inline uint16_t cursor_u16(struct cursor *cursor) {
  struct slice bytes = cursor_take(cursor, 2);
  if (!bytes.data) return 0;
  uint16_t value;
  memcpy(&value, bytes.data, sizeof value);
  return be16toh(value);
}

static inline uint32_t cursor_u32(struct cursor *cursor) {
  struct slice bytes = cursor_take(cursor, 4);
  if (!bytes.data) return 0;
  uint32_t value;
  memcpy(&value, bytes.data, sizeof value);
  return be32toh(value);
}

static inline uint64_t cursor_u64(struct cursor *cursor) {
  struct slice bytes = cursor_take(cursor, 8);
  if (!bytes.data) return 0;
  uint64_t value;
  memcpy(&value, bytes.data, sizeof value);
  return be64toh(value);
}

/* A u32 length and that many bytes. */
static inline struct slice cursor_bytes(struct cursor *cursor) {
  uint32_t length = cursor_u32(cursor);
  return cursor_take(cursor, length);
}

#endif
