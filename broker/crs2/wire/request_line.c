/* The readable form of a request (crs2-wire 9.1): one line of text to a command and its arguments.
 *
 * Whether the command exists and the names are legal is not decided here: command_by_name() and
 * request_encode() say that. */
#include "base/text.h"
#include "crs2/wire/request.h"

static struct slice slice_until(struct slice text, size_t end) {
  return slice_of(text.data, end);
}

static struct slice slice_from(struct slice text, size_t start) {
  return slice_of(text.data + start, text.length - start);
}

/* Where `name=` stands at the start of the text or after white space; the text's length when
 * nowhere. */
static size_t find_marker(struct slice text, const char *marker) {
  size_t length = strlen(marker);
  for (size_t at = 0; at + length <= text.length; at++) {
    if (at > 0 && !text_is_space(text.data[at - 1])) continue;
    if (memcmp(text.data + at, marker, length) == 0) return at;
  }
  return text.length;
}

/* Takes a free-text field off the end of `*rest`: its value is all that follows the marker,
 * trimmed. */
static bool take_tail(struct slice *rest, const char *marker, struct request_field *field) {
  size_t at = find_marker(*rest, marker);
  if (at == rest->length) return false;
  size_t length = strlen(marker);
  field->name = slice_of(rest->data + at, length - 1);
  field->value = text_trim(slice_from(*rest, at + length));
  *rest = text_trim(slice_until(*rest, at));
  return true;
}

/* The next word of `*rest`, which loses it; empty at the end. */
static struct slice take_word(struct slice *rest) {
  struct slice text = text_trim(*rest);
  size_t end = 0;
  while (end < text.length && !text_is_space(text.data[end])) end++;
  *rest = slice_from(text, end);
  return slice_until(text, end);
}

static void count_words(struct slice rest, size_t *fields, size_t *positionals) {
  *fields = *positionals = 0;
  for (struct slice word; (word = take_word(&rest)).length;)
    ++*(memchr(word.data, '=', word.length) ? fields : positionals);
}

static void parse_words(struct slice rest, struct request_fields *request) {
  for (struct slice word; (word = take_word(&rest)).length;) {
    const uint8_t *equals = memchr(word.data, '=', word.length);
    if (!equals) {
      request->positionals[request->positional_count++] = word;
      continue;
    }
    size_t at = (size_t)(equals - word.data);
    request->fields[request->field_count++] =
        (struct request_field){.name = slice_until(word, at), .value = slice_from(word, at + 1)};
  }
}

/* `metadata` takes text to its end only in front of a `message`. Returns how many were taken. */
static size_t take_tails(struct slice *rest, struct request_field tails[2]) {
  struct request_field last;
  if (take_tail(rest, "message=", &last)) {
    size_t count = take_tail(rest, "metadata=", &tails[0]) ? 1 : 0;
    tails[count] = last;
    return count + 1;
  }
  return take_tail(rest, "payload=", &tails[0]) ? 1 : 0;
}

const char *request_parse_line(struct slice line, struct arena *arena, struct slice *command,
                               struct request_fields *request) {
  *request = (struct request_fields){0};
  line = text_trim(line);
  if (line.length == 0) return "the line is empty";
  const uint8_t *space = memchr(line.data, ' ', line.length);
  *command = slice_until(line, space ? (size_t)(space - line.data) : line.length);
  struct slice rest = slice_from(line, command->length);
  struct request_field tails[2];
  size_t tail_count = take_tails(&rest, tails), field_count, positional_count;
  count_words(rest, &field_count, &positional_count);
  if (field_count + tail_count > REQUEST_MAX_ARGUMENTS || positional_count > REQUEST_MAX_ARGUMENTS)
    return "more than 1024 arguments";
  request->positionals = arena_allocate(arena, positional_count * sizeof *request->positionals);
  request->fields = arena_allocate(arena, (field_count + tail_count) * sizeof *request->fields);
  parse_words(rest, request);
  for (size_t i = 0; i < tail_count; i++) request->fields[request->field_count++] = tails[i];
  return NULL;
}
