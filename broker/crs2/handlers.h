/* The handlers of the command table, one file a family. */
#ifndef PGCURSUS_CRS2_HANDLERS_H
#define PGCURSUS_CRS2_HANDLERS_H

#include "base/slice.h"
#include "db/control.h"

struct call;

/* The broker's own: tables here, a log in the reference (commands-1 1.7). */
#define INTERNAL_TOPIC "__consumer_offsets"

/* cmd_connection.c */
void handle_auth(struct call *call);
void handle_help(struct call *call);
void handle_exit(struct call *call);

/* cmd_topic.c */
void handle_create(struct call *call); /* cmd_create.c */
void handle_list(struct call *call);
void handle_describe(struct call *call);
void handle_metadata(struct call *call);
void handle_list_offsets(struct call *call);

/* cmd_topic_life.c */
void handle_alter_topic_config(struct call *call);
void handle_delete(struct call *call);
void handle_truncate(struct call *call);

/* cmd_publish.c, cmd_publish_batch.c */
void handle_publish(struct call *call);
/* True when an acks value asks for silence: "0", and in a batch also "none". */
bool publish_acks_are_none(struct slice acks, bool is_batch);

/* cmd_consume.c */
void handle_consume(struct call *call);

/* cmd_cluster.c */
void handle_cluster_status(struct call *call);
void handle_list_cluster(struct call *call);
void handle_elect_leader(struct call *call);

/* cmd_stream.c */
void handle_stream(struct call *call);

/* cmd_group.c */
void handle_register_group(struct call *call);
void handle_join_group(struct call *call);
void handle_sync_group(struct call *call);
void handle_leave_group(struct call *call);
void handle_heartbeat(struct call *call);

/* cmd_group_status.c */
void handle_group_status(struct call *call);
void handle_list_groups(struct call *call);

/* cmd_offset.c */
void handle_fetch_offset(struct call *call);
void handle_commit_offset(struct call *call);
void handle_batch_commit(struct call *call);

/* cmd_cluster.c */
void handle_find_coordinator(struct call *call);

/* cmd_txn.c */
void handle_init_producer_id(struct call *call);
void handle_begin_txn(struct call *call);
void handle_end_txn(struct call *call);
void handle_txn_status(struct call *call);

/* cmd_txn_offsets.c */
void handle_send_offsets_to_txn(struct call *call);

/* cmd_txn_append_stream.c */
void handle_txn_append_stream(struct call *call);

/* cmd_txn_publish.c */
void handle_txn_publish(struct call *call);

/* cmd_append_stream.c, cmd_read_stream.c, cmd_stream_state.c */
void handle_append_stream(struct call *call);
void handle_read_stream(struct call *call);
void handle_read_stream_history(struct call *call);
void handle_stream_version(struct call *call);
void handle_save_snapshot(struct call *call);
void handle_read_snapshot(struct call *call);

/* cmd_replay.c */
void handle_aggregate_replay_proof(struct call *call);
void handle_aggregate_event_range_read(struct call *call);

/* outcome.c: answers for what went wrong in the database */
void call_fail_control(struct call *call, const struct control_result *result);
/* A refusal made in SQL: its code, and its fields as a JSON object of texts (may be empty). */
void call_fail_refusal(struct call *call, const char *code, const char *fields);
void call_fail_control_status(struct call *call, enum control_status status, const char *reason);
/* The same for commands of groups and offsets: coordinator_not_available when nothing is known,
 * `failed_code` {reason} for an error of PostgreSQL that trying again will not mend. */
void call_fail_coordination(struct call *call, const struct control_result *result,
                            const char *failed_code);

#endif
