/* CLUSTER_STATUS, LIST_CLUSTER, ELECT_LEADER and FIND_COORDINATOR (commands-1 2.10, 2.11). The
 * nodes of the answers are read from PostgreSQL each time: a node that was killed shows at once. */
#include <json-c/json.h>
#include <string.h>
#include <time.h>

#include "cluster/nodes.h"
#include "cluster/placement.h"
#include "crs2/call.h"
#include "crs2/commands.h"
#include "crs2/crs2.h"
#include "crs2/fields.h"
#include "crs2/handlers.h"
#include "crs2/leaders.h"
#include "db/control.h"

/* A question, and what its earlier parts have answered. */
struct cluster_query {
  struct control_call control; /* first */
  struct call *call;
  void (*answer)(struct cluster_query *query, const PGresult *rows);
  struct node_entry *nodes; /* freed with the call */
  size_t node_count;
  int64_t wal_position;
  const char *leader; /* id of the node that keeps house; NULL: none is known */
  /* ELECT_LEADER */
  struct slice topic, broker;
  int64_t partition;
};

static void on_free(struct call *call) {
  struct cluster_query *query = call->state;
  node_entries_free(query->nodes, query->node_count);
}

static void on_query_done(struct control_call *control, const struct control_result *result) {
  struct cluster_query *query = (struct cluster_query *)control;
  if (result->status == CONTROL_OK) {
    query->answer(query, result->rows);
  } else if (result->status == CONTROL_UNAVAILABLE) {
    call_fail_command(query->call, "fsm_not_available");
  } else {
    call_fail_control(query->call, result);
  }
}

static struct cluster_query *create_query(struct call *call) {
  struct cluster_query *query = arena_allocate_zeroed(&call->arena, sizeof *query);
  query->call = call;
  query->control.deadline_us = call->deadline_us;
  query->control.on_done = on_query_done;
  call->state = query;
  call->on_free = on_free;
  return query;
}

static void ask(struct cluster_query *query, enum control_statement statement, bool is_read_only,
                void (*answer)(struct cluster_query *, const PGresult *)) {
  query->answer = answer;
  query->control.statement = statement;
  query->control.is_read_only = is_read_only;
  control_submit(query->call->crs2->control, &query->control);
}

static bool refuse_standalone(struct call *call) {
  if (call->crs2->config->enabled_distribution) return false;
  call_fail_command(call, "distribution_required");
  return true;
}

/* ------------------------------------------------------------------ JSON */

static void add_text(struct json_object *object, const char *name, const char *text) {
  json_object_object_add(object, name, json_object_new_string(text));
}

static void add_number(struct json_object *object, const char *name, int64_t number) {
  json_object_object_add(object, name, json_object_new_int64(number));
}

static void reply_json(struct call *call, const char *name, struct json_object *value) {
  const char *text = json_object_to_json_string_ext(
      value, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
  struct buffer out = {0};
  buffer_append_format(&out, "OK %s=", name);
  buffer_append_text(&out, text);
  json_object_put(value);
  call_reply_bytes(call, buffer_slice(&out));
  buffer_release(&out);
}

static const char *status_of(const struct node_entry *node) {
  return node->is_alive ? "active" : "inactive";
}

/* ------------------------------------------------------------------ LIST_CLUSTER */

static struct json_object *utc_json(int64_t microseconds) {
  char text[40];
  time_t seconds = (time_t)(microseconds / 1000000);
  struct tm parts;
  gmtime_r(&seconds, &parts);
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return json_object_new_string(text);
}

static void answer_list(struct cluster_query *query, const PGresult *rows) {
  query->nodes = node_entries_read(rows, &query->node_count);
  struct json_object *list = json_object_new_array();
  for (size_t i = 0; i < query->node_count; i++) {
    const struct node_entry *node = &query->nodes[i];
    struct json_object *item = json_object_new_object();
    add_text(item, "id", node->id);
    add_text(item, "addr", node->address);
    add_text(item, "client_addr", node->address);
    add_text(item, "status", status_of(node));
    json_object_object_add(item, "last_seen", utc_json(node->last_seen));
    json_object_array_add(list, item);
  }
  reply_json(query->call, "brokers", list);
}

void handle_list_cluster(struct call *call) {
  if (!call->crs2->config->enabled_distribution) {
    call_fail_plain(call, "distribution_not_enabled");
    return;
  }
  ask(create_query(call), CONTROL_REGISTERED_NODES, true, answer_list);
}

/* ------------------------------------------------------------------ CLUSTER_STATUS */

static struct json_object *broker_json(const struct node_entry *node) {
  struct json_object *item = json_object_new_object();
  add_text(item, "id", node->id);
  add_text(item, "status", status_of(node));
  add_text(item, "addr", node->address);
  add_text(item, "client_addr", node->address);
  return item;
}

/* Every registered node is a replica of every partition; those that are alive are in sync. */
static struct json_object *ids_json(const struct cluster_query *query, bool only_alive) {
  struct json_object *list = json_object_new_array();
  for (size_t i = 0; i < query->node_count; i++) {
    if (only_alive && !query->nodes[i].is_alive) continue;
    json_object_array_add(list, json_object_new_string(query->nodes[i].id));
  }
  return list;
}

static size_t count_alive(const struct cluster_query *query) {
  size_t alive = 0;
  for (size_t i = 0; i < query->node_count; i++) alive += query->nodes[i].is_alive;
  return alive;
}

static struct json_object *partition_json(struct cluster_query *query, const PGresult *rows,
                                          int row) {
  struct arena *arena = &query->call->arena;
  struct slice topic = db_get_bytes(rows, row, CLUSTER_PARTITION_TOPIC);
  int32_t partition = db_get_int4(rows, row, CLUSTER_PARTITION_NUMBER);
  const struct node_entry *leader =
      placement_leader(query->nodes, query->node_count, topic, partition,
                       db_get_bytes(rows, row, CLUSTER_PARTITION_PREFERRED_NODE));
  const char *name = arena_copy_text(arena, topic);
  struct json_object *item = json_object_new_object();
  add_text(item, "key", arena_format(arena, "%s-%d", name, partition));
  add_text(item, "topic", name);
  add_number(item, "partition", partition);
  add_text(item, "leader", leader ? leader->id : "");
  add_number(item, "leader_epoch", db_get_int8(rows, row, CLUSTER_PARTITION_LEADER_EPOCH));
  json_object_object_add(item, "replicas", ids_json(query, false));
  json_object_object_add(item, "isr", ids_json(query, true));
  add_number(item, "committed_hwm", db_get_int8(rows, row, CLUSTER_PARTITION_END_OFFSET));
  json_object_object_add(item, "leader_available", json_object_new_boolean(leader != NULL));
  json_object_object_add(item, "under_replicated",
                         json_object_new_boolean(count_alive(query) < query->node_count));
  return item;
}

/* The node that keeps house is what comes closest to a leader of the whole. */
static void add_raft(struct json_object *status, const struct cluster_query *query) {
  const struct crs2 *crs2 = query->call->crs2;
  const struct node_entry *leader =
      query->leader ? placement_find(query->nodes, query->node_count, slice_text(query->leader))
                    : NULL;
  bool is_self = query->leader && strcmp(query->leader, crs2->node_id) == 0;
  add_text(status, "raft_leader", leader ? leader->address : "");
  add_text(status, "raft_state", is_self ? "Leader" : "Follower");
  add_number(status, "raft_applied_index", query->wal_position);
  add_number(status, "raft_commit_index", query->wal_position);
  add_number(status, "raft_last_log_index", query->wal_position);
  add_number(status, "raft_last_snapshot_index", 0);
  add_number(status, "raft_last_snapshot_term", 0);
}

static void answer_status(struct cluster_query *query, const PGresult *rows) {
  int partitions = PQntuples(rows);
  size_t alive = count_alive(query);
  struct json_object *status = json_object_new_object();
  add_raft(status, query);
  add_number(status, "broker_count", (int64_t)query->node_count);
  add_number(status, "active_brokers", (int64_t)alive);
  add_number(status, "inactive_brokers", (int64_t)(query->node_count - alive));
  add_number(status, "partition_count", partitions);
  add_number(status, "leaderless_partitions", alive ? 0 : partitions);
  add_number(status, "under_replicated_partitions", alive < query->node_count ? partitions : 0);
  struct json_object *brokers = json_object_new_array();
  for (size_t i = 0; i < query->node_count; i++) {
    json_object_array_add(brokers, broker_json(&query->nodes[i]));
  }
  json_object_object_add(status, "brokers", brokers);
  struct json_object *list = json_object_new_array();
  for (int row = 0; row < partitions; row++) {
    json_object_array_add(list, partition_json(query, rows, row));
  }
  json_object_object_add(status, "partitions", list);
  reply_json(query->call, "cluster", status);
}

static void status_nodes_read(struct cluster_query *query, const PGresult *rows) {
  query->nodes = node_entries_read(rows, &query->node_count);
  ask(query, CONTROL_CLUSTER_PARTITIONS, true, answer_status);
}

static void status_state_read(struct cluster_query *query, const PGresult *rows) {
  query->wal_position = db_get_int8(rows, 0, 0);
  if (!db_is_null(rows, 0, 1)) {
    query->leader = arena_copy_text(&query->call->arena, db_get_bytes(rows, 0, 1));
  }
  ask(query, CONTROL_REGISTERED_NODES, true, status_nodes_read);
}

void handle_cluster_status(struct call *call) {
  if (refuse_standalone(call)) return;
  ask(create_query(call), CONTROL_CLUSTER_STATE, true, status_state_read);
}

/* ------------------------------------------------------------------ ELECT_LEADER */

static void fail_no_partition(struct cluster_query *query) {
  struct call *call = query->call;
  call_fail(call, "partition_not_found", FIELD_SLICE("topic", query->topic),
            FIELD_NUMBER(call, "partition", query->partition));
}

static void answer_election(struct cluster_query *query, const PGresult *rows) {
  struct call *call = query->call;
  if (PQntuples(rows) != 1) {
    call_fail(call, "leader_election_result_unavailable", FIELD_SLICE("topic", query->topic),
              FIELD_NUMBER(call, "partition", query->partition));
    return;
  }
  call_reply_format(call,
                    "OK topic=%s partition=%lld previous_leader=%s leader=%s leader_epoch=%lld "
                    "changed=%s",
                    arena_copy_text(&call->arena, query->topic), (long long)query->partition,
                    arena_copy_text(&call->arena, db_get_bytes(rows, 0, 0)),
                    arena_copy_text(&call->arena, db_get_bytes(rows, 0, 1)),
                    (long long)db_get_int8(rows, 0, 2), db_get_bool(rows, 0, 3) ? "true" : "false");
}

/* The epoch that was read is compared when it is set: of two elections at once one is refused. */
static void election_partition_read(struct cluster_query *query, const PGresult *rows) {
  if (PQntuples(rows) == 0 || db_is_null(rows, 0, TOPIC_PARTITION)) {
    fail_no_partition(query);
    return;
  }
  const struct node_entry *leader =
      placement_leader(query->nodes, query->node_count, query->topic, (int32_t)query->partition,
                       db_get_bytes(rows, 0, TOPIC_PREFERRED_NODE));
  struct control_call *control = &query->control;
  control->parameters[0] = db_bytes(query->topic);
  control->parameters[1] = db_int4(&control->scalars[1], (int32_t)query->partition);
  control->parameters[2] = db_bytes(query->broker);
  control->parameters[3] = leader ? db_bytes(slice_text(leader->id)) : db_null();
  control->parameters[4] = db_int8(&control->scalars[4], db_get_int8(rows, 0, TOPIC_LEADER_EPOCH));
  ask(query, CONTROL_ELECT_LEADER, false, answer_election);
}

static void election_nodes_read(struct cluster_query *query, const PGresult *rows) {
  query->nodes = node_entries_read(rows, &query->node_count);
  struct control_call *control = &query->control;
  control->parameters[0] = db_bytes(query->topic);
  control->parameters[1] = db_int4(&control->scalars[1], (int32_t)query->partition);
  ask(query, CONTROL_DESCRIBE_TOPIC, true, election_partition_read);
}

static struct slice trimmed(struct slice text) {
  while (text.length && (text.data[0] == ' ' || text.data[0] == '\t')) {
    text = slice_of(text.data + 1, text.length - 1);
  }
  while (text.length && (text.data[text.length - 1] == ' ' || text.data[text.length - 1] == '\t')) {
    text.length--;
  }
  return text;
}

void handle_elect_leader(struct call *call) {
  if (refuse_standalone(call)) return;
  struct cluster_query *query = create_query(call);
  query->topic = trimmed(call_field(call, "topic"));
  query->broker = trimmed(call_field(call, "broker"));
  if (query->topic.length == 0) {
    call_fail_command(call, "missing_topic");
  } else if (!field_parse_int(call_field(call, "partition"), &query->partition) ||
             query->partition < 0) {
    call_fail_command(call, "invalid_partition");
  } else if (query->broker.length == 0) {
    call_fail_command(call, "missing_broker");
  } else if (field_check_topic_name(query->topic) != NULL || query->partition > INT32_MAX) {
    fail_no_partition(query);
  } else if (!field_is_text(query->broker)) {
    call_fail(call, "leader_election_rejected", FIELD_SLICE("topic", query->topic),
              FIELD_NUMBER(call, "partition", query->partition),
              FIELD_SLICE("broker", query->broker),
              FIELD_TEXT("reason", "no such broker is registered"));
  } else {
    ask(query, CONTROL_REGISTERED_NODES, true, election_nodes_read);
  }
}

/* ------------------------------------------------------------------ FIND_COORDINATOR */

/* Every node serves every group and transaction; naming one for each spreads clients over the
 * nodes. */
void handle_find_coordinator(struct call *call) {
  static const char *const names[] = {"group", "transactional_id", "txn", "transaction"};
  struct slice key = {0};
  for (size_t i = 0; i < sizeof names / sizeof *names && key.length == 0; i++) {
    key = call_field(call, names[i]);
  }
  if (key.length == 0) {
    call_fail_command(call, "missing_coordinator_key");
    return;
  }
  struct leader coordinator = coordinator_of(call->crs2, key);
  const char *colon = strrchr(coordinator.address, ':');
  size_t host = colon ? (size_t)(colon - coordinator.address) : strlen(coordinator.address);
  call_reply_format(call, "OK coordinator_id=%s host=%.*s port=%s", coordinator.id, (int)host,
                    coordinator.address, colon ? colon + 1 : "");
}
