-- topic_definition: a topic's definition, by name.
--
-- Arguments: _topic  the topic's name.
-- Returns:   one row, or none when there is no such topic (`__consumer_offsets` never is one).
-- Errors:    none.
-- Tables:    topic_definitions (read).
CREATE OR REPLACE FUNCTION pgcursus.topic_definition(_topic text)
RETURNS TABLE (
  topic text, log_id bigint, partition_count int, replication_factor int, idempotent boolean,
  event_sourcing boolean, aggregate_replay boolean, min_in_sync_replicas int, cleanup_policy text,
  retention_hours bigint, retention_bytes bigint, partitioner text, auth_policy text,
  read_acl text, write_acl text, revision bigint, lifecycle_epoch bigint)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 1
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  SELECT t.name, t.log_id, t.partition_count, t.replication_factor, t.idempotent,
         t.event_sourcing, t.aggregate_replay, t.min_in_sync_replicas, t.cleanup_policy,
         t.retention_hours, t.retention_bytes, t.partitioner, t.auth_policy,
         array_to_string(t.read_acl, ','), array_to_string(t.write_acl, ','),
         t.revision, t.lifecycle_epoch
    FROM topic_definitions t
   WHERE t.name = topic_definition._topic
$$;
