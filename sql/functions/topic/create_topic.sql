-- create_topic: creates a topic, or patches the fields that were given of an existing one.
--
-- Arguments: _topic ... _write_acl  the request, whose fields are valid each by itself; NULL means
--              that the field was absent: keep it, or take the default. _cleanup_policy is
--              canonical; an empty list clears an ACL;
--            _default_replication_factor, _default_cleanup_policy  the broker's defaults;
--            _max_topics, _max_partitions_per_topic, _max_partitions  the broker's limits.
-- Returns:   the definition as topic_definition() gives it.
-- Errors:    PC001 as check_topic_definition() and check_topic_limits(); serialization_failure
--            when, under an isolation level above READ COMMITTED, another session has just
--            created the topic: try again.
-- Tables:    topic_definitions, partition_states (read, written), group_definitions, group_members
--            (written when partitions are added).
--
-- Creators wait for one another. A request that changes something raises the revision by one,
-- whatever the number of fields, and tells the nodes; one that changes nothing does neither.
CREATE OR REPLACE FUNCTION pgcursus.create_topic(
  _topic text, _partitions int, _replication_factor int, _idempotent boolean,
  _event_sourcing boolean, _aggregate_replay boolean, _min_in_sync_replicas bigint,
  _cleanup_policy text, _retention_hours bigint, _retention_bytes bigint, _partitioner text,
  _auth_policy text, _read_acl text[], _write_acl text[],
  _default_replication_factor int, _default_cleanup_policy text, _max_topics bigint,
  _max_partitions_per_topic bigint, _max_partitions bigint)
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
  _wanted  topic_definitions;
  _is_new  boolean;
  _added   int;
BEGIN
  IF _topic = '__consumer_offsets' THEN
    PERFORM refuse('create_topic_failed', jsonb_build_object(
      'topic', _topic, 'reason', 'the name is reserved for the broker'));
  END IF;

  PERFORM pg_advisory_xact_lock(1);
  SELECT t.* INTO _current FROM topic_definitions t WHERE t.name = _topic FOR NO KEY UPDATE;
  _is_new := NOT FOUND;

  _wanted := _current;
  _wanted.name := _topic;
  _wanted.partition_count := coalesce(_partitions, _current.partition_count, 4);
  _wanted.replication_factor :=
    coalesce(_replication_factor, _current.replication_factor, _default_replication_factor);
  _wanted.idempotent := coalesce(_idempotent, _current.idempotent, false);
  _wanted.event_sourcing := coalesce(_event_sourcing, _current.event_sourcing, false);
  _wanted.aggregate_replay := coalesce(_aggregate_replay, _current.aggregate_replay, false);
  -- Above the column's range it is above any replication factor, and refused as such below.
  _wanted.min_in_sync_replicas := coalesce(
    CASE WHEN _min_in_sync_replicas <= 2147483647 THEN _min_in_sync_replicas::int END,
    _current.min_in_sync_replicas);
  _wanted.cleanup_policy :=
    coalesce(_cleanup_policy, _current.cleanup_policy, _default_cleanup_policy);
  _wanted.retention_hours := coalesce(_retention_hours, _current.retention_hours, 0);
  _wanted.retention_bytes := coalesce(_retention_bytes, _current.retention_bytes, 0);
  _wanted.partitioner := coalesce(_partitioner, _current.partitioner, 'hash_key');
  _wanted.auth_policy := coalesce(_auth_policy, _current.auth_policy, 'open');
  _wanted.read_acl := coalesce(_read_acl, _current.read_acl, '{}');
  _wanted.write_acl := coalesce(_write_acl, _current.write_acl, '{}');
  PERFORM check_topic_definition(_current, _wanted, _min_in_sync_replicas);

  _added := _wanted.partition_count - coalesce(_current.partition_count, 0);
  IF _added > 0 THEN
    PERFORM check_topic_limits(_topic, _is_new, _wanted.partition_count, _added, _max_topics,
                               _max_partitions_per_topic, _max_partitions);
  END IF;

  IF _is_new OR _wanted IS DISTINCT FROM _current THEN
    _wanted := store_topic_definition(_wanted, _is_new);
    INSERT INTO partition_states (log_id, partition)
    SELECT _wanted.log_id, p.n
      FROM generate_series(_wanted.partition_count - _added, _wanted.partition_count - 1) AS p(n);
    IF _added > 0 AND NOT _is_new THEN
      PERFORM grow_groups(_topic, _wanted.partition_count);
    END IF;
    PERFORM pg_notify('pgcursus_control', 'topic ' || _topic);
  END IF;
  RETURN QUERY SELECT d.* FROM topic_definition(_topic) d;
END
$$;
