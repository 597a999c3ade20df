-- alter_topic: changes a topic's minimum of in-sync replicas.
--
-- Arguments: _topic;
--            _min_in_sync_replicas  at least 1; NULL: the broker's default.
-- Returns:   the definition as topic_definition() gives it.
-- Errors:    PC001 topic_not_found {topic}, invalid_min_in_sync_replicas {value,
--            replication_factor}.
-- Tables:    topic_definitions (read, written).
--
-- The revision rises, and the nodes are told, only when the value changes.
CREATE OR REPLACE FUNCTION pgcursus.alter_topic(_topic text, _min_in_sync_replicas bigint)
RETURNS TABLE (
  topic text, log_id bigint, partition_count int, replication_factor int, idempotent boolean,
  event_sourcing boolean, aggregate_replay boolean, min_in_sync_replicas int, cleanup_policy text,
  retention_hours bigint, retention_bytes bigint, partitioner text, auth_policy text,
  read_acl text, write_acl text, revision bigint, lifecycle_epoch bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER ROWS 1
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _current topic_definitions;
BEGIN
  SELECT t.* INTO _current FROM topic_definitions t WHERE t.name = _topic FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    PERFORM refuse('topic_not_found', jsonb_build_object('topic', _topic));
  END IF;
  IF _min_in_sync_replicas > _current.replication_factor THEN
    PERFORM refuse('invalid_min_in_sync_replicas', jsonb_build_object(
      'value', _min_in_sync_replicas::text,
      'replication_factor', _current.replication_factor::text));
  END IF;
  IF _current.min_in_sync_replicas IS DISTINCT FROM _min_in_sync_replicas THEN
    UPDATE topic_definitions t
       SET (min_in_sync_replicas, revision) = (_min_in_sync_replicas::int, t.revision + 1)
     WHERE t.topic_id = _current.topic_id;
    PERFORM pg_notify('pgcursus_control', 'topic ' || _topic);
  END IF;
  RETURN QUERY SELECT d.* FROM topic_definition(_topic) d;
END
$$;
