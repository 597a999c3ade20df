/* What every unit test includes: cmocka with the headers it forgets, and a repeatable source of
 * noise. */
#ifndef PGCURSUS_TESTS_UNIT_H
#define PGCURSUS_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/slice.h"

/* A failed check names the case it belongs to. */
#define CHECK(name, condition)                                \
  do {                                                        \
    if (!(condition)) fail_msg("%s: %s", (name), #condition); \
  } while (0)

/* Compares bytes and says where they differ. */
static inline void assert_slices(struct slice got, struct slice want) {
  assert_int_equal(got.length, want.length);
  if (want.length) assert_memory_equal(got.data, want.data, want.length);
}

static inline void assert_slice_text(struct slice got, const char *want) {
  assert_slices(got, slice_text(want));
}

/* xorshift64: the same numbers on every run, so a failure can be repeated. */
static inline uint64_t noise_next(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static inline size_t noise_below(uint64_t *state, size_t limit) {
  return (size_t)(noise_next(state) % limit);
}

static inline void noise_fill(uint64_t *state, void *bytes, size_t length) {
  uint8_t *at = bytes;
  for (size_t i = 0; i < length; i++) at[i] = (uint8_t)(noise_next(state) >> 32);
}

#endif
