/* Binary one-dimensional arrays: parameters without NULLs built element by element, and results
 * read the same way. */
#ifndef PGCURSUS_DB_ARRAY_H
#define PGCURSUS_DB_ARRAY_H

#include "base/buffer.h"
#include "base/cursor.h"
#include "db/values.h"

/* A zeroed struct, then db_array_begin(). The bytes are the buffer's. */
struct db_array {
  struct buffer bytes;
  uint32_t count;
};

/* Offset of the element count in the header of an array that has elements. */
#define DB_ARRAY_COUNT_OFFSET 12u

/* Starts an empty array; the buffer's memory is used again. `element_type` as in pg_type. */
static inline void db_array_begin(struct db_array *array, Oid element_type) {
  array->bytes.length = 0;
  array->count = 0;
  buffer_append_u32(&array->bytes, 0); /* dimensions: set with the first element */
  buffer_append_u32(&array->bytes, 0); /* no NULLs */
  buffer_append_u32(&array->bytes, element_type);
}

static inline void db_array_begin_element(struct db_array *array, uint32_t length) {
  if (array->count++ == 0) {
    buffer_patch_u32(&array->bytes, 0, 1);
    buffer_append_u32(&array->bytes, 0);
    buffer_append_u32(&array->bytes, 1); /* lower bound */
  }
  buffer_patch_u32(&array->bytes, DB_ARRAY_COUNT_OFFSET, array->count);
  buffer_append_u32(&array->bytes, length);
}

static inline void db_array_add_int4(struct db_array *array, int32_t value) {
  db_array_begin_element(array, 4);
  buffer_append_u32(&array->bytes, (uint32_t)value);
}

static inline void db_array_add_int8(struct db_array *array, int64_t value) {
  db_array_begin_element(array, 8);
  buffer_append_u64(&array->bytes, (uint64_t)value);
}

/* Text or bytes. */
static inline void db_array_add_bytes(struct db_array *array, struct slice value) {
  db_array_begin_element(array, (uint32_t)value.length);
  buffer_append_slice(&array->bytes, value);
}

/* Valid until the array changes. */
static inline struct db_parameter db_array_parameter(const struct db_array *array) {
  return db_bytes(buffer_slice(&array->bytes));
}

static inline void db_array_release(struct db_array *array) {
  buffer_release(&array->bytes);
  array->count = 0;
}

/* Begins reading an array that PostgreSQL sent: the number of elements, 0 for an empty or malformed
 * one. The cursor then stands before the first element. */
static inline uint32_t db_array_open(struct cursor *cursor, struct slice array) {
  *cursor = cursor_over(array);
  uint32_t dimensions = cursor_u32(cursor);
  cursor_take(cursor, 8); /* flags, type */
  uint32_t length = cursor_u32(cursor);
  cursor_take(cursor, 4); /* lower bound */
  return cursor->failed || dimensions != 1 ? 0 : length;
}

/* The next element's bytes; empty for NULL and when the array is malformed. */
static inline struct slice db_array_next(struct cursor *cursor) {
  uint32_t length = cursor_u32(cursor);
  return length == UINT32_MAX ? slice_of(NULL, 0) : cursor_take(cursor, length);
}

static inline int64_t db_array_next_int8(struct cursor *cursor) {
  return cursor_u32(cursor) == 8 ? (int64_t)cursor_u64(cursor) : 0;
}

static inline int32_t db_array_next_int4(struct cursor *cursor) {
  return cursor_u32(cursor) == 4 ? (int32_t)cursor_u32(cursor) : 0;
}

#endif
