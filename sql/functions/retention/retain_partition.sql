-- retain_partition: the next piece of a partition's delete retention.
--
-- Arguments: _topic, _partition;
--            _hours, _bytes  the broker's limits, used where the topic has none;
--            _segment_bytes, _roll_ms  as measure_segments() has them.
-- Returns:   is_finished  nothing is left to do for now, or somebody else does it;
--            done, records, bytes  rows removed and what was in them.
-- Errors:    none.
-- Tables:    partition_states, record_batches, log_upkeep, log_segments (read, written), and as the
--            functions it calls.
CREATE OR REPLACE FUNCTION pgcursus.retain_partition(
  _topic pgcursus.topic_definitions, _partition int, _hours bigint, _bytes bigint,
  _segment_bytes bigint, _roll_ms bigint,
  OUT is_finished boolean, OUT done bigint, OUT records bigint, OUT bytes bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _deletes   boolean := _topic.cleanup_policy <> 'compact';
  _before    timestamptz := clock_timestamp()  -- a century is for ever
                            - least(coalesce(nullif(_topic.retention_hours, 0), _hours), 876600)
                              * interval '1 hour';
  _max_bytes bigint := coalesce(nullif(_topic.retention_bytes, 0), _bytes);
  _upkeep    log_upkeep;
  _earliest  bigint;
  _step      record;
BEGIN
  is_finished := true;
  done := 0;
  records := 0;
  bytes := 0;
  -- Without a lock: most partitions have nothing to do.
  PERFORM
     FROM partition_states p
    CROSS JOIN LATERAL (
          SELECT b.base_offset, b.last_offset, b.record_count
            FROM record_batches b
           WHERE b.log_id = p.log_id AND b.partition = p.partition
           ORDER BY b.base_offset DESC
           LIMIT 1) l
     LEFT JOIN log_upkeep u ON u.log_id = p.log_id AND u.partition = p.partition
     LEFT JOIN LATERAL (
          SELECT s.last_appended_at
            FROM log_segments s
           WHERE s.log_id = p.log_id AND s.partition = p.partition
             AND s.base_offset >= p.earliest_offset
           ORDER BY s.base_offset
           LIMIT 1) oldest ON true
    WHERE p.log_id = _topic.log_id AND p.partition = _partition
      AND (u.log_id IS NULL
           OR l.last_offset >= u.measured_offset
           OR u.active_since + _roll_ms * interval '1 millisecond' <= clock_timestamp()
           OR (u.removed_offset < p.earliest_offset
               AND (l.base_offset > u.removed_offset OR l.record_count > 0))
           OR (_deletes AND oldest.last_appended_at < _before)
           OR (_deletes AND oldest.last_appended_at IS NOT NULL AND _max_bytes >= 0
               AND u.closed_bytes + u.active_bytes > _max_bytes));
  IF NOT FOUND THEN
    RETURN;
  END IF;
  _step := lock_upkeep(_topic.log_id, _partition);
  _upkeep := _step.upkeep;
  _earliest := _step.earliest;
  IF _upkeep.log_id IS NULL THEN
    RETURN;
  END IF;

  _step := measure_segments(_upkeep, _segment_bytes, _roll_ms);
  _upkeep := _step.upkeep;
  is_finished := _step.is_complete;
  IF _deletes THEN
    _step := retire_segments(_upkeep, _earliest, _before, _max_bytes);
    _upkeep := _step.upkeep;
    _earliest := _step.earliest;
    is_finished := is_finished AND NOT _step.more;
  END IF;
  IF _upkeep.removed_offset < _earliest THEN
    _step := remove_retired_batches(_upkeep, _earliest);
    _upkeep := _step.upkeep;
    done := _step.done;
    records := _step.records;
    bytes := _step.bytes;
    is_finished := is_finished AND NOT _step.more;
  END IF;
  PERFORM store_upkeep(_upkeep);
END
$$;
