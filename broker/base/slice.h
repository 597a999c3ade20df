/* A view of bytes that somebody else owns. */
#ifndef PGCURSUS_BASE_SLICE_H
#define PGCURSUS_BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* `data` may be NULL only when `length` is 0. The bytes are not NUL-terminated. */
struct slice {
  const uint8_t *data;
  size_t length;
};

static inline struct slice slice_of(const void *data, size_t length) {
  return (struct slice){.data = data, .length = length};
}

/* The bytes of a C string, without its NUL; NULL gives the empty slice. */
static inline struct slice slice_text(const char *text) {
  return (struct slice){.data = (const uint8_t *)text, .length = text ? strlen(text) : 0};
}

static inline bool slice_equals(struct slice a, struct slice b) {
  return a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}

static inline bool slice_equals_text(struct slice a, const char *text) {
  return slice_equals(a, slice_text(text));
}

#endif
