-- store_topic_definition: writes a checked definition, as a new topic or over the existing one.
--
-- Arguments: _wanted  the definition; of a new topic the keys and counters are set here;
--            _is_new  whether the topic exists.
-- Returns:   the definition as stored: a new topic has its log, an existing one the next revision.
-- Errors:    serialization_failure when another session created the topic meanwhile (possible
--            only where the caller's snapshot is older than its wait for the creators' lock).
-- Tables:    topic_definitions (written).
CREATE OR REPLACE FUNCTION pgcursus.store_topic_definition(
  _wanted pgcursus.topic_definitions, _is_new boolean)
RETURNS pgcursus.topic_definitions
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _stored topic_definitions;
BEGIN
  IF NOT _is_new THEN
    UPDATE topic_definitions t
       SET (partition_count, min_in_sync_replicas, cleanup_policy, retention_hours,
            retention_bytes, partitioner, auth_policy, read_acl, write_acl, revision) =
           (_wanted.partition_count, _wanted.min_in_sync_replicas, _wanted.cleanup_policy,
            _wanted.retention_hours, _wanted.retention_bytes, _wanted.partitioner,
            _wanted.auth_policy, _wanted.read_acl, _wanted.write_acl, t.revision + 1)
     WHERE t.topic_id = _wanted.topic_id
    RETURNING t.* INTO STRICT _stored;
    RETURN _stored;
  END IF;

  INSERT INTO topic_definitions AS t (
    name, log_id, partition_count, replication_factor, idempotent, event_sourcing,
    aggregate_replay, min_in_sync_replicas, cleanup_policy, retention_hours, retention_bytes,
    partitioner, auth_policy, read_acl, write_acl)
  VALUES (
    _wanted.name, nextval('log_ids'), _wanted.partition_count, _wanted.replication_factor,
    _wanted.idempotent, _wanted.event_sourcing, _wanted.aggregate_replay,
    _wanted.min_in_sync_replicas, _wanted.cleanup_policy, _wanted.retention_hours,
    _wanted.retention_bytes, _wanted.partitioner, _wanted.auth_policy, _wanted.read_acl,
    _wanted.write_acl)
  RETURNING t.* INTO STRICT _stored;
  RETURN _stored;
EXCEPTION WHEN unique_violation THEN
  RAISE EXCEPTION USING ERRCODE = 'serialization_failure',
    MESSAGE = format('topic %s was created by another session at the same time', _wanted.name);
END
$$;
