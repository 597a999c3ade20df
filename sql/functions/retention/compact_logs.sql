-- compact_logs: a step of compaction in all topics that want it (commands-1 5.2).
--
-- Arguments: _dirty_ratio  the share of removable bytes in the closed segments of a partition that makes a
--                          pass through it worthwhile;
--            _segment_bytes, _roll_ms  when a segment closes.
-- Returns:   done  rows rewritten or removed; more  whether the pass through the partitions goes on;
--            records, bytes  that were removed.
-- Errors:    none.
-- Tables:    upkeep_passes (written), topic_definitions (read), and as compact_partition().
--
-- Nothing is done while a synchronous standby is missing. As careful as retain_logs() is.
CREATE OR REPLACE FUNCTION pgcursus.compact_logs(
  _dirty_ratio double precision, _segment_bytes bigint, _roll_ms bigint,
  OUT done bigint, OUT more boolean, OUT records bigint, OUT bytes bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
  _deadline timestamptz := clock_timestamp() + interval '20 ms';
  _pass     upkeep_passes;
  _topic    topic_definitions;
  _step     record;
BEGIN
  done := 0;
  records := 0;
  bytes := 0;
  more := false;
  SELECT p.* INTO _pass FROM upkeep_passes p WHERE p.task = 'compaction' FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  PERFORM note_standbys();
  IF current_setting('pgcursus.standby_is_missing', true) = 'on' THEN
    RETURN;
  END IF;
  PERFORM set_config('synchronous_commit', 'off', true);
  LOOP
    SELECT t.* INTO _topic
      FROM topic_definitions t
     WHERE (t.log_id, t.partition_count) > (_pass.log_id, _pass.partition)
       AND t.cleanup_policy <> 'delete'
     ORDER BY t.log_id
     LIMIT 1;
    more := FOUND;
    EXIT WHEN NOT more;
    IF _topic.log_id > _pass.log_id THEN
      _pass.log_id := _topic.log_id;
      _pass.partition := 0;
    END IF;
    _step := compact_partition(_topic.log_id, _pass.partition, _dirty_ratio, _segment_bytes, _roll_ms);
    done := done + _step.done;
    records := records + _step.records;
    bytes := bytes + _step.bytes;
    IF _step.is_finished THEN
      _pass.partition := _pass.partition + 1;
    END IF;
    EXIT WHEN clock_timestamp() > _deadline;
  END LOOP;
  PERFORM store_pass(_pass, more);
END
$$;
