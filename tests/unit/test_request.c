/* CRQ2 requests and their readable form. */
#include "crs2/wire/request.h"

#include <time.h>

#include "crs2/wire/command_id.h"
#include "unit.h"

static struct request_field field(const char *name, const char *value) {
  return (struct request_field){slice_text(name), slice_text(value)};
}

static const char *encode_one(const char *name, const char *value, struct buffer *out) {
  struct request_field only = field(name, value);
  return request_encode(&(struct request_fields){.field_count = 1, .fields = &only}, out);
}

/* A payload with one field, written without the encoder's checks. */
static void raw_one_field(struct buffer *out, struct slice name, struct slice value) {
  buffer_append(out, "CRQ2\0\2\0\0\0\1", 10);
  buffer_append_u32(out, (uint32_t)name.length);
  buffer_append_slice(out, name);
  buffer_append_u32(out, (uint32_t)value.length);
  buffer_append_slice(out, value);
}

static bool decodes(const struct buffer *payload) {
  struct arena arena = {0};
  struct request_fields request;
  const char *refusal = request_decode(buffer_slice(payload), &arena, &request);
  arena_release(&arena);
  return refusal == NULL;
}

static void field_names_follow_the_grammar(void **state) {
  (void)state;
  for (unsigned first = 0; first < 256; first++)
    for (unsigned second = 0; second <= 256; second++) {
      uint8_t bytes[2] = {(uint8_t)first, (uint8_t)second};
      struct slice name = slice_of(bytes, second == 256 ? 1 : 2);
      bool lower = first >= 'a' && first <= 'z';
      bool letter = (second >= 'a' && second <= 'z') || (second >= 'A' && second <= 'Z');
      bool digit = second >= '0' && second <= '9';
      bool right = (lower || first == '_') && (second == 256 || letter || digit || second == '_');
      struct buffer out = {0};
      raw_one_field(&out, name, slice_text("v"));
      assert_int_equal(decodes(&out), right);
      buffer_release(&out);
    }
  struct buffer out = {0};
  assert_non_null(encode_one("Upper", "v", &out));
  assert_non_null(encode_one("", "v", &out));
  assert_int_equal(out.length, 0);
  assert_null(encode_one("_x", "v", &out));
  buffer_release(&out);
}

static void positionals_have_no_white_space(void **state) {
  (void)state;
  for (unsigned byte = 0; byte < 256; byte++) {
    uint8_t text[3] = {'a', (uint8_t)byte, 'b'};
    struct slice word = slice_of(text, 3);
    struct buffer out = {0};
    struct request_fields request = {.positional_count = 1, .positionals = &word};
    bool right = byte != ' ' && byte != '\t' && byte != '\r' && byte != '\n';
    assert_int_equal(request_encode(&request, &out) == NULL, right);
    assert_int_equal(out.length > 0, right);
    buffer_release(&out);
    buffer_append(&out, "CRQ2\0\2\0\1\0\0\0\3", 12);
    buffer_append_slice(&out, word);
    buffer_append_u16(&out, 0);
    assert_int_equal(decodes(&out), right);
    buffer_release(&out);
  }
}

static void an_empty_value_is_present(void **state) {
  (void)state;
  struct buffer out = {0};
  struct arena arena = {0};
  struct request_fields request;
  assert_null(encode_one("read_acl", "", &out));
  assert_null(request_decode(buffer_slice(&out), &arena, &request));
  assert_non_null(request_find(&request, "read_acl"));
  assert_int_equal(request_find(&request, "read_acl")->length, 0);
  assert_null(request_find(&request, "write_acl"));
  assert_null(request_find(&request, "read_ac"));
  arena_release(&arena);
  buffer_release(&out);
}

/* `count` distinct names of `length` bytes that differ in their last ones only; `repeat` makes the
 * last name equal to the first. */
static void append_many(struct buffer *out, unsigned count, size_t length, bool repeat) {
  buffer_append(out, "CRQ2\0\2\0\0", 8);
  buffer_append_u16(out, (uint16_t)count);
  for (unsigned i = 0; i < count; i++) {
    char digits[8];
    snprintf(digits, sizeof digits, "%07u", repeat && i == count - 1 ? 0 : i * 7919 % 1031);
    buffer_append_u32(out, (uint32_t)length);
    memset(buffer_extend(out, length - 7), 'n', length - 7);
    buffer_append(out, digits, 7);
    buffer_append_u32(out, 0);
  }
}

static void repeated_names_are_found_among_any_number(void **state) {
  (void)state;
  static const unsigned counts[] = {2, 15, 16, 17, 100, 1024};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    for (unsigned repeat = 0; repeat < 2; repeat++) {
      struct buffer out = {0};
      append_many(&out, counts[i], 20, repeat);
      assert_int_equal(decodes(&out), !repeat);
      buffer_release(&out);
    }
  struct buffer out = {0};
  append_many(&out, 1025, 20, false);
  assert_false(decodes(&out));
  buffer_release(&out);
}

/* 1024 names of 32 KiB with one common start: nearly a whole frame, made to be compared slowly. */
static void hostile_names_cost_little(void **state) {
  (void)state;
  struct buffer out = {0};
  append_many(&out, 1024, 32768, true);
  clock_t start = clock();
  assert_false(decodes(&out));
  assert_true(clock() - start < 2 * CLOCKS_PER_SEC);
  buffer_release(&out);
}

static void a_count_reserves_no_memory(void **state) {
  (void)state;
  struct arena arena = {0};
  struct request_fields request;
  static const uint8_t fields[] = {'C', 'R', 'Q', '2', 0, 2, 0, 0, 4, 0, 0, 0};
  static const uint8_t positionals[] = {'C', 'R', 'Q', '2', 0, 2, 4, 0, 0, 0};
  assert_non_null(request_decode(slice_of(fields, sizeof fields), &arena, &request));
  assert_non_null(request_decode(slice_of(positionals, sizeof positionals), &arena, &request));
  assert_true(arena.allocated <= 8192);
  arena_release(&arena);
}

static void noise_survives_a_round_trip(void **state) {
  (void)state;
  uint64_t noise = 42;
  for (unsigned repeat = 0; repeat < 500; repeat++) {
    char names[64][24];
    uint8_t values[64][40];
    struct request_field fields[64];
    unsigned count = (unsigned)noise_below(&noise, 65);
    for (unsigned i = 0; i < count; i++) {
      snprintf(names[i], sizeof names[i], "f%u_%llx", i,
               (unsigned long long)(noise_next(&noise) >> 40));
      size_t length = noise_below(&noise, sizeof values[i]);
      noise_fill(&noise, values[i], length);
      fields[i] = (struct request_field){slice_text(names[i]), slice_of(values[i], length)};
    }
    struct request_fields want = {.field_count = (uint16_t)count, .fields = fields}, got;
    struct buffer out = {0};
    struct arena arena = {0};
    assert_null(request_encode(&want, &out));
    assert_null(request_decode(buffer_slice(&out), &arena, &got));
    assert_int_equal(got.field_count, count);
    for (unsigned i = 0; i < count; i++) {
      assert_slices(got.fields[i].name, fields[i].name);
      assert_slices(got.fields[i].value, fields[i].value);
    }
    buffer_release(&out);
    arena_release(&arena);
  }
}

/* ---- the readable form ---- */

/* Renders what a line was parsed into: command|positional,|name:value;... */
static void assert_line(const char *line, const char *want) {
  struct arena arena = {0};
  struct buffer got = {0};
  struct slice command;
  struct request_fields request;
  assert_null(request_parse_line(slice_text(line), &arena, &command, &request));
  buffer_append_slice(&got, command);
  buffer_append_u8(&got, '|');
  for (unsigned i = 0; i < request.positional_count; i++) {
    buffer_append_slice(&got, request.positionals[i]);
    buffer_append_u8(&got, ',');
  }
  buffer_append_u8(&got, '|');
  for (unsigned i = 0; i < request.field_count; i++) {
    buffer_append_slice(&got, request.fields[i].name);
    buffer_append_u8(&got, ':');
    buffer_append_slice(&got, request.fields[i].value);
    buffer_append_u8(&got, ';');
  }
  assert_slice_text(buffer_slice(&got), want);
  buffer_release(&got);
  arena_release(&arena);
}

static void lines_are_read_as_section_9_1_says(void **state) {
  (void)state;
  assert_line("LIST", "LIST||");
  assert_line("  \t list \n", "list||");
  assert_line("DESCRIBE topic=t", "DESCRIBE||topic:t;");
  assert_line("X  a\tb=1 \n c= =d e=f=g", "X|a,|b:1;c:;:d;e:f=g;");
  assert_line("PUBLISH topic=t message=  a  b=c  ", "PUBLISH||topic:t;message:a  b=c;");
  assert_line("PUBLISH message=x message=y", "PUBLISH||message:x message=y;");
  assert_line("PUBLISH a=b message=", "PUBLISH||a:b;message:;");
  /* Only after white space or at the start is it the marker. */
  assert_line("PUBLISH xmessage=1 y=message=2", "PUBLISH||xmessage:1;y:message=2;");
  assert_line("PUBLISH xmessage=1 message=2", "PUBLISH||xmessage:1;message:2;");
}

static void free_text_fields_come_last(void **state) {
  (void)state;
  assert_line("A k=1 metadata={\"a\": 1} message={\"b\": 2}",
              "A||k:1;metadata:{\"a\": 1};message:{\"b\": 2};");
  assert_line("A metadata=  m  x=y  message=z", "A||metadata:m  x=y;message:z;");
  /* Without a message, metadata is an ordinary word and payload is the tail. */
  assert_line("A metadata=a b payload=c d", "A|b,|metadata:a;payload:c d;");
  assert_line("A payload=a message=b c", "A||payload:a;message:b c;");
  assert_line("A message=b payload=c", "A||message:b payload=c;");
  assert_line("A\tb c", "A\tb|c,|"); /* the command ends at a space, nothing else */
}

static void an_empty_line_and_too_many_words_are_refused(void **state) {
  (void)state;
  struct arena arena = {0};
  struct slice command;
  struct request_fields request;
  assert_non_null(request_parse_line(slice_text(" \n\t "), &arena, &command, &request));
  assert_non_null(request_parse_line(slice_of(NULL, 0), &arena, &command, &request));
  struct buffer line = {0};
  buffer_append_text(&line, "LIST");
  for (unsigned i = 0; i < 1024; i++) buffer_append_text(&line, " w");
  assert_null(request_parse_line(buffer_slice(&line), &arena, &command, &request));
  assert_int_equal(request.positional_count, 1024);
  buffer_append_text(&line, " w");
  assert_non_null(request_parse_line(buffer_slice(&line), &arena, &command, &request));
  line.length = 4;
  for (unsigned i = 0; i < 1024; i++) buffer_append_text(&line, " a=b");
  assert_null(request_parse_line(buffer_slice(&line), &arena, &command, &request));
  buffer_append_text(&line, " message=x");
  assert_non_null(request_parse_line(buffer_slice(&line), &arena, &command, &request));
  buffer_release(&line);
  arena_release(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(field_names_follow_the_grammar),
      cmocka_unit_test(positionals_have_no_white_space),
      cmocka_unit_test(an_empty_value_is_present),
      cmocka_unit_test(repeated_names_are_found_among_any_number),
      cmocka_unit_test(hostile_names_cost_little),
      cmocka_unit_test(a_count_reserves_no_memory),
      cmocka_unit_test(noise_survives_a_round_trip),
      cmocka_unit_test(lines_are_read_as_section_9_1_says),
      cmocka_unit_test(free_text_fields_come_last),
      cmocka_unit_test(an_empty_line_and_too_many_words_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
