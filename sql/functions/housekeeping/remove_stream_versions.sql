-- remove_stream_versions: removes the next rows of a removed log's index of event streams.
--
-- Arguments: _log_id;
--            _from_key, _from_version  no row before it exists.
-- Returns:   removed                 number of rows removed, at most 500;
--            next_key, next_version  where to go on.
-- Errors:    none.
-- Tables:    stream_versions (written).
CREATE OR REPLACE FUNCTION pgcursus.remove_stream_versions(
  _log_id bigint, _from_key bytea, _from_version bigint,
  OUT removed bigint, OUT next_key bytea, OUT next_version bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
BEGIN
  SELECT c.stream_key, c.version + 1 INTO next_key, next_version
    FROM (SELECT v.stream_key, v.version
            FROM stream_versions v
           WHERE v.log_id = _log_id AND (v.stream_key, v.version) >= (_from_key, _from_version)
           ORDER BY v.stream_key, v.version
           LIMIT 500) c
   ORDER BY c.stream_key DESC, c.version DESC
   LIMIT 1;
  DELETE FROM stream_versions v
   WHERE v.log_id = _log_id
     AND (v.stream_key, v.version) >= (_from_key, _from_version)
     AND (v.stream_key, v.version) < (next_key, next_version);
  GET DIAGNOSTICS removed = ROW_COUNT;
  next_key := coalesce(next_key, _from_key);
  next_version := coalesce(next_version, _from_version);
END
$$;
