/* From what the database layer reports to CRS2 errors, in one place. */
#include <json-c/json.h>
#include <string.h>

#include "crs2/call.h"
#include "crs2/commands.h"
#include "crs2/handlers.h"

#define MAX_DETAIL_FIELDS 16

void call_fail_refusal(struct call *call, const char *code, const char *detail) {
  struct error_field fields[MAX_DETAIL_FIELDS];
  size_t count = 0;
  struct json_object *object = *detail ? json_tokener_parse(detail) : NULL;
  if (object && json_object_is_type(object, json_type_object)) {
    json_object_object_foreach(object, name, value) {
      if (count == MAX_DETAIL_FIELDS) break;
      fields[count++] = (struct error_field){
          .name = slice_text(arena_copy_text(&call->arena, slice_text(name))),
          .value = slice_text(arena_copy_text(
              &call->arena, slice_text(value ? json_object_get_string(value) : "")))};
    }
  }
  json_object_put(object);
  call_fail_with(call, arena_copy_text(&call->arena, slice_text(code)), fields, count, NULL);
}

void call_fail_control_status(struct call *call, enum control_status status, const char *reason) {
  const struct error_field command[] = {FIELD_TEXT("command", call->command->name)};
  const struct error_field outcome[] = {FIELD_TEXT("outcome", "not_accepted")};
  const struct error_field why[] = {FIELD_TEXT("reason", reason)};
  switch (status) {
    case CONTROL_TIMED_OUT:
      call_fail_with(call, "request_timeout", outcome, 1, reason);
      break;
    case CONTROL_UNKNOWN:
      call_fail_with(call, "cluster_metadata_unavailable", command, 1,
                     "the connection to PostgreSQL was lost; the change may have been made");
      break;
    case CONTROL_FAILED:
      call_fail_with(call, "command_failed", why, 1, NULL);
      break;
    default:
      call_fail_with(call, "cluster_metadata_unavailable", command, 1, reason);
  }
}

void call_fail_control(struct call *call, const struct control_result *result) {
  if (result->status == CONTROL_REFUSED) {
    call_fail_refusal(call, result->code, result->detail);
  } else {
    call_fail_control_status(call, result->status, result->code);
  }
}

void call_fail_coordination(struct call *call, const struct control_result *result,
                            const char *failed_code) {
  switch (result->status) {
    case CONTROL_REFUSED:
    case CONTROL_TIMED_OUT:
      call_fail_control(call, result);
      break;
    case CONTROL_FAILED:
      call_fail(call, failed_code, FIELD_TEXT("reason", result->code));
      break;
    case CONTROL_UNKNOWN:
      call_fail(call, "coordinator_not_available",
                FIELD_TEXT("reason",
                           "the connection to PostgreSQL was lost; the change may have been made"));
      break;
    default:
      call_fail(call, "coordinator_not_available", FIELD_TEXT("reason", result->code));
  }
}
