/* LIST, DESCRIBE, METADATA and LIST_OFFSETS: questions about topics (commands-1 2.5, 2.7 to 2.9).
 * Each asks PostgreSQL, so that the answer is never older than the question. */
#include <json-c/json.h>
#include <string.h>

#include "cluster/nodes.h"
#include "crs2/call.h"
#include "crs2/commands.h"
#include "crs2/crs2.h"
#include "crs2/fields.h"
#include "crs2/handlers.h"
#include "crs2/leaders.h"
#include "crs2/session.h"
#include "db/control.h"
#include "log/topics.h"

/* One question in flight. */
struct topic_query {
  struct control_call control; /* first */
  struct call *call;
  struct slice topic;
  void (*answer)(struct topic_query *query, const PGresult *rows);
};

static void on_query_done(struct control_call *control, const struct control_result *result) {
  struct topic_query *query = (struct topic_query *)control;
  if (result->status != CONTROL_OK) {
    call_fail_control(query->call, result);
  } else {
    query->answer(query, result->rows);
  }
}

static struct topic_query *create_query(struct call *call,
                                        void (*answer)(struct topic_query *, const PGresult *)) {
  struct topic_query *query = arena_allocate_zeroed(&call->arena, sizeof *query);
  query->call = call;
  query->answer = answer;
  query->control.is_read_only = true;
  query->control.deadline_us = call->deadline_us;
  query->control.on_done = on_query_done;
  return query;
}

static void fail_topic_not_found(struct call *call, struct slice topic) {
  call_fail(call, "topic_not_found", FIELD_SLICE("topic", topic));
}

/* Asks for a topic and its partitions (or the one named); a name that cannot exist is not looked
 * up. */
static void describe(struct call *call, const int32_t *partition,
                     void (*answer)(struct topic_query *, const PGresult *)) {
  struct topic_query *query = create_query(call, answer);
  query->topic = call_field(call, "topic");
  if (field_check_topic_name(query->topic) != NULL) {
    fail_topic_not_found(call, query->topic);
    return;
  }
  query->control.statement = CONTROL_DESCRIBE_TOPIC;
  query->control.parameters[0] = db_bytes(query->topic);
  query->control.parameters[1] =
      partition ? db_int4(&query->control.scalars[1], *partition) : db_null();
  control_submit(call->crs2->control, &query->control);
}

/* ------------------------------------------------------------------ LIST */

static const char *text_of(struct call *call, const PGresult *rows, int row, int column) {
  return arena_copy_text(&call->arena, db_get_bytes(rows, row, column));
}

static void answer_list(struct topic_query *query, const PGresult *rows) {
  struct call *call = query->call;
  const char *principal = session_principal(call->session);
  struct buffer names = {0};
  unsigned count = 0;
  for (int row = 0; row < PQntuples(rows); row++) {
    if (!topic_policy_allows(text_of(call, rows, row, TOPIC_LIST_AUTH_POLICY),
                             text_of(call, rows, row, TOPIC_LIST_READ_ACL), TOPIC_READ_ACCESS,
                             principal)) {
      continue;
    }
    if (count++) buffer_append_u8(&names, ',');
    buffer_append_slice(&names, db_get_bytes(rows, row, TOPIC_LIST_NAME));
  }
  call_reply_format(call, "OK count=%u topics=%.*s", count, (int)names.length,
                    names.length ? (const char *)names.data : "");
  buffer_release(&names);
}

void handle_list(struct call *call) {
  struct topic_query *query = create_query(call, answer_list);
  query->control.statement = CONTROL_LIST_TOPICS;
  control_submit(call->crs2->control, &query->control);
}

/* ------------------------------------------------------------------ DESCRIBE */

static void add_text(struct json_object *object, const char *name, const char *text) {
  json_object_object_add(object, name, json_object_new_string(text));
}

static void add_number(struct json_object *object, const char *name, int64_t number) {
  json_object_object_add(object, name, json_object_new_int64(number));
}

static void add_flag(struct json_object *object, const char *name, bool flag) {
  json_object_object_add(object, name, json_object_new_boolean(flag));
}

static struct json_object *list_of_csv(const char *csv) {
  struct json_object *list = json_object_new_array();
  for (const char *item = csv; *item;) {
    size_t length = strcspn(item, ",");
    json_object_array_add(list, json_object_new_string_len(item, (int)length));
    item += length;
    if (*item == ',') item++;
  }
  return list;
}

/* Keys that are zero, empty, unset or false are left out (commands-1 2.7). */
static struct json_object *policy_json(const struct topic *topic) {
  struct json_object *policy = json_object_new_object();
  if (topic->retention_hours) add_number(policy, "retention_hours", topic->retention_hours);
  if (topic->retention_bytes) add_number(policy, "retention_bytes", topic->retention_bytes);
  add_text(policy, "cleanup_policy", topic->cleanup_policy);
  add_text(policy, "partitioner", topic->partitioner);
  add_text(policy, "auth_policy", topic->auth_policy);
  if (*topic->read_acl) json_object_object_add(policy, "read_acl", list_of_csv(topic->read_acl));
  if (*topic->write_acl) json_object_object_add(policy, "write_acl", list_of_csv(topic->write_acl));
  if (topic->min_in_sync_replicas) {
    add_number(policy, "min_in_sync_replicas", topic->min_in_sync_replicas);
  }
  if (topic->aggregate_replay) add_flag(policy, "aggregate_replay", true);
  return policy;
}

static struct json_object *definition_json(const struct topic *topic) {
  struct json_object *definition = json_object_new_object();
  add_text(definition, "name", topic->name);
  add_number(definition, "revision", topic->revision);
  add_number(definition, "partitions", topic->partition_count);
  add_number(definition, "replication_factor", topic->replication_factor);
  add_flag(definition, "idempotent", topic->idempotent);
  add_flag(definition, "event_sourcing", topic->event_sourcing);
  json_object_object_add(definition, "policy", policy_json(topic));
  return definition;
}

/* Every registered node is a replica of every partition; those that are alive are in sync. A node
 * without distribution is alone. */
static struct json_object *nodes_json(const struct crs2 *crs2, bool only_alive) {
  struct json_object *list = json_object_new_array();
  size_t count = 0;
  const struct node_entry *nodes =
      crs2->config->enabled_distribution ? nodes_list(crs2->nodes, &count) : NULL;
  for (size_t i = 0; i < count; i++) {
    if (only_alive && !nodes[i].is_alive) continue;
    json_object_array_add(list, json_object_new_string(nodes[i].id));
  }
  if (count == 0) json_object_array_add(list, json_object_new_string(crs2->node_id));
  return list;
}

static const char *leader_address(const struct crs2 *crs2, const PGresult *rows, int row) {
  return leader_of_partition(crs2, db_get_bytes(rows, row, TOPIC_NAME),
                             db_get_int4(rows, row, TOPIC_PARTITION),
                             db_get_bytes(rows, row, TOPIC_PREFERRED_NODE))
      .address;
}

static struct json_object *partition_json(const struct crs2 *crs2, const PGresult *rows, int row) {
  int64_t end = db_get_int8(rows, row, TOPIC_END_OFFSET);
  struct json_object *partition = json_object_new_object();
  add_number(partition, "id", db_get_int4(rows, row, TOPIC_PARTITION));
  add_text(partition, "leader", leader_address(crs2, rows, row));
  json_object_object_add(partition, "replicas", nodes_json(crs2, false));
  json_object_object_add(partition, "isr", nodes_json(crs2, true));
  add_number(partition, "leo", end);
  add_number(partition, "hwm", end);
  return partition;
}

static void answer_describe(struct topic_query *query, const PGresult *rows) {
  struct call *call = query->call;
  if (PQntuples(rows) == 0) {
    fail_topic_not_found(call, query->topic);
    return;
  }
  struct topic *topic = topic_from_row(rows, 0);
  struct json_object *answer = json_object_new_object();
  add_text(answer, "status", "OK");
  add_text(answer, "topic", topic->name);
  json_object_object_add(answer, "definition", definition_json(topic));
  struct json_object *partitions = json_object_new_array();
  for (int row = 0; row < PQntuples(rows); row++) {
    json_object_array_add(partitions, partition_json(call->crs2, rows, row));
  }
  json_object_object_add(answer, "partitions", partitions);
  topic_release(topic);
  const char *text = json_object_to_json_string_ext(
      answer, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
  call_reply_bytes(call, slice_text(text));
  json_object_put(answer);
}

void handle_describe(struct call *call) {
  if (call_field(call, "topic").length == 0) {
    call_fail(call, "missing_topic", FIELD_TEXT("expected", "DESCRIBE topic=<name>"));
    return;
  }
  describe(call, NULL, answer_describe);
}

/* ------------------------------------------------------------------ METADATA */

static void append_csv(struct buffer *out, const PGresult *rows, const struct crs2 *crs2) {
  buffer_append_text(out, " leaders=");
  for (int row = 0; row < PQntuples(rows); row++) {
    buffer_append_format(out, "%s%s", row ? "," : "", leader_address(crs2, rows, row));
  }
  buffer_append_text(out, " epochs=");
  for (int row = 0; row < PQntuples(rows); row++) {
    int64_t epoch =
        crs2->config->enabled_distribution ? db_get_int8(rows, row, TOPIC_LEADER_EPOCH) : 0;
    buffer_append_format(out, "%s%lld", row ? "," : "", (long long)epoch);
  }
}

static const char *flag_text(bool flag) {
  return flag ? "true" : "false";
}

static void answer_metadata(struct topic_query *query, const PGresult *rows) {
  struct call *call = query->call;
  if (PQntuples(rows) == 0) {
    fail_topic_not_found(call, query->topic);
    return;
  }
  struct topic *topic = topic_from_row(rows, 0);
  struct buffer out = {0};
  buffer_append_format(&out, "OK topic=%s partitions=%d", topic->name, topic->partition_count);
  append_csv(&out, rows, call->crs2);
  buffer_append_format(
      &out,
      " revision=%lld replication_factor=%d idempotent=%s event_sourcing=%s cleanup_policy=%s "
      "partitioner=%s auth_policy=%s read_acl=%s write_acl=%s retention_hours=%lld "
      "retention_bytes=%lld lifecycle_epoch=%lld",
      (long long)topic->revision, topic->replication_factor, flag_text(topic->idempotent),
      flag_text(topic->event_sourcing), topic->cleanup_policy, topic->partitioner,
      topic->auth_policy, topic->read_acl, topic->write_acl, (long long)topic->retention_hours,
      (long long)topic->retention_bytes, (long long)topic->lifecycle_epoch);
  topic_release(topic);
  call_reply_bytes(call, buffer_slice(&out));
  buffer_release(&out);
}

void handle_metadata(struct call *call) {
  if (call_field(call, "topic").length == 0) {
    call_fail_command(call, "missing_topic");
    return;
  }
  describe(call, NULL, answer_metadata);
}

/* ------------------------------------------------------------------ LIST_OFFSETS */

/* Reads the `partition` field: true when it is absent, empty, or a number. */
static bool read_partition(struct call *call, bool *given, int64_t *partition) {
  struct slice text = call_field(call, "partition");
  *given = text.length > 0;
  return !*given || field_parse_int(text, partition);
}

static void append_offsets(struct buffer *out, const PGresult *rows) {
  for (int row = 0; row < PQntuples(rows); row++) {
    long long end = db_get_int8(rows, row, TOPIC_END_OFFSET);
    buffer_append_format(out, "%sP%d:earliest=%lld:latest=%lld:leo=%lld:hwm=%lld", row ? "," : "",
                         db_get_int4(rows, row, TOPIC_PARTITION),
                         (long long)db_get_int8(rows, row, TOPIC_EARLIEST_OFFSET), end, end, end);
  }
}

/* The checks stand in the order of commands-1 2.9: the topic and its policy come before the
 * partition. */
static void answer_list_offsets(struct topic_query *query, const PGresult *rows) {
  struct call *call = query->call;
  if (PQntuples(rows) == 0) {
    fail_topic_not_found(call, query->topic);
    return;
  }
  struct topic *topic = topic_from_row(rows, 0);
  bool allowed = topic_allows(topic, TOPIC_READ_ACCESS, session_principal(call->session));
  int32_t partition_count = topic->partition_count;
  topic_release(topic);
  bool given;
  int64_t partition = 0;
  if (!allowed) {
    call_fail(call, "NOT_AUTHORIZED_FOR_TOPIC", FIELD_TEXT("operation", "read"),
              FIELD_SLICE("topic", query->topic));
    return;
  }
  if (!read_partition(call, &given, &partition)) {
    call_fail_command(call, "invalid_partition");
    return;
  }
  if (given && (partition < 0 || partition >= partition_count)) {
    call_fail(call, "partition_not_found", FIELD_NUMBER(call, "partition", partition));
    return;
  }
  struct buffer out = {0};
  buffer_append_format(&out, "OK topic=%.*s partitions=%d offsets=", (int)query->topic.length,
                       (const char *)query->topic.data, PQntuples(rows));
  append_offsets(&out, rows);
  call_reply_bytes(call, buffer_slice(&out));
  buffer_release(&out);
}

void handle_list_offsets(struct call *call) {
  if (call_field(call, "topic").length == 0) {
    call_fail_command(call, "missing_topic");
    return;
  }
  bool given;
  int64_t partition = 0;
  bool one =
      read_partition(call, &given, &partition) && given && partition >= 0 && partition <= INT32_MAX;
  int32_t number = (int32_t)(one ? partition : 0);
  describe(call, one ? &number : NULL, answer_list_offsets);
}
