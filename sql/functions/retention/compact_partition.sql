-- compact_partition: the next piece of a partition's compaction.
--
-- Arguments: _log_id, _partition; _dirty_ratio, _segment_bytes, _roll_ms  as compact_logs() has them.
-- Returns:   is_finished  nothing is left to do for now, or somebody else does it;
--            done  rows rewritten or removed; records, bytes  that were removed.
-- Errors:    none.
-- Tables:    partition_states, record_batches, log_upkeep (read, written), and as the functions it calls.
--
-- One thing at a time: segments are closed; then what they hold is indexed; then, if enough of it can go,
-- a pass walks over all of it. Rows that retention has given up are left to it.
CREATE OR REPLACE FUNCTION pgcursus.compact_partition(
  _log_id bigint, _partition int, _dirty_ratio double precision, _segment_bytes bigint,
  _roll_ms bigint,
  OUT is_finished boolean, OUT done bigint, OUT records bigint, OUT bytes bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _upkeep   log_upkeep;
  _earliest bigint;
  _step     record;
BEGIN
  is_finished := true;
  done := 0;
  records := 0;
  bytes := 0;
  -- Without a lock: most partitions have nothing to do.
  PERFORM
     FROM (SELECT b.last_offset
             FROM record_batches b
            WHERE b.log_id = _log_id AND b.partition = _partition
            ORDER BY b.base_offset DESC
            LIMIT 1) l
     LEFT JOIN log_upkeep u ON u.log_id = _log_id AND u.partition = _partition
    WHERE u.log_id IS NULL
       OR l.last_offset >= u.measured_offset
       OR u.active_since + _roll_ms * interval '1 millisecond' <= clock_timestamp()
       OR u.indexed_offset IS DISTINCT FROM u.active_base
       OR u.pass_end IS NOT NULL
       OR (u.keyed_bytes > u.latest_bytes
           AND u.keyed_bytes - u.latest_bytes >= _dirty_ratio * u.closed_bytes);
  IF NOT FOUND THEN
    RETURN;
  END IF;
  _step := lock_upkeep(_log_id, _partition);
  _upkeep := _step.upkeep;
  _earliest := _step.earliest;
  IF _upkeep.log_id IS NULL OR _upkeep.removed_offset < _earliest THEN
    RETURN;
  END IF;

  _step := measure_segments(_upkeep, _segment_bytes, _roll_ms);
  _upkeep := _step.upkeep;
  is_finished := _step.is_complete;
  _upkeep.indexed_offset := coalesce(_upkeep.indexed_offset, _earliest);
  IF _upkeep.pass_end IS NULL AND _upkeep.indexed_offset < _upkeep.active_base THEN
    _upkeep := index_latest(_upkeep);
    is_finished := false;
  ELSIF _upkeep.pass_end IS NULL AND is_worth_compacting(_upkeep, _dirty_ratio) THEN
    _upkeep.pass_offset := _earliest;
    _upkeep.pass_end := _upkeep.indexed_offset;
  END IF;
  IF _upkeep.pass_end IS NOT NULL THEN
    _step := compact_batches(_upkeep);
    _upkeep := _step.upkeep;
    done := _step.done;
    records := _step.records;
    bytes := _step.bytes;
    is_finished := false;
  END IF;
  PERFORM store_upkeep(_upkeep);
END
$$;
