/* The growable byte buffer. It owns the growth policy and nothing else: no limit is enforced here,
 * because what a peer may make us hold is decided by the decoders and the memory budget. */
#include "base/buffer.h"

#include <assert.h>
#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define BUFFER_SMALLEST 64u

void buffer_release(struct buffer *buffer) {
  free(buffer->data);
  *buffer = (struct buffer){0};
}

static void buffer_grow(struct buffer *buffer, size_t extra) {
  /* A sum that wraps can never be satisfied; asking for SIZE_MAX reports it as exhaustion. */
  size_t needed = extra > SIZE_MAX - buffer->length ? SIZE_MAX : buffer->length + extra;
  size_t capacity = buffer->capacity < BUFFER_SMALLEST ? BUFFER_SMALLEST : buffer->capacity;
  if (capacity > SIZE_MAX / 2 || capacity * 2 < needed)
    capacity = needed;
  else if (capacity < needed)
    capacity *= 2;
  buffer->data = memory_resize(buffer->data, capacity);
  buffer->capacity = capacity;
}

uint8_t *buffer_reserve(struct buffer *buffer, size_t extra) {
  if (!buffer->data || extra > buffer->capacity - buffer->length) buffer_grow(buffer, extra);
  return buffer->data + buffer->length;
}

uint8_t *buffer_extend(struct buffer *buffer, size_t extra) {
  uint8_t *start = buffer_reserve(buffer, extra);
  buffer->length += extra;
  return start;
}

void buffer_append(struct buffer *buffer, const void *data, size_t length) {
  if (length) memcpy(buffer_extend(buffer, length), data, length);
}

void buffer_append_slice(struct buffer *buffer, struct slice bytes) {
  buffer_append(buffer, bytes.data, bytes.length);
}

void buffer_append_text(struct buffer *buffer, const char *text) {
  buffer_append(buffer, text, strlen(text));
}

void buffer_append_format(struct buffer *buffer, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  if (length < 0) return; /* an encoding error of a wide character, which no caller prints */
  size_t size = (size_t)length + 1;
  char *place = (char *)buffer_reserve(buffer, size);
  va_start(arguments, format);
  vsnprintf(place, size, format, arguments);
  va_end(arguments);
  buffer->length += (size_t)length;
}

void buffer_append_u8(struct buffer *buffer, uint8_t value) {
  *buffer_extend(buffer, 1) = value;
}

void buffer_append_u16(struct buffer *buffer, uint16_t value) {
  uint16_t ordered = htobe16(value);
  memcpy(buffer_extend(buffer, sizeof ordered), &ordered, sizeof ordered);
}

void buffer_append_u32(struct buffer *buffer, uint32_t value) {
  uint32_t ordered = htobe32(value);
  memcpy(buffer_extend(buffer, sizeof ordered), &ordered, sizeof ordered);
}

void buffer_append_u64(struct buffer *buffer, uint64_t value) {
  uint64_t ordered = htobe64(value);
  memcpy(buffer_extend(buffer, sizeof ordered), &ordered, sizeof ordered);
}

void buffer_patch_u32(struct buffer *buffer, size_t position, uint32_t value) {
  assert(position <= buffer->length && buffer->length - position >= sizeof value);
  uint32_t ordered = htobe32(value);
  memcpy(buffer->data + position, &ordered, sizeof ordered);
}

void buffer_drop_front(struct buffer *buffer, size_t count) {
  assert(count <= buffer->length);
  if (count == 0) return;
  buffer->length -= count;
  memmove(buffer->data, buffer->data + count, buffer->length);
}
