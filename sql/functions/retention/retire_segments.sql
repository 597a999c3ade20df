-- retire_segments: gives up the closed segments that retention has no room for (commands-1 5.1).
--
-- Arguments: _upkeep     the row of lock_upkeep();
--            _earliest   the partition's earliest offset;
--            _before     a segment whose last row was appended before goes;
--            _max_bytes  the oldest goes while the partition has more; negative: any size will do.
-- Returns:   upkeep, changed, for store_upkeep(); earliest  the earliest offset from now on;
--            more  there may be other segments to give up.
-- Errors:    none.
-- Tables:    log_segments, partition_states (written), transaction_partitions (read).
--
-- Oldest first, and never past the last stable offset. The rows are removed later: nobody reads below the
-- earliest offset. The end goes with it into the partition's row, so that it is known whatever is removed.
CREATE OR REPLACE FUNCTION pgcursus.retire_segments(
  _upkeep pgcursus.log_upkeep, _earliest bigint, _before timestamptz, _max_bytes bigint,
  OUT upkeep pgcursus.log_upkeep, OUT earliest bigint, OUT more boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _limit CONSTANT int := 200;
  _retired int := 0;
  _stable  bigint;
  _segment log_segments;
BEGIN
  upkeep := _upkeep;
  earliest := _earliest;
  SELECT x.first_offset INTO _stable
    FROM transaction_partitions x
   WHERE x.log_id = upkeep.log_id AND x.partition = upkeep.partition AND NOT x.resolved
     AND x.first_offset >= _earliest
   ORDER BY x.first_offset
   LIMIT 1;
  FOR _segment IN
    SELECT s.*
      FROM log_segments s
     WHERE s.log_id = upkeep.log_id AND s.partition = upkeep.partition
       AND s.base_offset >= _earliest
     ORDER BY s.base_offset
     LIMIT _limit
  LOOP
    EXIT WHEN _segment.end_offset > _stable
           OR (_segment.last_appended_at >= _before
               AND (_max_bytes < 0 OR upkeep.closed_bytes + upkeep.active_bytes <= _max_bytes));
    _retired := _retired + 1;
    earliest := _segment.end_offset;
    upkeep.closed_bytes := upkeep.closed_bytes - _segment.byte_count;
    upkeep.keyed_bytes := upkeep.keyed_bytes - _segment.keyed_bytes;
  END LOOP;
  more := _retired = _limit;
  IF _retired = 0 THEN
    RETURN;
  END IF;

  DELETE FROM log_segments s
   WHERE s.log_id = upkeep.log_id AND s.partition = upkeep.partition
     AND s.base_offset >= _earliest AND s.base_offset < earliest;
  UPDATE partition_states p
     SET earliest_offset = earliest, end_offset = greatest(p.end_offset, earliest)
   WHERE p.log_id = upkeep.log_id AND p.partition = upkeep.partition;
  IF upkeep.indexed_offset < earliest THEN
    upkeep.indexed_offset := earliest;
  END IF;
  IF upkeep.pass_end <= earliest THEN
    upkeep.pass_offset := NULL;
    upkeep.pass_end := NULL;
  ELSIF upkeep.pass_offset < earliest THEN
    upkeep.pass_offset := earliest;
  END IF;
  PERFORM announce_trimmed(upkeep.log_id, upkeep.partition, earliest);
END
$$;
