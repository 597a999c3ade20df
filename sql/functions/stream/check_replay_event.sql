-- check_replay_event: what becomes of an event of a topic with aggregate_replay.
--
-- Arguments: _log_id, _partition, _key, _version;
--            _event_id, _payload_digest  the event's identity.
-- Returns:   status and value as the event_statuses and event_values of append_events(): an event that
--            has its version already is a repeat if event id and digest are the same. No other event
--            of the partition that can still be read may have the event id.
-- Errors:    none.
-- Tables:    stream_versions (read, written), record_batches, partition_states (read).
--
-- An event id is free again once retention has removed its event; it is then taken from the old event,
-- so that the unique index admits the new one.
CREATE OR REPLACE FUNCTION pgcursus.check_replay_event(
  _log_id bigint, _partition int, _key bytea, _version bigint, _event_id text,
  _payload_digest text, OUT status int, OUT value bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _current  bigint;
  _earliest bigint;
  _stored   record;
BEGIN
  SELECT v.version INTO _current
    FROM stream_versions v
   WHERE v.log_id = _log_id AND v.stream_key = short_key(_key)
   ORDER BY v.version DESC
   LIMIT 1;
  _current := coalesce(_current, 0);
  SELECT p.earliest_offset INTO _earliest
    FROM partition_states p
   WHERE p.log_id = _log_id AND p.partition = _partition;

  IF _version BETWEEN 1 AND _current THEN
    SELECT v.record_offset, b.event_ids[v.record_offset - b.base_offset + 1] AS event_id,
           b.payload_digests[v.record_offset - b.base_offset + 1] AS payload_digest
      INTO _stored
      FROM stream_versions v
      JOIN record_batches b
        ON b.log_id = v.log_id AND b.partition = v.partition AND b.base_offset = v.base_offset
     WHERE v.log_id = _log_id AND v.stream_key = short_key(_key) AND v.version = _version
       AND v.record_offset >= _earliest;
    IF NOT FOUND THEN
      status := 13;
    ELSIF _stored.event_id = _event_id AND _stored.payload_digest = _payload_digest THEN
      status := 1;
      value := _stored.record_offset;
    ELSE
      status := 11;
    END IF;
    RETURN;
  END IF;

  SELECT v.version, v.stream_key, v.record_offset >= _earliest AND b.base_offset IS NOT NULL AS is_retained
    INTO _stored
    FROM stream_versions v
    LEFT JOIN record_batches b
      ON b.log_id = v.log_id AND b.partition = v.partition AND b.base_offset = v.base_offset
   WHERE v.log_id = _log_id AND v.partition = _partition
     AND v.event_key = short_key(convert_to(_event_id, 'UTF8'));
  IF _stored.is_retained THEN
    status := 12;
    RETURN;
  ELSIF _stored.version IS NOT NULL THEN
    UPDATE stream_versions v
       SET event_key = NULL
     WHERE v.log_id = _log_id AND v.stream_key = _stored.stream_key AND v.version = _stored.version;
  END IF;

  value := _current;
  status := CASE WHEN _version = _current + 1 THEN 0 ELSE 9 END;
END
$$;
