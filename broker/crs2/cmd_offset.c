/* FETCH_OFFSET, COMMIT_OFFSET and BATCH_COMMIT (commands-2 3). Who may commit what is decided by
 * the SQL function that stores it, in the same transaction. */
#include <stddef.h>
#include <string.h>

#include "crs2/call.h"
#include "crs2/commands.h"
#include "crs2/crs2.h"
#include "crs2/fields.h"
#include "crs2/group_request.h"
#include "crs2/handlers.h"
#include "crs2/offset_list.h"
#include "crs2/stream.h"
#include "log/commits.h"
#include "log/topics.h"

/* ------------------------------------------------------------------ FETCH_OFFSET */

static bool is_true(const struct call *call, const char *name) {
  return field_equals_ignoring_case(call_field(call, name), "true");
}

static void answer_fetch(struct group_request *request, const PGresult *rows) {
  struct call *call = request->call;
  bool is_found = !db_is_null(rows, 0, FETCH_NEXT_OFFSET);
  struct buffer out = {0};
  buffer_append_format(&out, "OK offset=%lld", (long long)db_get_int8(rows, 0, FETCH_NEXT_OFFSET));
  if (is_true(call, "include_found")) {
    buffer_append_text(&out, is_found ? " found=true" : " found=false");
    if (is_true(call, "include_epoch")) {
      buffer_append_format(&out, " registration_epoch=%lld",
                           (long long)db_get_int8(rows, 0, FETCH_REGISTRATION_EPOCH));
    }
  }
  call_reply_bytes(call, buffer_slice(&out));
  buffer_release(&out);
}

static bool read_partition(struct call *call, int32_t *partition) {
  int64_t number;
  if (call_field(call, "partition").length == 0) {
    call_fail_command(call, "missing_partition");
    return false;
  }
  if (!field_parse_int(call_field(call, "partition"), &number) || number < 0) {
    call_fail_plain(call, "invalid_partition");
    return false;
  }
  /* Nobody has a partition of such a number, which is all that matters. */
  *partition = number > INT32_MAX ? INT32_MAX : (int32_t)number;
  return true;
}

void handle_fetch_offset(struct call *call) {
  struct group_request *request = group_request_create(call, answer_fetch);
  int32_t partition;
  if (request->topic.length == 0) {
    call_fail_command(call, "missing_topic");
    return;
  }
  if (!read_partition(call, &partition) || !group_request_need_group(request) ||
      !group_request_need_topic_text(request)) {
    return;
  }
  request->control.is_read_only = true;
  request->control.parameters[0] = db_bytes(request->group);
  request->control.parameters[1] = db_bytes(request->topic);
  request->control.parameters[2] = db_int4(&request->control.scalars[2], partition);
  group_request_submit(request, CONTROL_FETCH_OFFSET);
}

/* ------------------------------------------------------------------ committing */

struct commit {
  struct group_request request; /* first: for refusals that need a look at the group */
  struct commit_item item;
  bool is_batch; /* BATCH_COMMIT */
  unsigned entry_count;
  int32_t *partitions; /* in the arena */
  int64_t *offsets;
};

/* A stream of the group on this node goes on from what was committed (commands-1 3.3). */
static void tell_streams(const struct commit *commit) {
  struct crs2 *crs2 = commit->request.call->crs2;
  if (stream_open_count(crs2) == 0) return;
  const struct topic *topic = topics_find(crs2->topics, commit->request.topic);
  for (unsigned i = 0; topic && i < commit->entry_count; i++) {
    streams_note_commit(crs2, commit->request.group, topic->log_id, commit->partitions[i],
                        commit->offsets[i]);
  }
}

static void on_committed(struct commit_item *item, const struct control_result *result) {
  struct commit *commit = (struct commit *)((char *)item - offsetof(struct commit, item));
  struct call *call = commit->request.call;
  if (result->status != CONTROL_OK) {
    call_fail_coordination(call, result, "coordinator_error");
    return;
  }
  tell_streams(commit);
  if (commit->is_batch) {
    call_reply_format(call, "OK batched=%u", commit->entry_count);
  } else {
    call_reply_bytes(call, slice_text("OK"));
  }
}

static struct commit *create_commit(struct call *call) {
  struct commit *commit = arena_allocate_zeroed(&call->arena, sizeof *commit);
  commit->request = *group_request_create(call, NULL);
  return commit;
}

static void add_entries(struct commit *commit, const int32_t *partitions, const int64_t *offsets,
                        unsigned count) {
  struct arena *arena = &commit->request.call->arena;
  commit->entry_count = count;
  commit->partitions = arena_allocate(arena, count * sizeof *partitions);
  commit->offsets = arena_allocate(arena, count * sizeof *offsets);
  memcpy(commit->partitions, partitions, count * sizeof *partitions);
  memcpy(commit->offsets, offsets, count * sizeof *offsets);
  for (unsigned i = 0; i < count; i++) commit_item_add(&commit->item, partitions[i], offsets[i]);
}

/* The incarnation of the group that the client means; what is no number is none that exists. */
static int64_t read_registration_epoch(const struct call *call) {
  struct slice text = call_field(call, "registration_epoch");
  int64_t epoch;
  if (text.length == 0) return 0;
  return field_parse_int(text, &epoch) && epoch > 0 ? epoch : -1;
}

static void submit_commit(struct commit *commit) {
  struct call *call = commit->request.call;
  struct commit_item *item = &commit->item;
  item->group = commit->request.group;
  item->topic = commit->request.topic;
  item->member = commit->request.member;
  item->generation = commit->request.generation;
  item->registration_epoch = read_registration_epoch(call);
  item->deadline_us = call->deadline_us;
  item->on_done = on_committed;
  commits_submit(call->crs2->commits, item);
}

static void answer_validated(struct group_request *request, const PGresult *rows) {
  (void)rows;
  call_reply_bytes(request->call, slice_text("OK validated=true"));
}

/* Asks whether a commit would be accepted, and writes nothing. */
static void submit_validation(struct group_request *request, int32_t partition, int64_t offset) {
  struct db_parameter *p = request->control.parameters;
  union db_scalar *s = request->control.scalars;
  int64_t epoch = read_registration_epoch(request->call);
  request->answer = answer_validated;
  request->control.is_read_only = true;
  *p++ = db_bytes(request->group);
  *p++ = db_bytes(request->topic);
  *p++ = db_bytes(request->member);
  *p++ = db_int8(s++, request->generation);
  *p++ = epoch ? db_int8(s++, epoch) : db_null();
  *p++ = db_int4(s++, partition);
  *p++ = is_true(request->call, "ownership_only") ? db_null() : db_int8(s++, offset);
  group_request_submit(request, CONTROL_VALIDATE_COMMIT);
}

/* The first that is wrong with member and generation, or NULL. */
static const char *check_claim(struct group_request *request) {
  const char *problem = group_request_check_member(request);
  return problem ? problem : group_request_read_generation(request, true);
}

static bool read_offset(struct call *call, int64_t *offset) {
  if (call_field(call, "offset").length == 0) {
    call_fail_command(call, "missing_offset");
    return false;
  }
  uint64_t number;
  if (!field_parse_u64(call_field(call, "offset"), &number) || number > INT64_MAX) {
    call_fail_plain(call, "invalid_offset");
    return false;
  }
  *offset = (int64_t)number;
  return true;
}

void handle_commit_offset(struct call *call) {
  struct commit *commit = create_commit(call);
  struct group_request *request = &commit->request;
  int32_t partition;
  int64_t offset;
  if (request->topic.length == 0) {
    call_fail_command(call, "missing_topic");
    return;
  }
  if (!read_partition(call, &partition) || !group_request_need_group(request) ||
      !read_offset(call, &offset) || !group_request_need_topic_text(request)) {
    return;
  }
  const char *problem = check_claim(request);
  if (problem) {
    group_request_fail_after_topic(request, problem);
  } else if (is_true(call, "validate_only")) {
    submit_validation(request, partition, offset);
  } else {
    add_entries(commit, &partition, &offset, 1);
    submit_commit(commit);
  }
}

/* ------------------------------------------------------------------ BATCH_COMMIT */

/* The list is looked at after the group, so a bad one costs a question too; good ones do not. */
struct batch_refusal {
  struct control_call control; /* first */
  struct call *call;
  const char *problem;
};

static void on_batch_refusal(struct control_call *control, const struct control_result *result) {
  struct batch_refusal *refusal = (struct batch_refusal *)control;
  /* Had the topic been refused, its code would be another than the placeholder's. */
  if (result->status == CONTROL_REFUSED &&
      slice_equals_text(slice_text(result->code), "invalid_batch_commit_entry")) {
    call_fail(refusal->call, "invalid_batch_commit_entry", FIELD_TEXT("reason", refusal->problem));
  } else {
    call_fail_coordination(refusal->call, result, "coordinator_error");
  }
}

static void refuse_batch(const struct group_request *request, const char *problem) {
  struct call *call = request->call;
  struct batch_refusal *refusal = arena_allocate_zeroed(&call->arena, sizeof *refusal);
  refusal->call = call;
  refusal->problem = problem;
  refusal->control.statement = CONTROL_CHECK_GROUP_TOPIC;
  refusal->control.is_read_only = true;
  refusal->control.deadline_us = call->deadline_us;
  refusal->control.on_done = on_batch_refusal;
  refusal->control.parameters[0] = db_bytes(slice_text(call->command->name));
  refusal->control.parameters[1] = db_bytes(request->group);
  refusal->control.parameters[2] = db_bytes(request->topic);
  refusal->control.parameters[3] = db_bytes(slice_text("invalid_batch_commit_entry"));
  control_submit(call->crs2->control, &refusal->control);
}

void handle_batch_commit(struct call *call) {
  struct commit *commit = create_commit(call);
  struct group_request *request = &commit->request;
  struct offset_list list;
  if (call_has_field(call, "reservation_action")) {
    call_fail_command(call, "internal_command_unauthorized");
    return;
  }
  if (request->topic.length == 0) {
    call_fail_command(call, "missing_topic");
    return;
  }
  if (!group_request_need_group(request)) return;
  const char *problem = check_claim(request);
  if (problem) {
    call_fail_command(call, problem);
    return;
  }
  if (!group_request_need_topic_text(request)) return;
  problem = offset_list_parse(call_field(call, "offsets"), &list);
  if (problem) {
    refuse_batch(request, problem);
    return;
  }
  add_entries(commit, list.partitions, list.offsets, list.count);
  commit->is_batch = true;
  submit_commit(commit);
}
