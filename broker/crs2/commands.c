/* The command table, and the checks that come before every handler (commands-1 1.2). */
#include "crs2/commands.h"

#include <string.h>

#include "base/memory.h"
#include "config/config.h"
#include "crs2/auth.h"
#include "crs2/call.h"
#include "crs2/handlers.h"

#define ADMIN CONFIG_PERMISSION_ADMIN
#define READ CONFIG_PERMISSION_TOPIC_READ
#define WRITE CONFIG_PERMISSION_TOPIC_WRITE
#define GROUP CONFIG_PERMISSION_GROUP
#define TRANSACTION CONFIG_PERMISSION_TRANSACTION

#define SERVED(name, permissions, handler, fields, summary)                                    \
  {                                                                                            \
    COMMAND_##name, #name, permissions, COMMAND_SERVED, true, handler, fields, summary, false, \
        false                                                                                  \
  }
#define OVERLAPPING(name, permissions, handler, fields, summary)                               \
  {                                                                                            \
    COMMAND_##name, #name, permissions, COMMAND_SERVED, true, handler, fields, summary, false, \
        true                                                                                   \
  }
#define UNLISTED(name, permissions, fields, summary) \
  { COMMAND_##name, #name, permissions, COMMAND_LATER, false, NULL, fields, summary, false, false }
#define INTERNAL(name)                                           \
  {                                                              \
    COMMAND_##name, #name, 0, COMMAND_INTERNAL, false, NULL, "", \
        "internal to the reference's brokers", false, false      \
  }

/* Listed rows stand in the order of HELP (commands-1 2.6). Required fields come first; the rest is
 * in brackets. */
static const struct command commands[] = {
    SERVED(CREATE, ADMIN, handle_create,
           "topic [partitions replication_factor idempotent event_sourcing aggregate_replay "
           "min_in_sync_replicas cleanup_policy retention_hours retention_bytes partitioner "
           "auth_policy read_acl write_acl]",
           "Creates a topic, or changes the fields that are given"),
    SERVED(DELETE, ADMIN, handle_delete, "topic [if_exists]", "Deletes a topic and its records"),
    SERVED(TRUNCATE, ADMIN, handle_truncate, "topic expected_revision",
           "Empties a topic and keeps its definition"),
    SERVED(LIST, READ, handle_list, "", "Names the topics that the connection may read"),
    SERVED(PUBLISH, WRITE, handle_publish,
           "topic producerId message [acks partition key seqNum epoch isIdempotent event_type "
           "schema_version aggregate_version metadata], or a batch",
           "Appends a record or a batch"),
    SERVED(
        CONSUME, READ | GROUP, handle_consume,
        "topic partition offset member [group isolation batch wait_ms autoOffsetReset generation]",
        "Reads records, waiting for some when asked to"),
    {COMMAND_STREAM, "STREAM", READ | GROUP, COMMAND_SERVED, true, handle_stream,
     "topic partition group [member offset isolation batch autoOffsetReset generation]",
     "Pushes records as they come; the connection carries nothing else from then on", true, false},
    SERVED(JOIN_GROUP, GROUP, handle_join_group, "group member [topic generation]",
           "Joins a consumer group"),
    SERVED(SYNC_GROUP, GROUP, handle_sync_group, "group member generation [topic]",
           "Fetches a member's assignment"),
    SERVED(LEAVE_GROUP, GROUP, handle_leave_group, "group member [topic generation]",
           "Leaves a consumer group"),
    SERVED(HEARTBEAT, GROUP, handle_heartbeat, "group member [topic generation]",
           "Keeps a member alive"),
    SERVED(COMMIT_OFFSET, GROUP, handle_commit_offset,
           "topic partition group offset member generation [registration_epoch validate_only "
           "ownership_only]",
           "Commits one offset"),
    SERVED(BATCH_COMMIT, GROUP, handle_batch_commit, "topic group member generation offsets",
           "Commits several offsets"),
    SERVED(FETCH_OFFSET, GROUP, handle_fetch_offset,
           "topic partition group [include_found include_epoch]", "Reads a committed offset"),
    SERVED(LIST_OFFSETS, READ, handle_list_offsets, "topic [partition]",
           "Tells the first and next offsets of partitions"),
    SERVED(INIT_PRODUCER_ID, TRANSACTION, handle_init_producer_id, "transactional_id",
           "Starts a producer session"),
    SERVED(BEGIN_TXN, TRANSACTION, handle_begin_txn, "transactional_id producerId epoch",
           "Begins a transaction"),
    OVERLAPPING(TXN_PUBLISH, TRANSACTION | WRITE, handle_txn_publish,
                "transactional_id topic producerId seqNum epoch message [partition key]",
                "Appends a record in a transaction"),
    SERVED(
        TXN_APPEND_STREAM, TRANSACTION | WRITE, handle_txn_append_stream,
        "transactional_id topic key expected_version producerId seqNum epoch message [event_type "
        "schema_version metadata]",
        "Appends an event in a transaction"),
    SERVED(SEND_OFFSETS_TO_TXN, TRANSACTION | GROUP, handle_send_offsets_to_txn,
           "transactional_id producerId epoch topic group member generation offsets",
           "Commits offsets with a transaction"),
    SERVED(END_TXN, TRANSACTION, handle_end_txn, "transactional_id producerId epoch result",
           "Commits or aborts a transaction"),
    SERVED(TXN_STATUS, TRANSACTION, handle_txn_status, "transactional_id",
           "Tells a transaction's state"),
    SERVED(REGISTER_GROUP, GROUP, handle_register_group, "group [topic topics pattern]",
           "Registers a consumer group"),
    SERVED(GROUP_STATUS, GROUP, handle_group_status, "group", "Describes a consumer group"),
    SERVED(LIST_GROUPS, GROUP, handle_list_groups, "", "Names the consumer groups"),
    SERVED(DESCRIBE, READ, handle_describe, "topic",
           "Describes a topic and its partitions as JSON"),
    SERVED(APPEND_STREAM, WRITE, handle_append_stream,
           "topic key version message [event_type schema_version metadata event_id producerId "
           "seqNum epoch]",
           "Appends an event to an aggregate"),
    SERVED(READ_STREAM, READ, handle_read_stream, "topic key [from_version max_events max_bytes]",
           "Reads an aggregate's events"),
    SERVED(SAVE_SNAPSHOT, WRITE, handle_save_snapshot, "topic key version message",
           "Stores an aggregate's snapshot"),
    SERVED(READ_SNAPSHOT, READ, handle_read_snapshot, "topic key", "Reads an aggregate's snapshot"),
    SERVED(STREAM_VERSION, READ, handle_stream_version, "topic key",
           "Tells an aggregate's version"),
    SERVED(METADATA, READ, handle_metadata, "topic",
           "Tells a topic's definition and where its partitions are served"),
    SERVED(FIND_COORDINATOR, GROUP, handle_find_coordinator, "group or transactional_id",
           "Names the coordinating node"),
    SERVED(LIST_CLUSTER, ADMIN, handle_list_cluster, "", "Lists the nodes"),
    SERVED(CLUSTER_STATUS, ADMIN, handle_cluster_status, "",
           "Describes the nodes and partitions as JSON"),
    SERVED(ELECT_LEADER, ADMIN, handle_elect_leader, "topic partition broker",
           "Moves a partition's preferred node"),
    {COMMAND_HELP, "HELP", 0, COMMAND_SERVED, true, handle_help, "", "Names the commands", false,
     false},
    {COMMAND_EXIT, "EXIT", 0, COMMAND_SERVED, true, handle_exit, "",
     "Answers OK and closes the connection", false, false},
    SERVED(ALTER_TOPIC_CONFIG, ADMIN, handle_alter_topic_config, "topic min_in_sync_replicas",
           "Changes a topic's minimum of in-sync replicas"),
    SERVED(AGGREGATE_REPLAY_PROOF, READ, handle_aggregate_replay_proof,
           "topic match_id [partition expected_last_sequence]",
           "Proves an aggregate's events complete"),
    SERVED(AGGREGATE_EVENT_RANGE_READ, READ, handle_aggregate_event_range_read,
           "topic match_id from_sequence to_sequence [max_records partition]",
           "Reads a range of an aggregate's events"),
    SERVED(READ_STREAM_HISTORY, READ, handle_read_stream_history,
           "topic key [from_version to_version max_records max_bytes]",
           "Reads an aggregate's history, without snapshots"),
    {COMMAND_AUTH, "AUTH", 0, COMMAND_SERVED, false, handle_auth, "principal token",
     "Authenticates the connection", false, false},
    UNLISTED(BROWSE_MESSAGES, READ, "", "Not part of this broker"),
    INTERNAL(REPLICATE_MESSAGE),
    INTERNAL(REPLICATE_SNAPSHOT),
    INTERNAL(LIST_SNAPSHOTS),
    INTERNAL(FETCH_SNAPSHOT),
    INTERNAL(CATCHUP_SNAPSHOTS),
    INTERNAL(RAFT_APPLY),
    INTERNAL(INTERNAL_BATCH),
    INTERNAL(JOIN_CLUSTER),
    INTERNAL(LEAVE_CLUSTER),
    INTERNAL(HEARTBEAT_CLUSTER),
    INTERNAL(REPLICA_CATCHUP),
};

#define ROWS (sizeof commands / sizeof *commands)

const struct command *command_table(size_t *count) {
  *count = ROWS;
  return commands;
}

const struct command *command_find(uint16_t id) {
  static const struct command *by_id[COMMAND_COUNT];
  static bool is_indexed;
  if (!is_indexed) {
    for (size_t i = 0; i < ROWS; i++) by_id[commands[i].id] = &commands[i];
    is_indexed = true;
  }
  return id < COMMAND_COUNT ? by_id[id] : NULL;
}

/* acks=0 asks for silence whatever becomes of the request (commands-1 4.3), so it is looked at
 * before anything else is. */
static void note_silence(struct call *call) {
  if (call->command->id != COMMAND_PUBLISH || call->is_refused_batch) return;
  struct slice acks = call->is_batch ? call->batch.acks : call_field(call, "acks");
  call->wants_no_answer = publish_acks_are_none(acks, call->is_batch);
}

static void run_handler(struct call *call) {
  if (call->command->availability == COMMAND_LATER) {
    call_fail_command(call, "unknown_command");
  } else {
    call->command->handle(call);
  }
}

void command_dispatch(struct call *call) {
  note_silence(call);
  if (call->command->availability == COMMAND_INTERNAL) {
    call_fail_command(call, "internal_command_unauthorized");
    return;
  }
  if (call->is_refused_batch) {
    call_fail(call, "batch_decode_failed", FIELD_TEXT("reason", call->refusal));
    return;
  }
  /* A batch has an order of its own here (commands-1 4.2). */
  if (call->is_batch && slice_equals_text(call->batch.topic, INTERNAL_TOPIC)) {
    call_fail(call, "internal_topic_write_forbidden", FIELD_SLICE("topic", call->batch.topic));
    return;
  }
  auth_check(call, run_handler);
}
