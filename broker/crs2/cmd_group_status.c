/* GROUP_STATUS and LIST_GROUPS (commands-2 2.11, 2.12): questions about groups, answered from one
 * snapshot. */
#include <json-c/json.h>
#include <string.h>

#include "crs2/call.h"
#include "crs2/group_request.h"
#include "crs2/handlers.h"

#define NEVER "0001-01-01T00:00:00Z"

static struct json_object *json_text(const PGresult *rows, int row, int column) {
  struct slice text = db_get_bytes(rows, row, column);
  return json_object_new_string_len(text.length ? (const char *)text.data : "", (int)text.length);
}

static void add_column(struct json_object *object, const char *name, const PGresult *rows, int row,
                       int column) {
  json_object_object_add(object, name, json_text(rows, row, column));
}

static void add_number(struct json_object *object, const char *name, int64_t number) {
  json_object_object_add(object, name, json_object_new_int64(number));
}

static bool is_selector(const PGresult *rows, const char *selector) {
  return slice_equals_text(db_get_bytes(rows, 0, GROUP_SELECTOR), selector);
}

static struct json_object *topics_json(struct slice csv) {
  struct json_object *topics = json_object_new_array();
  const char *text = (const char *)csv.data;
  for (size_t start = 0; start < csv.length;) {
    const char *comma = memchr(text + start, ',', csv.length - start);
    size_t end = comma ? (size_t)(comma - text) : csv.length;
    json_object_array_add(topics, json_object_new_string_len(text + start, (int)(end - start)));
    start = end + 1;
  }
  return topics;
}

/* topic_name is the pattern, the only topic, or nothing when there are several. */
static void add_topics(struct json_object *answer, const PGresult *rows) {
  struct slice topics = db_get_bytes(rows, 0, GROUP_TOPICS);
  bool is_single = is_selector(rows, "topic"), is_pattern = is_selector(rows, "pattern");
  bool has_one = topics.length == 0 || memchr(topics.data, ',', topics.length) == NULL;
  if (is_pattern) {
    add_column(answer, "topic_name", rows, 0, GROUP_SELECTOR_TEXT);
  } else if (has_one) {
    add_column(answer, "topic_name", rows, 0, GROUP_TOPICS);
  } else {
    json_object_object_add(answer, "topic_name", json_object_new_string(""));
  }
  if (!is_single) json_object_object_add(answer, "topics", topics_json(topics));
  if (is_pattern) add_column(answer, "topic_pattern", rows, 0, GROUP_SELECTOR_TEXT);
}

static bool is_same_member(const PGresult *rows, int row, int first) {
  return slice_equals(db_get_bytes(rows, row, GROUP_MEMBER),
                      db_get_bytes(rows, first, GROUP_MEMBER));
}

/* The member whose rows begin at `*row`, which is moved past them. */
static struct json_object *member_json(const PGresult *rows, int *row, bool is_single) {
  struct json_object *member = json_object_new_object();
  struct json_object *numbers = json_object_new_array(), *pairs = json_object_new_array();
  int first = *row;
  for (; *row < PQntuples(rows) && is_same_member(rows, *row, first); ++*row) {
    if (db_is_null(rows, *row, GROUP_PARTITION)) continue;
    struct json_object *partition = json_object_new_int(db_get_int4(rows, *row, GROUP_PARTITION));
    if (is_single) {
      json_object_array_add(numbers, partition);
      continue;
    }
    struct json_object *pair = json_object_new_object();
    add_column(pair, "topic", rows, *row, GROUP_TOPIC);
    json_object_object_add(pair, "partition", partition);
    json_object_array_add(pairs, pair);
  }
  add_column(member, "member_id", rows, first, GROUP_MEMBER);
  add_column(member, "last_heartbeat", rows, first, GROUP_LAST_HEARTBEAT);
  json_object_object_add(member, "assignments", numbers);
  if (json_object_array_length(pairs) > 0) {
    json_object_object_add(member, "topic_assignments", pairs);
  } else {
    json_object_put(pairs);
  }
  return member;
}

static struct json_object *members_json(const PGresult *rows) {
  struct json_object *members = json_object_new_array();
  bool is_single = is_selector(rows, "topic");
  for (int row = 0; row < PQntuples(rows) && !db_is_null(rows, row, GROUP_MEMBER);) {
    json_object_array_add(members, member_json(rows, &row, is_single));
  }
  return members;
}

static void answer_status(struct group_request *request, const PGresult *rows) {
  struct call *call = request->call;
  struct json_object *answer = json_object_new_object();
  int64_t member_count = db_get_int8(rows, 0, GROUP_MEMBER_COUNT);
  json_object_object_add(answer, "status", json_object_new_string("OK"));
  json_object_object_add(
      answer, "group_name",
      json_object_new_string_len((const char *)request->group.data, (int)request->group.length));
  add_topics(answer, rows);
  json_object_object_add(answer, "state", json_object_new_string(member_count ? "Stable" : "Dead"));
  add_number(answer, "generation", db_get_int8(rows, 0, GROUP_GENERATION));
  add_number(answer, "member_count", member_count);
  add_number(answer, "partition_count", db_get_int8(rows, 0, GROUP_PARTITION_COUNT));
  json_object_object_add(answer, "members", members_json(rows));
  if (db_is_null(rows, 0, GROUP_LAST_REBALANCE)) {
    json_object_object_add(answer, "last_rebalance", json_object_new_string(NEVER));
  } else {
    add_column(answer, "last_rebalance", rows, 0, GROUP_LAST_REBALANCE);
  }
  const char *text = json_object_to_json_string_ext(
      answer, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
  call_reply_bytes(call, slice_text(text));
  json_object_put(answer);
}

void handle_group_status(struct call *call) {
  struct group_request *request = group_request_create(call, answer_status);
  if (!group_request_need_group(request)) return;
  request->failed_code = "group_status_failed";
  request->control.is_read_only = true;
  request->control.parameters[0] = db_bytes(request->group);
  group_request_submit(request, CONTROL_GROUP_STATUS);
}

static void answer_list(struct group_request *request, const PGresult *rows) {
  struct buffer out = {0};
  buffer_append_format(&out, "OK count=%d groups=", PQntuples(rows));
  for (int row = 0; row < PQntuples(rows); row++) {
    if (row) buffer_append_u8(&out, ',');
    buffer_append_slice(&out, db_get_bytes(rows, row, 0));
  }
  call_reply_bytes(request->call, buffer_slice(&out));
  buffer_release(&out);
}

void handle_list_groups(struct call *call) {
  struct group_request *request = group_request_create(call, answer_list);
  request->control.is_read_only = true;
  group_request_submit(request, CONTROL_LIST_GROUPS);
}
