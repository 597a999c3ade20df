/* CRS2 typed errors: classification, the payload of section 12, and its readable form. Fields
 * always leave sorted by name, so that equal errors are equal bytes. */
#include "crs2/wire/error.h"

#include <stdlib.h>
#include <strings.h>

#include "base/cursor.h"
#include "base/memory.h"
#include "base/text.h"
#include "crs2/wire/error_registry.h"
#include "crs2/wire/frame.h"

/* The least a field takes: two lengths and a name of one byte. */
#define ERROR_FIELD_MIN_SIZE 9u

static const char cut_short[] = "the error is cut short";

/* ---- classes ---- */

static bool begins_with(struct slice code, const char *prefix) {
  size_t length = strlen(prefix);
  return code.length >= length && strncasecmp((const char *)code.data, prefix, length) == 0;
}

static bool ends_with(struct slice code, const char *suffix) {
  size_t length = strlen(suffix);
  return code.length >= length &&
         strncasecmp((const char *)code.data + code.length - length, suffix, length) == 0;
}

/* The first rule that fits decides (commands-1 section 7); none of these is retryable. */
static enum error_class class_of_unlisted(struct slice code) {
  static const struct {
    bool (*fits)(struct slice code, const char *part);
    const char *part;
    enum error_class error_class;
  } rules[] = {
      {begins_with, "not_authorized", ERROR_AUTHORIZATION},
      {begins_with, "authorization_", ERROR_AUTHORIZATION},
      {ends_with, "_not_found", ERROR_NOT_FOUND},
      {ends_with, "_missing", ERROR_NOT_FOUND},
      {begins_with, "missing_", ERROR_VALIDATION},
      {begins_with, "invalid_", ERROR_VALIDATION},
      {begins_with, "empty_", ERROR_VALIDATION},
      {begins_with, "malformed_", ERROR_VALIDATION},
      {begins_with, "decode_", ERROR_VALIDATION},
      {begins_with, "unmarshal_", ERROR_VALIDATION},
  };
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (rules[i].fits(code, rules[i].part)) return rules[i].error_class;
  return ERROR_INTERNAL;
}

void error_classify(struct slice code, enum error_class *error_class, bool *retryable) {
  const struct error_registry_row *row = error_registry_find(code);
  *error_class = row ? row->error_class : class_of_unlisted(code);
  *retryable = row && row->retryable;
}

static const char *const class_names[] = {
    [ERROR_VALIDATION] = "validation", [ERROR_AUTHORIZATION] = "authorization",
    [ERROR_ROUTING] = "routing",       [ERROR_AVAILABILITY] = "availability",
    [ERROR_CONFLICT] = "conflict",     [ERROR_FENCING] = "fencing",
    [ERROR_NOT_FOUND] = "not_found",   [ERROR_INTERNAL] = "internal",
};

static bool is_class(unsigned value) {
  return value >= ERROR_VALIDATION && value <= ERROR_INTERNAL;
}

const char *error_class_name(enum error_class error_class) {
  return is_class((unsigned)error_class) ? class_names[error_class] : "unknown";
}

/* ---- fields in order ---- */

static int compare_fields(const void *left, const void *right) {
  struct slice a = (*(const struct error_field *const *)left)->name;
  struct slice b = (*(const struct error_field *const *)right)->name;
  size_t shorter = a.length < b.length ? a.length : b.length;
  int order = shorter ? memcmp(a.data, b.data, shorter) : 0;
  if (order != 0 || a.length == b.length) return order;
  return a.length < b.length ? -1 : 1;
}

/* Fills `sorted` (room for all fields) in name order. */
static void sort_fields(const struct wire_error *error, const struct error_field **sorted) {
  for (unsigned i = 0; i < error->field_count; i++) sorted[i] = &error->fields[i];
  qsort(sorted, error->field_count, sizeof *sorted, compare_fields);
}

static const char *check_sorted(const struct error_field *const *sorted, unsigned count) {
  if (count && sorted[0]->name.length == 0) return "an error field has no name";
  for (unsigned i = 1; i < count; i++)
    if (slice_equals(sorted[i - 1]->name, sorted[i]->name)) return "an error field is repeated";
  return NULL;
}

/* ---- payload ---- */

static void append_string(struct buffer *out, struct slice text) {
  buffer_append_u32(out, (uint32_t)text.length);
  buffer_append_slice(out, text);
}

/* No part may be longer than a frame, so that the lengths below cannot wrap. */
static bool fits_a_frame(const struct wire_error *error) {
  size_t longest =
      error->code.length > error->message.length ? error->code.length : error->message.length;
  for (unsigned i = 0; i < error->field_count; i++) {
    if (error->fields[i].name.length > longest) longest = error->fields[i].name.length;
    if (error->fields[i].value.length > longest) longest = error->fields[i].value.length;
  }
  return longest <= FRAME_MAX_PAYLOAD;
}

const char *error_encode(const struct wire_error *error, struct buffer *out) {
  const struct error_field *sorted[ERROR_MAX_FIELDS];
  if (error->code.length == 0) return "an error has no code";
  if (!is_class((unsigned)error->error_class)) return "unknown error class";
  if (error->field_count > ERROR_MAX_FIELDS) return "more than 256 error fields";
  if (!fits_a_frame(error)) return "the error is larger than a frame";
  sort_fields(error, sorted);
  const char *refusal = check_sorted(sorted, error->field_count);
  if (refusal) return refusal;
  append_string(out, error->code);
  buffer_append_u8(out, (uint8_t)error->error_class);
  buffer_append_u8(out, error->retryable);
  append_string(out, error->message);
  buffer_append_u16(out, error->field_count);
  for (unsigned i = 0; i < error->field_count; i++) {
    append_string(out, sorted[i]->name);
    append_string(out, sorted[i]->value);
  }
  return NULL;
}

static const char *decode_head(struct cursor *cursor, struct wire_error *error) {
  error->code = cursor_bytes(cursor);
  uint8_t error_class = cursor_u8(cursor);
  uint8_t retryable = cursor_u8(cursor);
  error->message = cursor_bytes(cursor);
  error->field_count = cursor_u16(cursor);
  if (cursor->failed) return cut_short;
  if (error->code.length == 0) return "an error has no code";
  if (!is_class(error_class)) return "unknown error class";
  if (retryable > 1) return "the retryable flag is neither 0 nor 1";
  error->error_class = (enum error_class)error_class;
  error->retryable = retryable == 1;
  return error->field_count > cursor_remaining(cursor) / ERROR_FIELD_MIN_SIZE ? cut_short : NULL;
}

const char *error_decode(struct slice payload, struct arena *arena, struct wire_error *error) {
  *error = (struct wire_error){0};
  struct cursor cursor = cursor_over(payload);
  const char *refusal = decode_head(&cursor, error);
  if (refusal) return refusal;
  error->fields = arena_allocate(arena, error->field_count * sizeof *error->fields);
  for (unsigned i = 0; i < error->field_count; i++) {
    error->fields[i].name = cursor_bytes(&cursor);
    error->fields[i].value = cursor_bytes(&cursor);
  }
  if (!cursor_is_finished(&cursor)) return "the error has the wrong length";
  const struct error_field **sorted = arena_allocate(arena, error->field_count * sizeof *sorted);
  sort_fields(error, sorted);
  return check_sorted(sorted, error->field_count);
}

/* ---- readable form ---- */

static bool has_space(struct slice value) {
  for (size_t i = 0; i < value.length; i++)
    if (text_is_space(value.data[i])) return true;
  return false;
}

static void render_field(const struct error_field *field, struct buffer *out) {
  buffer_append_u8(out, ' ');
  buffer_append_slice(out, field->name);
  buffer_append_u8(out, '=');
  if (has_space(field->value))
    text_append_json_string(out, field->value);
  else
    buffer_append_slice(out, field->value);
}

void error_render(const struct wire_error *error, struct buffer *out) {
  buffer_append_text(out, "ERROR: ");
  buffer_append_slice(out, error->code);
  buffer_append_format(out, " class=%s retryable=%s", error_class_name(error->error_class),
                       error->retryable ? "true" : "false");
  const struct error_field **sorted = memory_allocate(error->field_count * sizeof *sorted);
  sort_fields(error, sorted);
  for (unsigned i = 0; i < error->field_count; i++) render_field(sorted[i], out);
  free(sorted);
  if (error->message.length) {
    buffer_append_u8(out, ' ');
    buffer_append_slice(out, error->message);
  }
}
