-- segment_at: the closed segment that an offset lies in.
--
-- Arguments: _log_id, _partition, _offset.
-- Returns:   its row; NULL when there is none.
-- Errors:    none.
-- Tables:    log_segments (read).
CREATE OR REPLACE FUNCTION pgcursus.segment_at(_log_id bigint, _partition int, _offset bigint)
RETURNS pgcursus.log_segments
LANGUAGE sql STABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  SELECT s.*
    FROM (SELECT c.*
            FROM log_segments c
           WHERE c.log_id = _log_id AND c.partition = _partition AND c.base_offset <= _offset
           ORDER BY c.base_offset DESC
           LIMIT 1) s
   WHERE s.end_offset > _offset
$$;
