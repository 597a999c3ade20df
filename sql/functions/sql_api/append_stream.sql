-- append_stream: appends an event to an aggregate's stream, within the caller's own transaction.
--
-- Arguments: topic, key      the aggregate;
--            expected_version  the number that the event shall have: one more than the current version;
--            event_type, payload, metadata, schema_version   the event;
--            event_id, producer_id, sequence, producer_epoch   needed in a topic with aggregate_replay,
--                            ignored in others.
-- Returns:   the event's offset; in a topic with aggregate_replay the original one for an exact repeat.
--            It is final when the caller commits.
-- Errors:    as a node refuses it: serialization_failure when the current version is not
--            expected_version - 1 (DETAIL tells it), or when a caller above READ COMMITTED has missed a
--            concurrent append: read the stream and decide again; unique_violation for another event
--            with this version or event id in a topic with aggregate_replay;
--            object_not_in_prerequisite_state for a topic without event_sourcing, or a producer's
--            sequence or epoch that does not follow; invalid_parameter_value, undefined_object and
--            insufficient_privilege as publish().
-- Tables:    partition_states (locked, above READ COMMITTED), and as append_events().
--
-- Locks and durability are those of publish(). Above READ COMMITTED a unique_violation may also stand
-- for a concurrent append.
CREATE OR REPLACE FUNCTION pgcursus.append_stream(
  topic text, key bytea, expected_version bigint, event_type text, payload bytea,
  metadata text DEFAULT NULL, schema_version bigint DEFAULT 1, event_id text DEFAULT NULL,
  producer_id text DEFAULT NULL, sequence bigint DEFAULT NULL, producer_epoch bigint DEFAULT 0)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _topic     topic_definitions;
  _partition int;
  _bytes     int;
  _result    append_events_result;
BEGIN
  _topic := writable_topic(append_stream.topic, NULL);
  IF NOT _topic.event_sourcing THEN
    RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
      MESSAGE = format('topic %s has no event streams', _topic.name);
  END IF;
  _bytes := octet_length(append_stream.payload) + octet_length(append_stream.key);
  IF coalesce(octet_length(append_stream.key), 0) NOT BETWEEN 1 AND 65535
     OR coalesce(octet_length(append_stream.payload), 0) = 0
     OR append_stream.expected_version IS NULL
     OR coalesce(append_stream.schema_version, -1) NOT BETWEEN 0 AND 4294967295 THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
      MESSAGE = 'key, expected_version and payload must be given, and schema_version must be 0 to 4294967295',
      HINT = 'A key has 1 to 65535 bytes.';
  END IF;
  PERFORM check_record_size(_bytes + coalesce(octet_length(append_stream.event_type), 0)
                            + coalesce(octet_length(append_stream.metadata), 0));
  IF _topic.aggregate_replay
     AND (coalesce(octet_length(append_stream.event_id), 0) NOT BETWEEN 1 AND 65535
          OR coalesce(append_stream.producer_id, '') = '' OR coalesce(append_stream.sequence, 0) < 1
          OR coalesce(append_stream.producer_epoch, -1) < 0) THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
      MESSAGE = format('topic %s wants event_id, producer_id, a sequence of 1 or more and a'
                       ' producer_epoch of 0 or more', _topic.name);
  END IF;

  -- The stream's own partition, where it has one.
  SELECT v.partition INTO _partition
    FROM stream_versions v
   WHERE v.log_id = _topic.log_id AND v.stream_key = short_key(append_stream.key)
   ORDER BY v.version DESC
   LIMIT 1;
  _partition := coalesce(_partition, partition_of_key(append_stream.key, _topic.partition_count));
  PERFORM check_snapshot(_topic.log_id, _partition);
  _result := append_events(
    _topic.log_id, _topic.revision, _partition, _bytes, false, 1, ARRAY[append_stream.key],
    ARRAY[append_stream.expected_version], ARRAY[append_stream.payload],
    CASE WHEN append_stream.event_type <> '' THEN ARRAY[append_stream.event_type] END,
    ARRAY[append_stream.schema_version],
    CASE WHEN append_stream.metadata <> '' THEN ARRAY[append_stream.metadata] END,
    CASE WHEN _topic.aggregate_replay THEN ARRAY[append_stream.event_id] END,
    CASE WHEN _topic.aggregate_replay THEN ARRAY[encode(sha256(append_stream.payload), 'hex')] END,
    CASE WHEN _topic.aggregate_replay THEN append_stream.producer_id END,
    CASE WHEN _topic.aggregate_replay THEN append_stream.producer_epoch END,
    CASE WHEN _topic.aggregate_replay THEN append_stream.sequence END);
  IF _result.status = 0 AND _result.event_statuses IS NULL THEN
    RETURN _result.base_offset;
  ELSIF _result.event_statuses[1] = 1 THEN
    RETURN _result.event_values[1];
  END IF;
  PERFORM fail_append_stream(_result, append_stream.expected_version, _topic.name);
END
$$;
