-- chunk_end: where a step that works on rows of a partition should stop.
--
-- Arguments: _log_id, _partition;
--            _from, _to  the rows in question: those that begin at or behind _from and before _to;
--            _max_records  that the step should see.
-- Returns:   the offset behind the last row of the step: at most 500 rows, _max_records records and 2 MiB
--            of payload, though at least one row when there is any; NULL when there is none.
-- Errors:    none.
-- Tables:    record_batches (read).
CREATE OR REPLACE FUNCTION pgcursus.chunk_end(
  _log_id bigint, _partition int, _from bigint, _to bigint, _max_records int)
RETURNS bigint
LANGUAGE sql STABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  SELECT max(c.last_offset) + 1
    FROM (SELECT b.last_offset, b.byte_count, b.record_count,
                 sum(b.byte_count) OVER (ORDER BY b.base_offset) AS bytes,
                 sum(b.record_count) OVER (ORDER BY b.base_offset) AS records
            FROM record_batches b
           WHERE b.log_id = _log_id AND b.partition = _partition
             AND b.base_offset >= _from AND b.base_offset < _to
           ORDER BY b.base_offset
           LIMIT 500) c
   WHERE c.bytes - c.byte_count < 2097152 AND c.records - c.record_count < _max_records
$$;
