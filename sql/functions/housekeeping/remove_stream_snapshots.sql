-- remove_stream_snapshots: removes the next snapshots of a removed log.
--
-- Arguments: _log_id;
--            _from_key  no snapshot before it exists.
-- Returns:   removed   number of snapshots removed: at most 500 and 2 MiB, though at least one when
--                      there is any;
--            next_key  where to go on.
-- Errors:    none.
-- Tables:    stream_snapshots (written).
CREATE OR REPLACE FUNCTION pgcursus.remove_stream_snapshots(
  _log_id bigint, _from_key bytea, OUT removed bigint, OUT next_key bytea)
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
BEGIN
  -- A key with a zero byte behind it is the next one that there can be.
  SELECT c.stream_key || '\x00'::bytea INTO next_key
    FROM (SELECT s.stream_key, octet_length(s.payload) AS byte_count,
                 sum(octet_length(s.payload)) OVER (ORDER BY s.stream_key) AS bytes
            FROM stream_snapshots s
           WHERE s.log_id = _log_id AND s.stream_key >= _from_key
           ORDER BY s.stream_key
           LIMIT 500) c
   WHERE c.bytes - c.byte_count < 2097152
   ORDER BY c.stream_key DESC
   LIMIT 1;
  DELETE FROM stream_snapshots s
   WHERE s.log_id = _log_id AND s.stream_key >= _from_key AND s.stream_key < next_key;
  GET DIAGNOSTICS removed = ROW_COUNT;
  next_key := coalesce(next_key, _from_key);
END
$$;
