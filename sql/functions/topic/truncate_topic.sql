-- truncate_topic: empties a topic and keeps its definition.
--
-- Arguments: _topic;
--            _expected_revision  the revision that the caller knows.
-- Returns:   the definition as topic_definition() gives it.
-- Errors:    PC001 topic_truncate_blocked {topic, reason}, topic_not_found {topic},
--            topic_revision_conflict {topic, expected, reason}; lock_not_available: try again.
-- Tables:    topic_definitions, partition_states (read, written), and as the functions it calls.
--
-- The topic gets a new log, whose partitions start at offset 0, one leader epoch later. Runs at READ
-- COMMITTED (lock_topic). What forbids it without touching publishers is looked at before they are
-- made to wait.
CREATE OR REPLACE FUNCTION pgcursus.truncate_topic(_topic text, _expected_revision numeric)
RETURNS TABLE (
  topic text, log_id bigint, partition_count int, replication_factor int, idempotent boolean,
  event_sourcing boolean, aggregate_replay boolean, min_in_sync_replicas int, cleanup_policy text,
  retention_hours bigint, retention_bytes bigint, partitioner text, auth_policy text,
  read_acl text, write_acl text, revision bigint, lifecycle_epoch bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER ROWS 1
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _current topic_definitions := lock_topic(_topic);
  _log_id  bigint;
BEGIN
  PERFORM check_topic_unused(_topic, _current.log_id, 'topic_truncate_blocked');
  IF _current.topic_id IS NULL THEN
    PERFORM refuse('topic_not_found', jsonb_build_object('topic', _topic));
  END IF;
  IF _current.revision <> _expected_revision THEN
    PERFORM refuse('topic_revision_conflict', jsonb_build_object(
      'topic', _topic, 'expected', _expected_revision::text,
      'reason', format('current revision %s, expected %s', _current.revision, _expected_revision)));
  END IF;

  PERFORM lock_log(_current.log_id, _current.partition_count);
  PERFORM check_topic_unused(_topic, _current.log_id, 'topic_truncate_blocked');
  PERFORM abandon_log(_current);
  _log_id := nextval('log_ids');
  INSERT INTO partition_states (log_id, partition, leader_epoch, preferred_node)
  SELECT _log_id, p.partition, p.leader_epoch + 1, p.preferred_node
    FROM partition_states p
   WHERE p.log_id = _current.log_id;
  UPDATE topic_definitions t
     SET (log_id, revision, lifecycle_epoch) = (_log_id, t.revision + 1, t.lifecycle_epoch + 1)
   WHERE t.topic_id = _current.topic_id;
  RETURN QUERY SELECT d.* FROM topic_definition(_topic) d;
END
$$;
