/* REGISTER_GROUP, JOIN_GROUP, SYNC_GROUP, LEAVE_GROUP and HEARTBEAT (commands-2 2.6 to 2.10).
 * Groups live in PostgreSQL; what is kept of them here is the generation that heartbeats are
 * answered with. */
#include <string.h>

#include "cluster/heartbeats.h"
#include "config/config.h"
#include "crs2/call.h"
#include "crs2/commands.h"
#include "crs2/crs2.h"
#include "crs2/fields.h"
#include "crs2/group_request.h"
#include "crs2/handlers.h"

#define MAX_PATTERN_CHARACTERS 256u
#define ID_SUFFIX_LENGTH 5u /* what joining adds to a member's name */
#define MAX_ID_LENGTH 249u

static struct db_parameter generation_parameter(struct group_request *request, unsigned index) {
  return request->has_generation ? db_int8(&request->control.scalars[index], request->generation)
                                 : db_null();
}

/* ------------------------------------------------------------------ REGISTER_GROUP */

static void fail_subscription(struct call *call, const char *reason) {
  call_fail(call, "invalid_subscription", FIELD_TEXT("reason", reason));
}

static void answer_register(struct group_request *request, const PGresult *rows) {
  struct call *call = request->call;
  struct slice topics = call_field(call, "topics"), pattern = call_field(call, "pattern");
  struct buffer out = {0};
  buffer_append_text(&out, "OK group=");
  buffer_append_slice(&out, request->group);
  if (request->topic.length) {
    buffer_append_text(&out, " topic=");
    buffer_append_slice(&out, request->topic);
  } else {
    buffer_append_text(&out, " topics=");
    buffer_append_slice(&out, topics.length ? topics : db_get_bytes(rows, 0, 0));
    buffer_append_text(&out, " pattern=");
    buffer_append_slice(&out, pattern);
  }
  buffer_append_text(&out, " registered=true");
  call_reply_bytes(call, buffer_slice(&out));
  buffer_release(&out);
}

static size_t count_characters(struct slice text) {
  size_t count = 0;
  for (size_t i = 0; i < text.length; i++) count += (text.data[i] & 0xC0) != 0x80;
  return count;
}

/* Checks 5 and, of 4, what needs no look at the topics. */
static bool check_selector(struct call *call, const char *selector, struct slice text) {
  bool is_pattern = strcmp(selector, "pattern") == 0;
  if (is_pattern && count_characters(text) > MAX_PATTERN_CHARACTERS) {
    fail_subscription(call, "a pattern has at most 256 characters");
  } else if (is_pattern && !field_is_text(text)) {
    fail_subscription(call, "the pattern matches no topic");
  } else if (!field_is_text(text)) {
    call_fail(call, "topic_not_found", FIELD_SLICE("topic", text));
  } else {
    return true;
  }
  return false;
}

void handle_register_group(struct call *call) {
  static const char *const selectors[] = {"topic", "topics", "pattern"};
  struct group_request *request = group_request_create(call, answer_register);
  const char *selector = NULL;
  unsigned given = 0;
  for (size_t i = 0; i < 3; i++) {
    if (call_field(call, selectors[i]).length == 0) continue;
    if (given++ == 0) selector = selectors[i];
  }
  if (given == 0) {
    call_fail_command(call, "missing_topic");
    return;
  }
  if (given > 1) {
    call_fail(call, "invalid_subscription", FIELD_TEXT("command", call->command->name),
              FIELD_TEXT("reason", "specify exactly one of topic, topics, or pattern"));
    return;
  }
  struct slice text = call_field(call, selector);
  if (!group_request_need_group(request) || !check_selector(call, selector, text)) return;
  request->failed_code = "register_group_failed";
  request->control.parameters[0] = db_bytes(request->group);
  request->control.parameters[1] = db_bytes(slice_text(selector));
  request->control.parameters[2] = db_bytes(text);
  group_request_submit_exclusive(request, CONTROL_REGISTER_GROUP);
}

/* ------------------------------------------------------------------ assignments */

/* `assignments=[0,1]`, or `topic_assignments=a:P0,b:P1` for a subscription asked without a topic
 * (2.3). */
static void append_assignment(struct buffer *out, const struct group_request *request,
                              const PGresult *rows) {
  bool with_topics = request->topic.length == 0 && db_get_bool(rows, 0, ASSIGNMENT_IS_SUBSCRIPTION);
  buffer_append_text(out, with_topics ? "topic_assignments=" : "assignments=[");
  for (int row = 0; row < PQntuples(rows); row++) {
    if (db_is_null(rows, row, ASSIGNMENT_PARTITION)) break;
    if (row) buffer_append_u8(out, ',');
    if (with_topics) {
      buffer_append_slice(out, db_get_bytes(rows, row, ASSIGNMENT_TOPIC));
      buffer_append_text(out, ":P");
    }
    buffer_append_format(out, "%d", db_get_int4(rows, row, ASSIGNMENT_PARTITION));
  }
  if (!with_topics) buffer_append_u8(out, ']');
}

/* ------------------------------------------------------------------ JOIN_GROUP */

static void answer_join(struct group_request *request, const PGresult *rows) {
  struct call *call = request->call;
  struct buffer out = {0};
  if (!request->is_resume) heartbeats_forget_group(call->crs2->heartbeats, request->group);
  buffer_append_format(
      &out, "OK generation=%lld member=", (long long)db_get_int8(rows, 0, ASSIGNMENT_GENERATION));
  buffer_append_slice(&out, db_get_bytes(rows, 0, ASSIGNMENT_MEMBER));
  buffer_append_u8(&out, ' ');
  append_assignment(&out, request, rows);
  if (request->is_resume) buffer_append_text(&out, " resumed=true");
  call_reply_bytes(call, buffer_slice(&out));
  buffer_release(&out);
}

/* SYNC_GROUP, HEARTBEAT and a resuming JOIN_GROUP ask the same of PostgreSQL. */
static void submit_sync(struct group_request *request) {
  struct db_parameter *parameters = request->control.parameters;
  parameters[0] = db_bytes(slice_text(request->call->command->name));
  parameters[1] = db_bytes(request->group);
  parameters[2] = db_bytes(request->member);
  parameters[3] = group_request_text(request->topic);
  parameters[4] = generation_parameter(request, 4);
  request->control.is_read_only = true; /* renewing twice is renewing */
  group_request_submit(request, CONTROL_SYNC_GROUP);
}

static void submit_join(struct group_request *request) {
  struct db_parameter *parameters = request->control.parameters;
  parameters[0] = db_bytes(request->group);
  parameters[1] = db_bytes(request->member);
  parameters[2] = group_request_text(request->topic);
  parameters[3] = db_int8(&request->control.scalars[3],
                          request->call->crs2->config->consumer_session_timeout_ms);
  group_request_submit_exclusive(request, CONTROL_JOIN_GROUP);
}

void handle_join_group(struct call *call) {
  struct group_request *request = group_request_create(call, answer_join);
  request->failed_code = "join_group_failed";
  if (request->group.length == 0) {
    call_fail_command(call, "missing_group");
    return;
  }
  const char *problem = group_request_check_member(request);
  request->is_resume = call_field(call, "generation").length > 0;
  if (problem == NULL && !request->is_resume &&
      request->member.length > MAX_ID_LENGTH - ID_SUFFIX_LENGTH) {
    problem = "invalid_member";
  }
  if (request->member.length == 0) {
    call_fail_command(call, "missing_member");
    return;
  }
  if (!group_request_need_group(request)) return;
  if (problem) {
    call_fail_command(call, problem);
    return;
  }
  if (!group_request_need_topic_text(request)) return;
  problem = group_request_read_generation(request, false);
  if (problem) {
    group_request_fail_after_topic(request, problem);
  } else if (request->is_resume) {
    submit_sync(request);
  } else {
    submit_join(request);
  }
}

/* ------------------------------------------------------------------ SYNC_GROUP */

static void answer_sync(struct group_request *request, const PGresult *rows) {
  struct buffer out = {0};
  buffer_append_text(&out, "OK ");
  append_assignment(&out, request, rows);
  call_reply_bytes(request->call, buffer_slice(&out));
  buffer_release(&out);
}

void handle_sync_group(struct call *call) {
  struct group_request *request = group_request_create(call, answer_sync);
  if (request->group.length && request->member.length == 0) {
    call_fail_command(call, "missing_member");
    return;
  }
  if (!group_request_need_group(request)) return;
  const char *problem = group_request_check_member(request);
  if (problem) {
    call_fail_command(call, problem);
    return;
  }
  if (!group_request_need_topic_text(request)) return;
  problem = group_request_read_generation(request, true);
  if (problem) {
    group_request_fail_after_topic(request, problem);
  } else {
    submit_sync(request);
  }
}

/* ------------------------------------------------------------------ LEAVE_GROUP and HEARTBEAT */

/* missing_topic comes before missing_group and missing_member, but only a look at the group tells
 * whether a topic is missing at all. False: the call has been answered, or will be. */
static bool check_identity(struct group_request *request) {
  struct call *call = request->call;
  if (request->group.length == 0) {
    call_fail_command(call, request->topic.length ? "missing_group" : "missing_topic");
    return false;
  }
  if (!group_request_need_group(request)) return false;
  const char *problem = group_request_check_member(request);
  if (problem && request->topic.length) {
    call_fail_command(call, problem);
    return false;
  }
  if (!group_request_need_topic_text(request)) return false;
  if (problem) group_request_fail_after_topic(request, problem);
  return problem == NULL;
}

static void answer_leave(struct group_request *request, const PGresult *rows) {
  (void)rows;
  heartbeats_forget_group(request->call->crs2->heartbeats, request->group);
  call_reply_format(request->call, "OK group=%.*s member=%.*s left=true",
                    (int)request->group.length, (const char *)request->group.data,
                    (int)request->member.length, (const char *)request->member.data);
}

void handle_leave_group(struct call *call) {
  struct group_request *request = group_request_create(call, answer_leave);
  if (!check_identity(request)) return;
  const char *problem = group_request_read_generation(request, false);
  if (problem && request->topic.length) {
    call_fail_command(call, problem); /* here it comes before topic_not_assigned_to_group */
    return;
  }
  if (problem) {
    group_request_fail_after_topic(request, problem);
    return;
  }
  request->control.parameters[0] = db_bytes(request->group);
  request->control.parameters[1] = db_bytes(request->member);
  request->control.parameters[2] = group_request_text(request->topic);
  request->control.parameters[3] = generation_parameter(request, 3);
  group_request_submit_exclusive(request, CONTROL_LEAVE_GROUP);
}

static void reply_heartbeat(const struct group_request *request, int64_t generation) {
  call_reply_format(request->call, "OK member=%.*s generation=%lld", (int)request->member.length,
                    (const char *)request->member.data, (long long)generation);
}

static void answer_heartbeat(struct group_request *request, const PGresult *rows) {
  int64_t generation = db_get_int8(rows, 0, ASSIGNMENT_GENERATION);
  heartbeats_learn(request->call->crs2->heartbeats, request->heartbeat_changes, request->group,
                   request->member, request->topic, db_get_int8(rows, 0, ASSIGNMENT_GROUP_ID),
                   generation);
  reply_heartbeat(request, generation);
}

void handle_heartbeat(struct call *call) {
  struct group_request *request = group_request_create(call, answer_heartbeat);
  struct heartbeats *heartbeats = call->crs2->heartbeats;
  if (!check_identity(request)) return;
  const char *problem = group_request_read_generation(request, false);
  if (problem) {
    group_request_fail_after_topic(request, problem);
    return;
  }
  int64_t current;
  const int64_t *claimed = request->has_generation ? &request->generation : NULL;
  if (heartbeats_beat(heartbeats, request->group, request->member, request->topic, claimed,
                      &current)) {
    reply_heartbeat(request, current);
    return;
  }
  request->heartbeat_changes = heartbeats_changes(heartbeats);
  submit_sync(request);
}
