-- check_topic_definition: the rules of CREATE that relate a request to the topic it would make.
--
-- Arguments: _current  the topic as it is; NULL for a new one;
--            _wanted   the topic as it would become;
--            _given_minimum  the request's own min_in_sync_replicas; NULL when absent.
-- Returns:   nothing.
-- Errors:    PC001, in this order: invalid_min_in_sync_replicas, create_topic_failed (leftovers,
--            fewer partitions, an immutable field, a replay topic's partitions), invalid_topic_policy
--            (negative retention, compaction of an event-sourced topic), create_topic_failed
--            (replay without its flags).
-- Tables:    as check_no_leftovers().
CREATE OR REPLACE FUNCTION pgcursus.check_topic_definition(
  _current pgcursus.topic_definitions, _wanted pgcursus.topic_definitions, _given_minimum bigint)
RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _changed text;
  _reason  text;
  _replicas int;
BEGIN
  _replicas := _wanted.replication_factor;
  IF _given_minimum > _replicas THEN
    PERFORM refuse('invalid_min_in_sync_replicas', jsonb_build_object(
      'value', _given_minimum::text, 'replication_factor', _replicas::text));
  END IF;
  IF _current.topic_id IS NULL THEN
    PERFORM check_no_leftovers(_wanted.name);
  END IF;

  _changed := CASE
    WHEN _wanted.replication_factor <> _current.replication_factor THEN 'replication_factor'
    WHEN _wanted.idempotent <> _current.idempotent THEN 'idempotent'
    WHEN _wanted.event_sourcing <> _current.event_sourcing THEN 'event_sourcing'
    WHEN _wanted.aggregate_replay <> _current.aggregate_replay THEN 'aggregate_replay'
  END;
  _reason := CASE
    WHEN _wanted.partition_count < _current.partition_count THEN
      format('partitions cannot be decreased from %s to %s', _current.partition_count,
             _wanted.partition_count)
    WHEN _changed IS NOT NULL THEN
      format('%s cannot be changed after creation', _changed)
    WHEN _current.aggregate_replay AND _wanted.partition_count <> _current.partition_count THEN
      'partitions of an aggregate_replay topic cannot be changed'
  END;
  IF _reason IS NOT NULL THEN
    PERFORM refuse('create_topic_failed',
                   jsonb_build_object('topic', _wanted.name, 'reason', _reason));
  END IF;

  IF _wanted.retention_hours < 0 OR _wanted.retention_bytes < 0 THEN
    PERFORM refuse('invalid_topic_policy', jsonb_build_object('reason', format(
      '%s must not be negative',
      CASE WHEN _wanted.retention_hours < 0 THEN 'retention_hours' ELSE 'retention_bytes' END)));
  END IF;
  IF _wanted.event_sourcing AND _wanted.cleanup_policy <> 'delete' THEN
    PERFORM refuse('invalid_topic_policy', jsonb_build_object(
      'field', 'cleanup_policy', 'reason', 'an event_sourcing topic cannot be compacted'));
  END IF;
  IF _wanted.aggregate_replay AND NOT (_wanted.event_sourcing AND _wanted.idempotent) THEN
    PERFORM refuse('create_topic_failed', jsonb_build_object(
      'topic', _wanted.name,
      'reason', 'aggregate_replay requires event_sourcing and idempotent'));
  END IF;
END
$$;
