/* Parses and checks what CONSUME and STREAM have in common. Looks at the request only, never at a
 * topic. */
#include "crs2/read_fields.h"

#include "crs2/call.h"
#include "crs2/fields.h"

bool read_fields_fail_maximum(struct call *call, const char *code, const char *maximum) {
  call_fail(call, code, FIELD_TEXT("maximum", maximum));
  return false;
}

bool read_fields_fail_above(struct call *call, const char *code, const char *name,
                            const char *maximum) {
  call_fail(call, code, FIELD_SLICE("requested", call_field(call, name)),
            FIELD_TEXT("maximum", maximum));
  return false;
}

static bool parse_isolation(struct call *call, struct read_fields *fields) {
  if (!call_has_field(call, "isolation")) return true;
  struct slice isolation = call_field(call, "isolation");
  fields->is_uncommitted = field_equals_ignoring_case(isolation, "read_uncommitted");
  if (fields->is_uncommitted || isolation.length == 0 ||
      field_equals_ignoring_case(isolation, "read_committed")) {
    return true;
  }
  call_fail(call, "invalid_isolation", FIELD_SLICE("isolation", isolation));
  return false;
}

static bool parse_position(struct call *call, struct read_fields *fields) {
  if (!field_parse_int(call_field(call, "partition"), &fields->partition)) {
    call_fail_command(call, "invalid_partition");
    return false;
  }
  if (call_has_field(call, "generation") &&
      !field_parse_int(call_field(call, "generation"), &fields->generation)) {
    call_fail_command(call, "invalid_generation");
    return false;
  }
  fields->has_offset = call_has_field(call, "offset");
  if (!fields->has_offset) return true;
  if (!field_parse_u64(call_field(call, "offset"), &fields->requested_offset)) {
    call_fail_command(call, "invalid_offset");
    return false;
  }
  /* Nothing lies beyond a bigint, so such an offset is one beyond the end. */
  fields->offset =
      fields->requested_offset > INT64_MAX - 1 ? INT64_MAX - 1 : (int64_t)fields->requested_offset;
  return true;
}

static bool parse_batch(struct call *call, struct read_fields *fields) {
  fields->max_records = READ_MAX_RECORDS;
  if (!call_has_field(call, "batch")) return true;
  if (!field_parse_int(call_field(call, "batch"), &fields->max_records) ||
      fields->max_records <= 0) {
    return read_fields_fail_maximum(call, "invalid_batch", "8192");
  }
  if (fields->max_records > READ_MAX_RECORDS) {
    return read_fields_fail_above(call, "fetch_batch_too_large", "batch", "8192");
  }
  return true;
}

bool read_fields_parse(struct call *call, struct read_fields *fields) {
  *fields = (struct read_fields){.generation = -1};
  return parse_isolation(call, fields) && parse_position(call, fields) && parse_batch(call, fields);
}
