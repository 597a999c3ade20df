/* The types of request fields. Knows no command. */
#include "crs2/fields.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

static bool parse_digits(struct slice text, uint64_t *value) {
  if (text.length == 0) return false;
  uint64_t total = 0;
  for (size_t i = 0; i < text.length; i++) {
    if (text.data[i] < '0' || text.data[i] > '9') return false;
    if (__builtin_mul_overflow(total, 10u, &total)) return false;
    if (__builtin_add_overflow(total, (uint64_t)(text.data[i] - '0'), &total)) return false;
  }
  *value = total;
  return true;
}

bool field_parse_u64(struct slice text, uint64_t *value) {
  return parse_digits(text, value);
}

bool field_parse_int(struct slice text, int64_t *value) {
  bool negative = text.length > 0 && text.data[0] == '-';
  if (text.length > 0 && (text.data[0] == '-' || text.data[0] == '+')) {
    text.data++;
    text.length--;
  }
  uint64_t digits;
  if (!parse_digits(text, &digits)) return false;
  if (digits > (uint64_t)INT64_MAX + (negative ? 1u : 0u)) return false;
  *value = negative ? (int64_t)(0 - digits) : (int64_t)digits;
  return true;
}

bool field_equals_ignoring_case(struct slice text, const char *word) {
  return text.length == strlen(word) &&
         (text.length == 0 || strncasecmp((const char *)text.data, word, text.length) == 0);
}

bool field_parse_bool(struct slice text, bool *value) {
  text = text_trim(text);
  if (field_equals_ignoring_case(text, "true")) {
    *value = true;
    return true;
  }
  *value = false;
  return field_equals_ignoring_case(text, "false");
}

static bool is_name_byte(uint8_t byte) {
  return (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
         (byte >= '0' && byte <= '9') || byte == '.' || byte == '_' || byte == '-' || byte == '=';
}

const char *field_check_topic_name(struct slice text) {
  if (text.length == 0) return "the name is empty";
  if (text.length > 249) return "the name is longer than 249 bytes";
  for (size_t i = 0; i < text.length; i++) {
    if (!is_name_byte(text.data[i])) return "the name may contain A-Z a-z 0-9 . _ - = only";
  }
  if (slice_equals_text(text, ".") || slice_equals_text(text, "..")) {
    return "the name must not be . or ..";
  }
  return NULL;
}

bool field_is_identifier(struct slice text) {
  if (text.length == 0 || text.length > 249 || !text_is_utf8(text)) return false;
  for (size_t i = 0; i < text.length; i++) {
    if (text.data[i] <= ' ' || text.data[i] == 0x7F) return false;
  }
  return true;
}

bool field_is_text(struct slice text) {
  if (text.length == 0) return true;
  return memchr(text.data, 0, text.length) == NULL && text_is_utf8(text);
}

struct slice field_canonical_csv(struct arena *arena, struct slice text) {
  char *out = arena_allocate(arena, text.length + 1);
  size_t length = 0;
  for (size_t start = 0; start <= text.length;) {
    const uint8_t *comma =
        start < text.length ? memchr(text.data + start, ',', text.length - start) : NULL;
    size_t end = comma ? (size_t)(comma - text.data) : text.length;
    struct slice item = text_trim(slice_of(text.data ? text.data + start : NULL, end - start));
    if (item.length) {
      if (length) out[length++] = ',';
      memcpy(out + length, item.data, item.length);
      length += item.length;
    }
    start = end + 1;
  }
  return slice_of(out, length);
}

bool field_matches_pattern(struct slice pattern, struct slice name) {
  size_t p = 0, n = 0, star = SIZE_MAX, resume = 0;
  while (n < name.length) {
    if (p < pattern.length && pattern.data[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.length && (pattern.data[p] == '?' || pattern.data[p] == name.data[n])) {
      p++;
      n++;
    } else if (star != SIZE_MAX) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.length && pattern.data[p] == '*') p++;
  return p == pattern.length;
}
