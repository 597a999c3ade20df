/* CRQ2, the field-based request payload (crs2-wire 9), and its readable form (9.1). */
#ifndef PGCURSUS_CRS2_WIRE_REQUEST_H
#define PGCURSUS_CRS2_WIRE_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/slice.h"

#define REQUEST_MAX_ARGUMENTS 1024u

struct request_field {
  struct slice name;
  struct slice value; /* any bytes, as sent */
};

struct request_fields {
  uint16_t positional_count;
  uint16_t field_count;
  struct slice *positionals;
  struct request_field *fields; /* in the sender's order; no name twice */
};

/* Decodes a payload; slices view it and arrays live in `arena`. Returns NULL or why it is refused
 * (which closes the connection, section 15). Cost is O(n log n) in the number of fields. */
const char *request_decode(struct slice payload, struct arena *arena,
                           struct request_fields *request) __attribute__((warn_unused_result));

/* Appends the payload. Returns NULL, or why the arguments may not be sent (`out` is then
 * unchanged). */
const char *request_encode(const struct request_fields *request, struct buffer *out)
    __attribute__((warn_unused_result));

/* The value of a field, or NULL when it is absent. An empty value is present. */
const struct slice *request_find(const struct request_fields *request, const char *name);

/* Parses one readable line `NAME positional... name=value... [message=...]` (9.1). `*command` is
 * the word as written. Returns NULL or why it cannot be parsed. Slices view `line`. */
const char *request_parse_line(struct slice line, struct arena *arena, struct slice *command,
                               struct request_fields *request) __attribute__((warn_unused_result));

#endif
