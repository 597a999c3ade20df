-- read_snapshot: the snapshot of a stream.
--
-- Arguments: _log_id, _key.
-- Returns:   version and payload; no row when there is none.
-- Errors:    PC001 stale_log.
-- Tables:    stream_snapshots (read).
CREATE OR REPLACE FUNCTION pgcursus.read_snapshot(_log_id bigint, _key bytea)
RETURNS TABLE (version bigint, payload bytea)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 1
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  PERFORM check_current_log(_log_id);
  RETURN QUERY
  SELECT s.version, s.payload
    FROM stream_snapshots s
   WHERE s.log_id = _log_id AND s.stream_key = short_key(_key);
END
$$;
