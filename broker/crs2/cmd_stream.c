/* STREAM: checks the request and finds where to begin (commands-1 3.3); what follows is stream.c's.
 * A refusal is one stream frame with status ERROR, and the connection stays usable. */
#include <stddef.h>

#include "crs2/call.h"
#include "crs2/crs2.h"
#include "crs2/fields.h"
#include "crs2/handlers.h"
#include "crs2/read_fields.h"
#include "crs2/session.h"
#include "crs2/stream.h"
#include "log/committed.h"
#include "log/topics.h"

struct stream_request {
  struct call *call;
  struct read_fields fields;
  struct slice topic_name;
  struct topic *topic; /* retained */
  struct topic_load load;
  struct committed_request committed;
};

static void release_topic(struct stream_request *request) {
  topic_release(request->topic);
  request->topic = NULL;
}

/* Check 7 comes last: a request that would be refused anyway does not hear about room. */
static void accept(struct stream_request *request, int64_t offset) {
  struct call *call = request->call;
  const struct stream_options options = {
      .topic = request->topic_name,
      .group = call_field(call, "group"),
      .log_id = request->topic->log_id,
      .partition = (int32_t)request->fields.partition,
      .offset = offset,
      .max_records = request->fields.max_records,
      .is_uncommitted = request->fields.is_uncommitted,
  };
  release_topic(request);
  if (stream_open_count(call->crs2) >= call->crs2->config->max_stream_connections) {
    call_fail(call, "command_failed", FIELD_TEXT("reason", "max_stream_connections is reached"));
  } else if (call->session == NULL) {
    call_fail_plain(call, "request_cancelled"); /* nobody is left to hear it */
  } else {
    stream_begin(call, &options);
  }
}

/* Where a group begins that has committed nothing. */
static int64_t uncommitted_start(const struct stream_request *request) {
  if (request->fields.has_offset) return request->fields.offset;
  struct slice reset = call_field(request->call, "autoOffsetReset");
  return field_equals_ignoring_case(reset, "latest") ? STREAM_FROM_LATEST : 0;
}

static void fail_start(struct stream_request *request, enum committed_status status,
                       const char *reason) {
  struct call *call = request->call;
  release_topic(request);
  if (status == COMMITTED_TIMED_OUT) {
    call_fail(call, "request_timeout", FIELD_TEXT("outcome", "not_accepted"));
  } else if (status == COMMITTED_FAILED) {
    call_fail(call, "command_failed", FIELD_TEXT("reason", reason));
  } else {
    call_fail(call, "coordinator_not_available", FIELD_TEXT("reason", reason));
  }
}

static void on_committed_known(struct committed_request *committed, enum committed_status status,
                               int64_t next_offset, const char *reason) {
  struct stream_request *request =
      (struct stream_request *)((char *)committed - offsetof(struct stream_request, committed));
  if (status != COMMITTED_OK) {
    fail_start(request, status, reason);
  } else {
    accept(request, next_offset < 0 ? uncommitted_start(request) : next_offset);
  }
}

/* The start offset (commands-1 3.3): the committed one goes before the one in the request. */
static void find_start(struct stream_request *request) {
  struct call *call = request->call;
  request->committed = (struct committed_request){.group = call_field(call, "group"),
                                                  .log_id = request->topic->log_id,
                                                  .partition = (int32_t)request->fields.partition,
                                                  .deadline_us = call->deadline_us,
                                                  .on_done = on_committed_known};
  committed_submit(call->crs2->committed, &request->committed);
}

static bool allows(const struct stream_request *request, const struct topic *topic) {
  return topic_allows(topic, TOPIC_READ_ACCESS, session_principal(request->call->session));
}

static bool has_partition(const struct stream_request *request, const struct topic *topic) {
  return request->fields.partition >= 0 && request->fields.partition < topic->partition_count;
}

static void check_topic(struct stream_request *request) {
  struct call *call = request->call;
  int64_t partition = request->fields.partition;
  if (!has_partition(request, request->topic)) {
    release_topic(request);
    call_fail(call, "partition_not_found", FIELD_NUMBER(call, "partition", partition));
  } else if (!allows(request, request->topic)) {
    release_topic(request);
    call_fail(call, "NOT_AUTHORIZED_FOR_TOPIC", FIELD_TEXT("operation", "read"),
              FIELD_SLICE("topic", request->topic_name));
  } else {
    find_start(request);
  }
}

static void fail_not_found(struct stream_request *request) {
  call_fail(request->call, "topic_not_found", FIELD_SLICE("topic", request->topic_name));
}

static void on_topic_loaded(struct topic_load *load, enum control_status status,
                            struct topic *topic, const char *reason) {
  struct stream_request *request =
      (struct stream_request *)((char *)load - offsetof(struct stream_request, load));
  if (status != CONTROL_OK) {
    call_fail_control_status(request->call, status, reason);
  } else if (topic == NULL) {
    fail_not_found(request);
  } else {
    request->topic = topic_retain(topic);
    check_topic(request);
  }
}

static void find_topic(struct stream_request *request) {
  struct crs2 *crs2 = request->call->crs2;
  if (field_check_topic_name(request->topic_name) != NULL) {
    fail_not_found(request);
    return;
  }
  /* A refusal must not rest on a cached definition: another node may just have changed it. */
  struct topic *topic = topics_find(crs2->topics, request->topic_name);
  if (topic && has_partition(request, topic) && allows(request, topic)) {
    request->topic = topic_retain(topic);
    check_topic(request);
    return;
  }
  request->load.on_done = on_topic_loaded;
  request->load.call.deadline_us = request->call->deadline_us;
  topics_load(crs2->topics, &request->load, request->topic_name);
}

static bool check_presence(struct call *call) {
  struct slice group = call_field(call, "group"), member = call_field(call, "member");
  if (call_field(call, "topic").length == 0 || call_field(call, "partition").length == 0 ||
      group.length == 0) {
    call_fail_plain(call, "invalid_stream_syntax");
    return false;
  }
  if (!field_is_identifier(group)) {
    call_fail_command(call, "invalid_group");
    return false;
  }
  if (member.length && !field_is_identifier(member)) {
    call_fail_command(call, "invalid_member");
    return false;
  }
  return true;
}

void handle_stream(struct call *call) {
  struct stream_request *request = arena_allocate_zeroed(&call->arena, sizeof *request);
  request->call = call;
  call->state = request;
  if (!check_presence(call) || !read_fields_parse(call, &request->fields)) return;
  request->topic_name = call_field(call, "topic");
  find_topic(request);
}
