-- Every privilege on the schema, in one place. Runs as pgcursus_owner after functions and views,
-- whenever one of those files changed, so it must be repeatable.
--
-- pgcursus_broker may execute what a node calls, and touches no table; it reads the schema's
-- history, so that a node that may not migrate can tell whether it fits. pgcursus_reader may
-- select from the views and read(). pgcursus_writer may publish(). PUBLIC gets nothing. Users are
-- managed by members of pgcursus_owner, and by those to whom an administrator grants set_user(),
-- remove_user() and list_users().

REVOKE ALL ON SCHEMA pgcursus FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA pgcursus FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA pgcursus FROM PUBLIC;
REVOKE ALL ON ALL ROUTINES IN SCHEMA pgcursus FROM PUBLIC;

GRANT USAGE ON SCHEMA pgcursus TO pgcursus_broker, pgcursus_reader, pgcursus_writer;

GRANT SELECT ON pgcursus.schema_migrations, pgcursus.schema_files TO pgcursus_broker;

GRANT EXECUTE ON FUNCTION
  pgcursus.append, pgcursus.note_standbys, pgcursus.fetch_batches, pgcursus.partition_ends,
  pgcursus.append_transactional, pgcursus.lock_transactions, pgcursus.lock_changes,
  pgcursus.init_producer_id, pgcursus.begin_transaction, pgcursus.stage_offsets,
  pgcursus.end_transaction, pgcursus.transaction_status, pgcursus.list_transactions, pgcursus.transactional_id_of,
  pgcursus.create_topic, pgcursus.topic_definition, pgcursus.describe_topic, pgcursus.list_topics,
  pgcursus.register_group, pgcursus.register_configured_group, pgcursus.join_group, pgcursus.sync_group, pgcursus.leave_group,
  pgcursus.check_group_topic, pgcursus.group_status, pgcursus.list_groups, pgcursus.beat_members,
  pgcursus.commit_offsets, pgcursus.validate_commit, pgcursus.committed_offsets, pgcursus.fetch_offset,
  pgcursus.append_events, pgcursus.read_stream_page, pgcursus.stream_version, pgcursus.save_snapshot,
  pgcursus.read_snapshot, pgcursus.aggregate_proof, pgcursus.aggregate_range
TO pgcursus_broker;

GRANT EXECUTE ON FUNCTION
  pgcursus.alter_topic, pgcursus.delete_topic, pgcursus.truncate_topic
TO pgcursus_broker;

GRANT EXECUTE ON FUNCTION pgcursus.login_users TO pgcursus_broker;

GRANT EXECUTE ON FUNCTION
  pgcursus.register_node, pgcursus.unregister_node, pgcursus.registered_nodes,
  pgcursus.cluster_state, pgcursus.cluster_partitions, pgcursus.elect_leader
TO pgcursus_broker;

-- Steps of housekeeping.
GRANT EXECUTE ON FUNCTION
  pgcursus.remove_old_logs, pgcursus.expire_group_members, pgcursus.trim_offset_commits,
  pgcursus.abort_overdue_transactions, pgcursus.clean_transactions,
  pgcursus.expire_transactional_ids, pgcursus.note_lost_nodes, pgcursus.retain_logs,
  pgcursus.compact_logs
TO pgcursus_broker;

GRANT SELECT ON pgcursus.topics, pgcursus.partitions, pgcursus.records,
  pgcursus.groups, pgcursus.group_lag, pgcursus.transactions, pgcursus.streams,
  pgcursus.nodes TO pgcursus_reader;
GRANT EXECUTE ON FUNCTION pgcursus.read, pgcursus.read_stream TO pgcursus_reader;
-- The view nodes calls it.
GRANT EXECUTE ON FUNCTION pgcursus.registered_nodes TO pgcursus_reader;

GRANT EXECUTE ON FUNCTION pgcursus.publish, pgcursus.commit_offset, pgcursus.append_stream
TO pgcursus_writer;
