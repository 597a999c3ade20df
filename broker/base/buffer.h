/* A growable byte buffer, written at the end. It owns its bytes.
 *
 * Multi-byte integers are appended in network byte order, which both the wire protocol and
 * PostgreSQL's binary formats use. A zeroed struct is a valid empty buffer. */
#ifndef PGCURSUS_BASE_BUFFER_H
#define PGCURSUS_BASE_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct buffer {
  uint8_t *data;
  size_t length;
  size_t capacity;
};

/* Frees the bytes and leaves a valid empty buffer. */
void buffer_release(struct buffer *buffer);

/* Makes room for `extra` more bytes (geometric growth) and returns where they start; the length is
 * not changed. */
uint8_t *buffer_reserve(struct buffer *buffer, size_t extra);

/* Grows the length by `extra` uninitialised bytes and returns the first of them. */
uint8_t *buffer_extend(struct buffer *buffer, size_t extra);

void buffer_append(struct buffer *buffer, const void *data, size_t length);
void buffer_append_slice(struct buffer *buffer, struct slice bytes);
void buffer_append_text(struct buffer *buffer, const char *text);
void buffer_append_format(struct buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void buffer_append_u8(struct buffer *buffer, uint8_t value);
void buffer_append_u16(struct buffer *buffer, uint16_t value);
void buffer_append_u32(struct buffer *buffer, uint32_t value);
void buffer_append_u64(struct buffer *buffer, uint64_t value);

/* Overwrites four bytes at `position`, which must lie inside the buffer. */
void buffer_patch_u32(struct buffer *buffer, size_t position, uint32_t value);

/* Drops the first `count` bytes (count <= length), moving the rest to the front. */
void buffer_drop_front(struct buffer *buffer, size_t count);

static inline struct slice buffer_slice(const struct buffer *buffer) {
  return slice_of(buffer->data, buffer->length);
}

#endif
