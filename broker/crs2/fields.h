/* Reading typed values out of request fields (commands-1, "Types"). Pure. */
#ifndef PGCURSUS_CRS2_FIELDS_H
#define PGCURSUS_CRS2_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/slice.h"

/* Optional sign and decimal digits, within 64 bits. False for anything else. */
bool field_parse_int(struct slice text, int64_t *value) __attribute__((warn_unused_result));

/* Decimal digits only, 0 to 2^64-1. */
bool field_parse_u64(struct slice text, uint64_t *value) __attribute__((warn_unused_result));

/* "true" or "false" in any letter case, blanks around it ignored. */
bool field_parse_bool(struct slice text, bool *value) __attribute__((warn_unused_result));

/* NULL when it is a topic name: 1 to 249 bytes of A-Z a-z 0-9 . _ - =, not "." or ".."; else why
 * not. */
const char *field_check_topic_name(struct slice text) __attribute__((warn_unused_result));

/* Group, member, producer and transactional ids: 1 to 249 bytes of UTF-8, no white space, no
 * control bytes (ruling D-3; they are stored as text, hence UTF-8). */
bool field_is_identifier(struct slice text);

/* May be stored as text: UTF-8 without NUL. */
bool field_is_text(struct slice text);

/* Comma separated items, trimmed, empty ones dropped, joined again with commas. */
struct slice field_canonical_csv(struct arena *arena, struct slice text);

/* `*` matches any run, `?` one byte, everything else itself; the whole text must match. */
bool field_matches_pattern(struct slice pattern, struct slice text);

/* Equal in any letter case (ASCII). */
bool field_equals_ignoring_case(struct slice text, const char *word);

#endif
