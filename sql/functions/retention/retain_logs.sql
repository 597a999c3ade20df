-- retain_logs: a step of delete retention in all topics (commands-1 5.1).
--
-- Arguments: _hours, _bytes  how long a closed segment is kept and what a partition may have, where the
--                            topic does not say; negative bytes: any;
--            _segment_bytes, _roll_ms  when a segment closes.
-- Returns:   done  rows removed; more  whether the pass through the partitions goes on;
--            records, bytes  what was in these rows.
-- Errors:    none.
-- Tables:    upkeep_passes (written), topic_definitions (read), and as retain_partition().
--
-- A step ends after some milliseconds, at the latest after one chunk of one partition. It takes no lock
-- that an append, a read or a commit of offsets needs, and waits for none: a partition that somebody else
-- sees to comes again in the next pass. Its commit is not waited for: what is lost in a crash is done again.
CREATE OR REPLACE FUNCTION pgcursus.retain_logs(
  _hours bigint, _bytes bigint, _segment_bytes bigint, _roll_ms bigint,
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
  SELECT p.* INTO _pass FROM upkeep_passes p WHERE p.task = 'retention' FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  PERFORM set_config('synchronous_commit', 'off', true);
  LOOP
    SELECT t.* INTO _topic
      FROM topic_definitions t
     WHERE (t.log_id, t.partition_count) > (_pass.log_id, _pass.partition)
     ORDER BY t.log_id
     LIMIT 1;
    more := FOUND;
    EXIT WHEN NOT more;
    IF _topic.log_id > _pass.log_id THEN
      _pass.log_id := _topic.log_id;
      _pass.partition := 0;
    END IF;
    _step := retain_partition(_topic, _pass.partition, _hours, _bytes, _segment_bytes, _roll_ms);
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
