-- remove_record_batches: removes the next batches of a partition of a removed log.
--
-- Arguments: _log_id, _partition;
--            _from_offset  no batch before it exists.
-- Returns:   removed      number of batches removed: at most 500 and 2 MiB of payload, though at
--                         least one when there is any;
--            next_offset  where to go on.
-- Errors:    none.
-- Tables:    record_batches (written).
CREATE OR REPLACE FUNCTION pgcursus.remove_record_batches(
  _log_id bigint, _partition int, _from_offset bigint, OUT removed bigint, OUT next_offset bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
BEGIN
  SELECT max(c.base_offset) + 1 INTO next_offset
    FROM (SELECT b.base_offset, b.byte_count,
                 sum(b.byte_count) OVER (ORDER BY b.base_offset) AS bytes
            FROM record_batches b
           WHERE b.log_id = _log_id AND b.partition = _partition
             AND b.base_offset >= _from_offset
           ORDER BY b.base_offset
           LIMIT 500) c
   WHERE c.bytes - c.byte_count < 2097152;
  DELETE FROM record_batches b
   WHERE b.log_id = _log_id AND b.partition = _partition
     AND b.base_offset >= _from_offset AND b.base_offset < next_offset;
  GET DIAGNOSTICS removed = ROW_COUNT;
  next_offset := coalesce(next_offset, _from_offset);
END
$$;
