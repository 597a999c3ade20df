/* Typed errors: the registry, the rules for codes outside it, payloads and the readable form. */
#include "crs2/wire/error.h"

#include "crs2/wire/error_registry.h"
#include "unit.h"

static void assert_class(const char *code, enum error_class want_class, bool want_retryable) {
  enum error_class error_class;
  bool retryable;
  error_classify(slice_text(code), &error_class, &retryable);
  if (error_class != want_class || retryable != want_retryable)
    fail_msg("%s: %s, retryable %d", code, error_class_name(error_class), retryable);
}

static void the_registry_is_sorted_and_findable(void **state) {
  (void)state;
  size_t count;
  const struct error_registry_row *rows = error_registry_rows(&count);
  assert_int_equal(count, 258);
  for (size_t i = 0; i < count; i++) {
    if (i > 0) assert_true(strcmp(rows[i - 1].code, rows[i].code) < 0);
    assert_ptr_equal(error_registry_find(slice_text(rows[i].code)), &rows[i]);
    /* Retryable exactly for routing and availability (commands-1 section 7). */
    bool passing =
        rows[i].error_class == ERROR_ROUTING || rows[i].error_class == ERROR_AVAILABILITY;
    assert_int_equal(rows[i].retryable, passing);
    assert_class(rows[i].code, rows[i].error_class, rows[i].retryable);
  }
}

static void listed_codes_need_their_exact_spelling(void **state) {
  (void)state;
  assert_class("NOT_LEADER", ERROR_ROUTING, true);
  assert_class("not_leader", ERROR_INTERNAL, false);
  assert_class("NOT_LEADE", ERROR_INTERNAL, false);
  assert_class("NOT_LEADERS", ERROR_INTERNAL, false);
  assert_class("member_not_found", ERROR_FENCING, false); /* the rule would say not_found */
  assert_class("leader_not_found", ERROR_AVAILABILITY, true);
  assert_class("transaction_not_open", ERROR_VALIDATION, false);
  assert_class("topic_create_missing", ERROR_INTERNAL, false);
}

static void other_codes_are_classed_by_name(void **state) {
  (void)state;
  assert_class("NOT_AUTHORIZED_FOR_MOON", ERROR_AUTHORIZATION, false);
  assert_class("Authorization_Expired", ERROR_AUTHORIZATION, false);
  assert_class("INVALID_THING_NOT_FOUND", ERROR_NOT_FOUND, false); /* the first rule that fits */
  assert_class("thing_missing", ERROR_NOT_FOUND, false);
  assert_class("missing_thing", ERROR_VALIDATION, false);
  assert_class("Invalid_thing", ERROR_VALIDATION, false);
  assert_class("empty_thing", ERROR_VALIDATION, false);
  assert_class("malformed_thing", ERROR_VALIDATION, false);
  assert_class("decode_thing", ERROR_VALIDATION, false);
  assert_class("unmarshal_thing", ERROR_VALIDATION, false);
  assert_class("invalid", ERROR_INTERNAL, false);
  assert_class("xmissing_", ERROR_INTERNAL, false);
  assert_class("aggregate_proof_gap", ERROR_INTERNAL, false);
  assert_class("", ERROR_INTERNAL, false);
}

static struct error_field field(const char *name, const char *value) {
  return (struct error_field){slice_text(name), slice_text(value)};
}

static void assert_rendered(const struct wire_error *error, const char *want) {
  struct buffer out = {0};
  error_render(error, &out);
  assert_slice_text(buffer_slice(&out), want);
  buffer_release(&out);
}

static void fields_leave_in_name_order(void **state) {
  (void)state;
  struct error_field fields[] = {field("b", "2"), field("ab", "1"), field("a", "0"),
                                 field("B", "3")};
  struct wire_error error = {.code = slice_text("c"),
                             .error_class = ERROR_CONFLICT,
                             .message = slice_text("and so on"),
                             .field_count = 4,
                             .fields = fields},
                    got;
  struct buffer out = {0};
  struct arena arena = {0};
  assert_null(error_encode(&error, &out));
  assert_null(error_decode(buffer_slice(&out), &arena, &got));
  static const char *const order[] = {"B", "a", "ab", "b"};
  for (unsigned i = 0; i < 4; i++) assert_slice_text(got.fields[i].name, order[i]);
  assert_slice_text(error.fields[0].name, "b"); /* the caller's own order is left alone */
  assert_rendered(&error, "ERROR: c class=conflict retryable=false B=3 a=0 ab=1 b=2 and so on");
  buffer_release(&out);
  arena_release(&arena);
}

static void values_with_white_space_are_quoted(void **state) {
  (void)state;
  struct error_field fields[] = {
      field("a", "two words"), field("b", "tab\there \"quoted\" back\\slash"),
      field("c", "plain\"quote"), field("d", "caf\xC3\xA9 \xFF\x01\n"), field("e", "")};
  struct wire_error error = {.code = slice_text("x"),
                             .error_class = ERROR_AVAILABILITY,
                             .retryable = true,
                             .field_count = 5,
                             .fields = fields};
  assert_rendered(&error,
                  "ERROR: x class=availability retryable=true a=\"two words\" "
                  "b=\"tab\\there \\\"quoted\\\" back\\\\slash\" c=plain\"quote "
                  "d=\"caf\xC3\xA9 \\ufffd\\u0001\\n\" e=");
}

static void what_may_not_be_sent_is_not_encoded(void **state) {
  (void)state;
  struct error_field twice[] = {field("a", "1"), field("b", "2"), field("a", "3")};
  struct error_field nameless = field("", "1");
  struct error_field many[257];
  char names[257][8];
  for (unsigned i = 0; i < 257; i++) {
    snprintf(names[i], sizeof names[i], "n%u", i);
    many[i] = field(names[i], "v");
  }
  struct slice code = slice_text("c");
  const struct wire_error wrong[] = {
      {.error_class = ERROR_INTERNAL},
      {.code = code},
      {.code = code, .error_class = (enum error_class)9},
      {.code = code, .error_class = ERROR_INTERNAL, .field_count = 3, .fields = twice},
      {.code = code, .error_class = ERROR_INTERNAL, .field_count = 1, .fields = &nameless},
      {.code = code, .error_class = ERROR_INTERNAL, .field_count = 257, .fields = many},
  };
  struct buffer out = {0};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_non_null(error_encode(&wrong[i], &out));
    assert_int_equal(out.length, 0);
  }
  struct wire_error right = wrong[5];
  right.field_count = 256;
  assert_null(error_encode(&right, &out));
  buffer_release(&out);
}

/* A decoder takes what the count can represent, in any order. */
static void decoders_take_more_fields_than_encoders_send(void **state) {
  (void)state;
  struct buffer out = {0};
  struct arena arena = {0};
  struct wire_error error;
  buffer_append(&out, "\0\0\0\1c\1\0\0\0\0\0\xFF\xFF", 13);
  for (unsigned i = 0; i < 65535; i++) {
    buffer_append_u32(&out, 2);
    buffer_append_u16(&out, (uint16_t)(i * 40503u));
    buffer_append_u32(&out, 0);
  }
  assert_null(error_decode(buffer_slice(&out), &arena, &error));
  assert_int_equal(error.field_count, 65535);
  memcpy(out.data + out.length - 6, out.data + 17, 2); /* the last name becomes the first */
  assert_non_null(error_decode(buffer_slice(&out), &arena, &error));
  arena_release(&arena);
  out.length = 200; /* the count alone */
  assert_non_null(error_decode(buffer_slice(&out), &arena, &error));
  assert_int_equal(arena.allocated, 0);
  buffer_release(&out);
}

static void classes_have_names(void **state) {
  (void)state;
  assert_string_equal(error_class_name(ERROR_VALIDATION), "validation");
  assert_string_equal(error_class_name(ERROR_INTERNAL), "internal");
  assert_string_equal(error_class_name((enum error_class)0), "unknown");
  assert_string_equal(error_class_name((enum error_class)9), "unknown");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_registry_is_sorted_and_findable),
      cmocka_unit_test(listed_codes_need_their_exact_spelling),
      cmocka_unit_test(other_codes_are_classed_by_name),
      cmocka_unit_test(fields_leave_in_name_order),
      cmocka_unit_test(values_with_white_space_are_quoted),
      cmocka_unit_test(what_may_not_be_sent_is_not_encoded),
      cmocka_unit_test(decoders_take_more_fields_than_encoders_send),
      cmocka_unit_test(classes_have_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
