/* Text that may be anything a peer sent: UTF-8 checks and JSON strings. */
#ifndef PGCURSUS_BASE_TEXT_H
#define PGCURSUS_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/slice.h"

/* How many bytes the UTF-8 character at the front of `bytes` takes (1..4), or 0 when there is none:
 * empty, cut short, overlong, a surrogate, or above U+10FFFF. */
size_t text_utf8_length(struct slice bytes);

/* True when all of it is valid UTF-8 (NUL bytes are valid UTF-8). */
bool text_is_utf8(struct slice bytes);

/* True for space, tab, newline, carriage return, vertical tab and form feed. */
bool text_is_space(uint8_t byte);

/* The bytes without white space at both ends. */
struct slice text_trim(struct slice bytes);

/* Appends a quoted JSON string. Valid UTF-8 is kept as it is; every byte that is not becomes
 * U+FFFD, so the output is always valid JSON. */
void text_append_json_string(struct buffer *out, struct slice bytes);

#endif
