-- remove_old_logs: a step of removing the rows of logs that no topic has any more.
--
-- Arguments: none.
-- Returns:   done  rows removed;
--            more  whether there is more to remove.
-- Errors:    none.
-- Tables:    removed_logs (read, written), topic_definitions (read), all tables that have rows by
--            log (written).
--
-- A step ends after some milliseconds, at the latest after one chunk that is limited in rows and
-- bytes: nothing that it does may hold up a publish. Its commit is not waited for, as a step that
-- is lost in a crash is simply done again. Whoever keeps house at the same time takes another log.
CREATE OR REPLACE FUNCTION pgcursus.remove_old_logs()
RETURNS TABLE (done bigint, more boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER ROWS 1
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _deadline timestamptz := clock_timestamp() + interval '20 ms';
  _log      removed_logs;
  _removed  bigint;
BEGIN
  done := 0;
  SELECT r.* INTO _log FROM removed_logs r ORDER BY r.log_id LIMIT 1 FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    more := false;
    RETURN NEXT;
    RETURN;
  END IF;
  IF EXISTS (SELECT FROM topic_definitions t WHERE t.log_id = _log.log_id) THEN
    RAISE EXCEPTION 'log % is to be removed, but a topic has it', _log.log_id;
  END IF;

  PERFORM set_config('synchronous_commit', 'off', true);
  LOOP
    SELECT c.removed, (c.next).* INTO _removed, _log.log_id, _log.removed_at, _log.stage,
           _log.partition_count, _log.partition, _log.position, _log.stream_key
      FROM remove_log_chunk(_log) c;
    done := done + _removed;
    EXIT WHEN _log.stage IS NULL OR clock_timestamp() > _deadline;
  END LOOP;

  IF _log.stage IS NULL THEN
    DELETE FROM removed_logs r WHERE r.log_id = _log.log_id;
    more := EXISTS (SELECT FROM removed_logs);
  ELSE
    UPDATE removed_logs r
       SET (stage, partition, position, stream_key) =
           (_log.stage, _log.partition, _log.position, _log.stream_key)
     WHERE r.log_id = _log.log_id;
    more := true;
  END IF;
  RETURN NEXT;
END
$$;
