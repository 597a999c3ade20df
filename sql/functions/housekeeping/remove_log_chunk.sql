-- remove_log_chunk: removes the next rows of a log, and says where to go on.
--
-- Arguments: _log  the log and how far its removal has come.
-- Returns:   removed  number of rows removed;
--            next     _log with the place to go on from; its stage is NULL when all is gone.
-- Errors:    none.
-- Tables:    partition_states (written), and as the functions it calls.
--
-- Rows go in the order of their index from a known place on: what was deleted before stays in the
-- index for as long as some snapshot may see it, and must not be walked over again each time.
CREATE OR REPLACE FUNCTION pgcursus.remove_log_chunk(
  _log pgcursus.removed_logs, OUT removed bigint, OUT next pgcursus.removed_logs)
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _after_partition int := _log.partition + 1;
BEGIN
  next := _log;
  CASE _log.stage
  WHEN 'records' THEN
    SELECT c.removed, c.next_offset INTO removed, next.position
      FROM remove_record_batches(_log.log_id, _log.partition, _log.position) c;
    IF removed = 0 THEN
      next.partition := _after_partition;
      next.position := 0;
      IF _after_partition >= _log.partition_count THEN
        next.stage := 'versions';
      END IF;
    END IF;

  WHEN 'versions' THEN
    SELECT c.removed, c.next_key, c.next_version INTO removed, next.stream_key, next.position
      FROM remove_stream_versions(_log.log_id, _log.stream_key, _log.position) c;
    IF removed = 0 THEN
      next.stage := 'snapshots';
      next.stream_key := '';
    END IF;

  WHEN 'snapshots' THEN
    SELECT c.removed, c.next_key INTO removed, next.stream_key
      FROM remove_stream_snapshots(_log.log_id, _log.stream_key) c;
    IF removed = 0 THEN
      next.stage := 'states';
      next.partition := 0;
    END IF;

  ELSE
    -- First what a step of retention or compaction locks while it works on the partition: whatever it was
    -- writing is then there, and no other begins.
    DELETE FROM partition_states p WHERE p.log_id = _log.log_id AND p.partition = _log.partition;
    GET DIAGNOSTICS removed = ROW_COUNT;
    IF removed = 0 THEN
      removed := remove_partition_rows(_log.log_id, _log.partition);
    END IF;
    IF removed = 0 THEN
      next.partition := _after_partition;
      IF _after_partition >= _log.partition_count THEN
        next.stage := NULL;
      END IF;
    END IF;
  END CASE;
END
$$;
