-- stream_version: the version of a stream, the number of its last event.
--
-- Arguments: _log_id, _key.
-- Returns:   the version; 0 for an unknown key.
-- Errors:    PC001 stale_log.
-- Tables:    stream_versions (read).
CREATE OR REPLACE FUNCTION pgcursus.stream_version(_log_id bigint, _key bytea)
RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM check_current_log(_log_id);
  RETURN coalesce((SELECT v.version
                     FROM stream_versions v
                    WHERE v.log_id = _log_id AND v.stream_key = short_key(_key)
                    ORDER BY v.version DESC
                    LIMIT 1), 0);
END
$$;
