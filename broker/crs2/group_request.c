/* The common ground of group commands. Knows no command by name. */
#include "crs2/group_request.h"

#include "base/hash.h"
#include "crs2/call.h"
#include "crs2/commands.h"
#include "crs2/crs2.h"
#include "crs2/fields.h"
#include "crs2/handlers.h"

static void on_done(struct control_call *control, const struct control_result *result) {
  struct group_request *request = (struct group_request *)control;
  if (result->status == CONTROL_OK) {
    request->answer(request, result->rows);
  } else {
    call_fail_coordination(request->call, result,
                           request->failed_code ? request->failed_code : "coordinator_error");
  }
}

struct group_request *group_request_create(struct call *call, void (*answer)(struct group_request *,
                                                                             const PGresult *)) {
  struct group_request *request = arena_allocate_zeroed(&call->arena, sizeof *request);
  request->call = call;
  request->answer = answer;
  request->group = call_field(call, "group");
  request->member = call_field(call, "member");
  request->topic = call_field(call, "topic");
  request->control.deadline_us = call->deadline_us;
  request->control.on_done = on_done;
  return request;
}

void group_request_submit(struct group_request *request, enum control_statement statement) {
  request->control.statement = statement;
  control_submit(request->call->crs2->control, &request->control);
}

void group_request_submit_exclusive(struct group_request *request,
                                    enum control_statement statement) {
  request->control.exclusive_key = hash_fnv1a64(request->group);
  group_request_submit(request, statement);
}

bool group_request_need_group(struct group_request *request) {
  if (request->group.length == 0) {
    call_fail_command(request->call, "missing_group");
  } else if (!field_is_identifier(request->group)) {
    call_fail_command(request->call, "invalid_group");
  } else {
    return true;
  }
  return false;
}

/* What cannot be stored as text cannot be a topic either. */
bool group_request_need_topic_text(struct group_request *request) {
  if (field_is_text(request->topic)) return true;
  call_fail(request->call, "topic_not_found", FIELD_SLICE("topic", request->topic));
  return false;
}

const char *group_request_read_generation(struct group_request *request, bool needed) {
  struct slice text = call_field(request->call, "generation");
  if (text.length == 0) return needed ? "missing_generation" : NULL;
  request->has_generation = true;
  bool is_number = field_parse_int(text, &request->generation) && request->generation >= 0;
  return is_number ? NULL : "invalid_generation";
}

const char *group_request_check_member(const struct group_request *request) {
  if (request->member.length == 0) return "missing_member";
  return field_is_identifier(request->member) ? NULL : "invalid_member";
}

struct db_parameter group_request_text(struct slice value) {
  return value.length ? db_bytes(value) : db_null();
}

static void answer_nothing(struct group_request *request, const PGresult *rows) {
  (void)rows;
  call_fail(request->call, "coordinator_error", FIELD_TEXT("reason", "a refusal was expected"));
}

void group_request_fail_after_topic(struct group_request *request, const char *code) {
  struct db_parameter *parameters = request->control.parameters;
  request->answer = answer_nothing;
  request->control.is_read_only = true;
  parameters[0] = db_bytes(slice_text(request->call->command->name));
  parameters[1] = db_bytes(request->group);
  parameters[2] = group_request_text(request->topic);
  parameters[3] = db_bytes(slice_text(code));
  group_request_submit(request, CONTROL_CHECK_GROUP_TOPIC);
}
