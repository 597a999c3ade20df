/* CRS2 typed errors (crs2-wire 12) and the error registry (commands-1 section 7). */
#ifndef PGCURSUS_CRS2_WIRE_ERROR_H
#define PGCURSUS_CRS2_WIRE_ERROR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/slice.h"

#define ERROR_MAX_FIELDS 256u

enum error_class {
  ERROR_VALIDATION = 1,
  ERROR_AUTHORIZATION = 2,
  ERROR_ROUTING = 3,
  ERROR_AVAILABILITY = 4,
  ERROR_CONFLICT = 5,
  ERROR_FENCING = 6,
  ERROR_NOT_FOUND = 7,
  ERROR_INTERNAL = 8,
};

struct error_field {
  struct slice name;
  struct slice value;
};

struct wire_error {
  struct slice code;
  enum error_class error_class;
  bool retryable;
  struct slice message;
  uint16_t field_count;
  struct error_field *fields;
};

/* Class and retryable flag of a code: the registry, else the rules for unlisted codes. */
void error_classify(struct slice code, enum error_class *error_class, bool *retryable);

/* "validation", "authorization", ... */
const char *error_class_name(enum error_class error_class);

/* Appends the payload with its fields sorted by name, bytewise. NULL, or why it cannot be encoded.
 */
const char *error_encode(const struct wire_error *error, struct buffer *out)
    __attribute__((warn_unused_result));

/* Decodes a payload; slices view it, fields live in `arena`. NULL or why it is refused. */
const char *error_decode(struct slice payload, struct arena *arena, struct wire_error *error)
    __attribute__((warn_unused_result));

/* Appends the readable form: `ERROR: <code> class=<c> retryable=<b> name=value ... message`. */
void error_render(const struct wire_error *error, struct buffer *out);

#endif
