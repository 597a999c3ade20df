/* The table of control-plane statements. Data only. */
#include "db/control_statements.h"

#include "db/values.h"

#define TOPIC_COLUMNS                                                                          \
  "topic, log_id, partition_count, replication_factor, idempotent, event_sourcing, "           \
  "aggregate_replay, min_in_sync_replicas, cleanup_policy, retention_hours, retention_bytes, " \
  "partitioner, auth_policy, read_acl, write_acl, revision, lifecycle_epoch"

static const Oid create_topic_types[] = {
    DB_TEXT, DB_INT4, DB_INT4, DB_BOOL, DB_BOOL, DB_BOOL,       DB_INT8,
    DB_TEXT, DB_INT8, DB_INT8, DB_TEXT, DB_TEXT, DB_TEXT_ARRAY, DB_TEXT_ARRAY,
    DB_INT4, DB_TEXT, DB_INT8, DB_INT8, DB_INT8,
};
static const Oid text_type[] = {DB_TEXT};
static const Oid delete_types[] = {DB_TEXT, DB_BOOL};
static const Oid alter_types[] = {DB_TEXT, DB_INT8};
static const Oid truncate_types[] = {DB_TEXT, DB_TEXT};
static const Oid register_group_types[] = {DB_TEXT, DB_TEXT, DB_TEXT};
static const Oid register_configured_types[] = {DB_TEXT, DB_TEXT_ARRAY, DB_INT4_ARRAY};
static const Oid join_group_types[] = {DB_TEXT, DB_TEXT, DB_TEXT, DB_INT8};
static const Oid sync_group_types[] = {DB_TEXT, DB_TEXT, DB_TEXT, DB_TEXT, DB_INT8};
static const Oid leave_group_types[] = {DB_TEXT, DB_TEXT, DB_TEXT, DB_INT8};
static const Oid check_group_topic_types[] = {DB_TEXT, DB_TEXT, DB_TEXT, DB_TEXT};
static const Oid fetch_offset_types[] = {DB_TEXT, DB_TEXT, DB_INT4};
static const Oid validate_commit_types[] = {DB_TEXT, DB_TEXT, DB_TEXT, DB_INT8,
                                            DB_INT8, DB_INT4, DB_INT8};
static const Oid describe_types[] = {DB_TEXT, DB_INT4};

#define ASSIGNMENT_COLUMNS "group_id, generation, member_id, is_subscription, topic, partition"
static const Oid elect_leader_types[] = {DB_TEXT, DB_INT4, DB_TEXT, DB_TEXT, DB_INT8};

#define TRANSACTION_COLUMNS                                                                     \
  "refusal, refusal_fields, more, producer_id, producer_epoch, state, messages, participants, " \
  "offsets, log_ids, partitions, end_offsets"

static const Oid init_producer_types[] = {DB_TEXT, DB_INT8, DB_INT4};
static const Oid begin_transaction_types[] = {DB_TEXT, DB_TEXT, DB_INT8, DB_INT8};
static const Oid stage_offsets_types[] = {DB_TEXT,       DB_TEXT, DB_INT8, DB_TEXT,
                                          DB_TEXT,       DB_TEXT, DB_INT8, DB_INT4_ARRAY,
                                          DB_INT8_ARRAY, DB_TEXT, DB_INT8, DB_INT4};
static const Oid end_transaction_types[] = {DB_TEXT, DB_TEXT, DB_INT8, DB_BOOL, DB_TEXT, DB_INT4};
static const Oid transaction_status_types[] = {DB_TEXT, DB_INT4};
static const Oid list_transactions_types[] = {DB_INT8};
static const Oid lock_changes_types[] = {DB_TEXT_ARRAY, DB_TEXT_ARRAY, DB_TEXT_ARRAY};

#define PROOF_COLUMNS                                                            \
  "earliest_sequence, latest_sequence, first_offset, last_offset, event_count, " \
  "first_event_id, last_event_id, is_complete, proof_hwm, status, diagnostic"

static const Oid read_stream_types[] = {DB_INT8, DB_BYTEA, DB_INT8, DB_INT8,
                                        DB_BOOL, DB_INT8,  DB_INT8, DB_INT4};
static const Oid stream_types[] = {DB_INT8, DB_BYTEA};
static const Oid save_snapshot_types[] = {DB_INT8, DB_BYTEA, DB_INT8, DB_BYTEA};
static const Oid proof_types[] = {DB_INT8, DB_INT4, DB_BYTEA, DB_INT8};
static const Oid range_types[] = {DB_INT8, DB_INT4, DB_BYTEA, DB_INT8, DB_INT8, DB_INT8, DB_INT8};

#define COUNT(array) (sizeof(array) / sizeof *(array))

const struct db_statement control_statements[CONTROL_STATEMENT_COUNT] = {
    [CONTROL_CREATE_TOPIC] = {"create_topic",
                              "SELECT " TOPIC_COLUMNS
                              " FROM pgcursus.create_topic($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,"
                              "$13,$14,$15,$16,$17,$18,$19)",
                              COUNT(create_topic_types), create_topic_types},
    [CONTROL_TOPIC_DEFINITION] = {"topic_definition",
                                  "SELECT " TOPIC_COLUMNS " FROM pgcursus.topic_definition($1)",
                                  COUNT(text_type), text_type},
    [CONTROL_DESCRIBE_TOPIC] =
        {"describe_topic",
         "SELECT " TOPIC_COLUMNS
         ", partition, leader_epoch, earliest_offset, end_offset, preferred_node"
         " FROM pgcursus.describe_topic($1,$2)",
         COUNT(describe_types), describe_types},
    [CONTROL_LOGIN_USERS] = {"login_users",
                             "SELECT principal, permissions, salt, iterations, hash"
                             " FROM pgcursus.login_users()",
                             0, NULL},
    [CONTROL_LIST_TOPICS] =
        {"list_topics",
         "SELECT topic, auth_policy, read_acl, log_id, partition_count, revision"
         " FROM pgcursus.list_topics()",
         0, NULL},
    [CONTROL_ALTER_TOPIC] = {"alter_topic",
                             "SELECT " TOPIC_COLUMNS " FROM pgcursus.alter_topic($1,$2)",
                             COUNT(alter_types), alter_types},
    [CONTROL_DELETE_TOPIC] = {"delete_topic", "SELECT pgcursus.delete_topic($1,$2)",
                              COUNT(delete_types), delete_types},
    [CONTROL_TRUNCATE_TOPIC] = {"truncate_topic",
                                "SELECT " TOPIC_COLUMNS
                                " FROM pgcursus.truncate_topic($1,$2::numeric)",
                                COUNT(truncate_types), truncate_types},
    [CONTROL_INIT_PRODUCER_ID] = {"init_producer_id",
                                  "SELECT " TRANSACTION_COLUMNS
                                  " FROM pgcursus.init_producer_id($1,$2,$3)",
                                  COUNT(init_producer_types), init_producer_types},
    [CONTROL_BEGIN_TRANSACTION] = {"begin_transaction",
                                   "SELECT " TRANSACTION_COLUMNS
                                   " FROM pgcursus.begin_transaction($1,$2,$3,$4)",
                                   COUNT(begin_transaction_types), begin_transaction_types},
    [CONTROL_STAGE_OFFSETS] =
        {"stage_offsets",
         "SELECT " TRANSACTION_COLUMNS
         " FROM pgcursus.stage_offsets($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12)",
         COUNT(stage_offsets_types), stage_offsets_types},
    [CONTROL_END_TRANSACTION] = {"end_transaction",
                                 "SELECT " TRANSACTION_COLUMNS
                                 " FROM pgcursus.end_transaction($1,$2,$3,$4,$5,$6)",
                                 COUNT(end_transaction_types), end_transaction_types},
    [CONTROL_TRANSACTION_STATUS] = {"transaction_status",
                                    "SELECT " TRANSACTION_COLUMNS
                                    " FROM pgcursus.transaction_status($1,$2)",
                                    COUNT(transaction_status_types), transaction_status_types},
    [CONTROL_TRANSACTIONAL_ID] = {"transactional_id", "SELECT pgcursus.transactional_id_of($1)",
                                  COUNT(list_transactions_types), list_transactions_types},
    [CONTROL_LOCK_CHANGES] = {"lock_changes", "SELECT pgcursus.lock_changes($1,$2,$3)",
                              COUNT(lock_changes_types), lock_changes_types},
    [CONTROL_LIST_TRANSACTIONS] =
        {"list_transactions",
         "SELECT transactional_id, producer_id, producer_epoch, state, age_ms, messages, offsets,"
         " holds_back, touched FROM pgcursus.list_transactions($1)",
         COUNT(list_transactions_types), list_transactions_types},
    [CONTROL_SET_SERIALIZABLE] = {"set_serializable",
                                  "SET default_transaction_isolation = 'serializable'", 0, NULL},
    [CONTROL_SET_READ_COMMITTED] = {"set_read_committed",
                                    "SET default_transaction_isolation = 'read committed'", 0,
                                    NULL},
    [CONTROL_REGISTER_GROUP] = {"register_group", "SELECT pgcursus.register_group($1,$2,$3)",
                                COUNT(register_group_types), register_group_types},
    [CONTROL_REGISTER_CONFIGURED_GROUP] = {"register_configured_group",
                                           "SELECT pgcursus.register_configured_group($1,$2,$3)",
                                           COUNT(register_configured_types),
                                           register_configured_types},
    [CONTROL_JOIN_GROUP] = {"join_group",
                            "SELECT " ASSIGNMENT_COLUMNS " FROM pgcursus.join_group($1,$2,$3,$4)",
                            COUNT(join_group_types), join_group_types},
    [CONTROL_SYNC_GROUP] = {"sync_group",
                            "SELECT " ASSIGNMENT_COLUMNS
                            " FROM pgcursus.sync_group($1,$2,$3,$4,$5)",
                            COUNT(sync_group_types), sync_group_types},
    [CONTROL_LEAVE_GROUP] = {"leave_group", "SELECT pgcursus.leave_group($1,$2,$3,$4)",
                             COUNT(leave_group_types), leave_group_types},
    [CONTROL_CHECK_GROUP_TOPIC] = {"check_group_topic",
                                   "SELECT pgcursus.check_group_topic($1,$2,$3,$4)",
                                   COUNT(check_group_topic_types), check_group_topic_types},
    [CONTROL_GROUP_STATUS] = {"group_status",
                              "SELECT selector, selector_text, topics, generation, member_count, "
                              "partition_count, last_rebalance, member_id, last_heartbeat, topic, "
                              "partition FROM pgcursus.group_status($1)",
                              COUNT(text_type), text_type},
    [CONTROL_LIST_GROUPS] = {"list_groups", "SELECT name FROM pgcursus.list_groups()", 0, NULL},
    [CONTROL_FETCH_OFFSET] = {"fetch_offset",
                              "SELECT next_offset, registration_epoch "
                              "FROM pgcursus.fetch_offset($1,$2,$3)",
                              COUNT(fetch_offset_types), fetch_offset_types},
    [CONTROL_VALIDATE_COMMIT] = {"validate_commit",
                                 "SELECT pgcursus.validate_commit($1,$2,$3,$4,$5,$6,$7)",
                                 COUNT(validate_commit_types), validate_commit_types},
    [CONTROL_READ_STREAM] =
        {"read_stream",
         "SELECT head_version, partition, snapshot_version, snapshot_payload, first_version,"
         " last_version, next_bytes, next_offset, event_count, versions, offsets, payloads,"
         " producer_ids, producer_epochs, sequences, event_types, schema_versions, metadata,"
         " event_ids, payload_digests FROM pgcursus.read_stream_page($1,$2,$3,$4,$5,$6,$7,$8)",
         COUNT(read_stream_types), read_stream_types},
    [CONTROL_STREAM_VERSION] = {"stream_version", "SELECT pgcursus.stream_version($1,$2)",
                                COUNT(stream_types), stream_types},
    [CONTROL_SAVE_SNAPSHOT] = {"save_snapshot", "SELECT pgcursus.save_snapshot($1,$2,$3,$4)",
                               COUNT(save_snapshot_types), save_snapshot_types},
    [CONTROL_READ_SNAPSHOT] = {"read_snapshot",
                               "SELECT version, payload FROM pgcursus.read_snapshot($1,$2)",
                               COUNT(stream_types), stream_types},
    [CONTROL_AGGREGATE_PROOF] = {"aggregate_proof",
                                 "SELECT " PROOF_COLUMNS
                                 " FROM pgcursus.aggregate_proof($1,$2,$3,$4)",
                                 COUNT(proof_types), proof_types},
    [CONTROL_AGGREGATE_RANGE] = {"aggregate_range",
                                 "SELECT " PROOF_COLUMNS
                                 ", range_count, sequences, offsets, event_ids, event_types, "
                                 "payloads FROM pgcursus.aggregate_range($1,$2,$3,$4,$5,$6,$7)",
                                 COUNT(range_types), range_types},
    [CONTROL_REGISTERED_NODES] = {"registered_nodes",
                                  "SELECT node_id, address, started_at, last_seen, is_alive"
                                  " FROM pgcursus.registered_nodes()",
                                  0, NULL},
    [CONTROL_CLUSTER_STATE] = {"cluster_state",
                               "SELECT wal_position, leader FROM pgcursus.cluster_state()", 0,
                               NULL},
    [CONTROL_CLUSTER_PARTITIONS] = {"cluster_partitions",
                                    "SELECT topic, partition, leader_epoch, preferred_node, "
                                    "end_offset FROM pgcursus.cluster_partitions()",
                                    0, NULL},
    [CONTROL_ELECT_LEADER] = {"elect_leader",
                              "SELECT previous_leader, leader, leader_epoch, changed"
                              " FROM pgcursus.elect_leader($1,$2,$3,$4,$5)",
                              COUNT(elect_leader_types), elect_leader_types},
};

const bool control_runs_read_committed[CONTROL_STATEMENT_COUNT] = {
    [CONTROL_DELETE_TOPIC] = true,       [CONTROL_TRUNCATE_TOPIC] = true,
    [CONTROL_INIT_PRODUCER_ID] = true,   [CONTROL_BEGIN_TRANSACTION] = true,
    [CONTROL_STAGE_OFFSETS] = true,      [CONTROL_END_TRANSACTION] = true,
    [CONTROL_TRANSACTION_STATUS] = true,
};
