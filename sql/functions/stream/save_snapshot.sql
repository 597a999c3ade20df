-- save_snapshot: keeps the snapshot of a stream, in place of the one before.
--
-- Arguments: _log_id, _key;
--            _version  the last event that the snapshot covers;
--            _payload  anything.
-- Returns:   the stream's partition; NULL for an unknown key (_version is then 0).
-- Errors:    PC001 stale_log; snapshot_version_exceeds_stream {version, current};
--            snapshot_save_failed {reason} when a later snapshot is stored.
-- Tables:    stream_versions (read), stream_snapshots (written).
--
-- The row is compared and replaced in one statement, so of two savers the later version stays.
CREATE OR REPLACE FUNCTION pgcursus.save_snapshot(
  _log_id bigint, _key bytea, _version bigint, _payload bytea)
RETURNS int
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _current   bigint;
  _partition int;
  _stored    bigint;
BEGIN
  PERFORM check_current_log(_log_id);
  SELECT v.version, v.partition INTO _current, _partition
    FROM stream_versions v
   WHERE v.log_id = _log_id AND v.stream_key = short_key(_key)
   ORDER BY v.version DESC
   LIMIT 1;
  _current := coalesce(_current, 0);
  IF _version > _current THEN
    PERFORM refuse('snapshot_version_exceeds_stream',
                   jsonb_build_object('version', _version::text, 'current', _current::text));
  END IF;

  INSERT INTO stream_snapshots AS s (log_id, stream_key, version, payload)
  VALUES (_log_id, short_key(_key), _version, _payload)
      ON CONFLICT (log_id, stream_key) DO UPDATE
     SET version = excluded.version, payload = excluded.payload, saved_at = clock_timestamp()
   WHERE s.version <= excluded.version;
  IF NOT FOUND THEN
    SELECT s.version INTO _stored
      FROM stream_snapshots s
     WHERE s.log_id = _log_id AND s.stream_key = short_key(_key);
    PERFORM refuse('snapshot_save_failed', jsonb_build_object('reason', format(
              'snapshot version regression: %s is stored, got %s', _stored, _version)));
  END IF;
  RETURN _partition;
END
$$;
