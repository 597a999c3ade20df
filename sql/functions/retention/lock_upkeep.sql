-- lock_upkeep: the upkeep state of a partition, for a step that is going to change it.
--
-- Arguments: _log_id, _partition.
-- Returns:   upkeep, which begins at the earliest offset when there was none; NULL when somebody else
--            holds it or the partition is gone;
--            earliest  the partition's earliest offset.
-- Errors:    none.
-- Tables:    partition_states (locked), log_upkeep (read, written).
CREATE OR REPLACE FUNCTION pgcursus.lock_upkeep(
  _log_id bigint, _partition int, OUT upkeep pgcursus.log_upkeep, OUT earliest bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
BEGIN
  SELECT p.earliest_offset INTO earliest
    FROM partition_states p
   WHERE p.log_id = _log_id AND p.partition = _partition
     FOR NO KEY UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  INSERT INTO log_upkeep (log_id, partition, active_base, measured_offset, removed_offset)
  VALUES (_log_id, _partition, earliest, earliest, 0)
      ON CONFLICT DO NOTHING;
  SELECT u.* INTO upkeep FROM log_upkeep u WHERE u.log_id = _log_id AND u.partition = _partition;
END
$$;
