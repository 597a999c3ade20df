/* CRQ2 requests: the binary form. The readable form is in request_line.c.
 *
 * A request is either right in every byte or refused; nothing is repaired, trimmed or reordered. */
#include "crs2/wire/request.h"

#include <stdlib.h>

#include "base/cursor.h"
#include "crs2/wire/frame.h"

#define REQUEST_MAGIC 0x43525132u
#define REQUEST_VERSION 2u

/* The least a positional (length, one byte) and a field (length, one byte, length) take. */
#define POSITIONAL_MIN_SIZE 5u
#define FIELD_MIN_SIZE 9u

/* Below this, comparing every pair is cheaper than sorting. */
#define FEW_FIELDS 16u

static const char too_many[] = "more than 1024 arguments";
static const char cut_short[] = "the request is cut short";

static bool is_lower(uint8_t byte) {
  return byte >= 'a' && byte <= 'z';
}

static bool is_name_byte(uint8_t byte) {
  return is_lower(byte) || byte == '_' || (byte >= 'A' && byte <= 'Z') ||
         (byte >= '0' && byte <= '9');
}

/* [a-z_][A-Za-z0-9_]* */
static bool is_field_name(struct slice name) {
  if (name.length == 0 || !(is_lower(name.data[0]) || name.data[0] == '_')) return false;
  for (size_t i = 1; i < name.length; i++)
    if (!is_name_byte(name.data[i])) return false;
  return true;
}

static bool is_positional(struct slice word) {
  if (word.length == 0) return false;
  for (size_t i = 0; i < word.length; i++) {
    uint8_t byte = word.data[i];
    if (byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n') return false;
  }
  return true;
}

/* Any total order will do; by length first is the cheapest. */
static int compare_names(const void *left, const void *right) {
  struct slice a = **(const struct slice *const *)left;
  struct slice b = **(const struct slice *const *)right;
  if (a.length != b.length) return a.length < b.length ? -1 : 1;
  return memcmp(a.data, b.data, a.length);
}

static bool few_names_repeat(const struct request_field *fields, unsigned count) {
  for (unsigned i = 1; i < count; i++)
    for (unsigned j = 0; j < i; j++)
      if (slice_equals(fields[i].name, fields[j].name)) return true;
  return false;
}

/* The names are known to be non-empty and at most REQUEST_MAX_ARGUMENTS. */
static bool names_repeat(const struct request_field *fields, unsigned count) {
  if (count <= FEW_FIELDS) return few_names_repeat(fields, count);
  const struct slice *names[REQUEST_MAX_ARGUMENTS];
  for (unsigned i = 0; i < count; i++) names[i] = &fields[i].name;
  qsort(names, count, sizeof *names, compare_names);
  for (unsigned i = 1; i < count; i++)
    if (slice_equals(*names[i - 1], *names[i])) return true;
  return false;
}

static const char *check_fields(const struct request_field *fields, unsigned count) {
  for (unsigned i = 0; i < count; i++)
    if (!is_field_name(fields[i].name)) return "a field name breaks the grammar";
  return names_repeat(fields, count) ? "a field name is repeated" : NULL;
}

static const char *decode_positionals(struct cursor *cursor, struct arena *arena,
                                      struct request_fields *request) {
  uint16_t count = cursor_u16(cursor);
  if (count > REQUEST_MAX_ARGUMENTS) return too_many;
  if (count > cursor_remaining(cursor) / POSITIONAL_MIN_SIZE) return cut_short;
  request->positional_count = count;
  request->positionals = arena_allocate(arena, count * sizeof *request->positionals);
  for (unsigned i = 0; i < count; i++) {
    request->positionals[i] = cursor_bytes(cursor);
    if (cursor->failed) return cut_short;
    if (!is_positional(request->positionals[i])) return "a positional is empty or has white space";
  }
  return NULL;
}

static const char *decode_fields(struct cursor *cursor, struct arena *arena,
                                 struct request_fields *request) {
  uint16_t count = cursor_u16(cursor);
  if (count > REQUEST_MAX_ARGUMENTS) return too_many;
  if (count > cursor_remaining(cursor) / FIELD_MIN_SIZE) return cut_short;
  request->field_count = count;
  request->fields = arena_allocate(arena, count * sizeof *request->fields);
  for (unsigned i = 0; i < count; i++) {
    request->fields[i].name = cursor_bytes(cursor);
    request->fields[i].value = cursor_bytes(cursor);
  }
  return cursor->failed ? cut_short : check_fields(request->fields, count);
}

const char *request_decode(struct slice payload, struct arena *arena,
                           struct request_fields *request) {
  *request = (struct request_fields){0};
  struct cursor cursor = cursor_over(payload);
  if (cursor_u32(&cursor) != REQUEST_MAGIC) return "not a CRQ2 request";
  if (cursor_u16(&cursor) != REQUEST_VERSION) return "unsupported request version";
  const char *refusal = decode_positionals(&cursor, arena, request);
  if (!refusal) refusal = decode_fields(&cursor, arena, request);
  if (refusal) return refusal;
  return cursor_is_finished(&cursor) ? NULL : "the request has the wrong length";
}

/* The encoded size, or 0 when it would not fit a frame. */
static size_t request_size(const struct request_fields *request) {
  size_t size = 10;
  for (unsigned i = 0; i < request->positional_count && size <= FRAME_MAX_PAYLOAD; i++) {
    if (request->positionals[i].length > FRAME_MAX_PAYLOAD) return 0;
    size += 4 + request->positionals[i].length;
  }
  for (unsigned i = 0; i < request->field_count && size <= FRAME_MAX_PAYLOAD; i++) {
    const struct request_field *field = &request->fields[i];
    if (field->name.length > FRAME_MAX_PAYLOAD || field->value.length > FRAME_MAX_PAYLOAD) return 0;
    size += 8 + field->name.length + field->value.length;
  }
  return size <= FRAME_MAX_PAYLOAD ? size : 0;
}

static const char *check_request(const struct request_fields *request) {
  if (request->positional_count > REQUEST_MAX_ARGUMENTS ||
      request->field_count > REQUEST_MAX_ARGUMENTS)
    return too_many;
  for (unsigned i = 0; i < request->positional_count; i++)
    if (!is_positional(request->positionals[i])) return "a positional is empty or has white space";
  return check_fields(request->fields, request->field_count);
}

static void append_string(struct buffer *out, struct slice text) {
  buffer_append_u32(out, (uint32_t)text.length);
  buffer_append_slice(out, text);
}

const char *request_encode(const struct request_fields *request, struct buffer *out) {
  const char *refusal = check_request(request);
  if (refusal) return refusal;
  size_t size = request_size(request);
  if (size == 0) return "the request is larger than 64 MiB";
  buffer_reserve(out, size);
  buffer_append_u32(out, REQUEST_MAGIC);
  buffer_append_u16(out, REQUEST_VERSION);
  buffer_append_u16(out, request->positional_count);
  for (unsigned i = 0; i < request->positional_count; i++)
    append_string(out, request->positionals[i]);
  buffer_append_u16(out, request->field_count);
  for (unsigned i = 0; i < request->field_count; i++) {
    append_string(out, request->fields[i].name);
    append_string(out, request->fields[i].value);
  }
  return NULL;
}

const struct slice *request_find(const struct request_fields *request, const char *name) {
  struct slice wanted = slice_text(name);
  for (unsigned i = 0; i < request->field_count; i++)
    if (slice_equals(request->fields[i].name, wanted)) return &request->fields[i].value;
  return NULL;
}
