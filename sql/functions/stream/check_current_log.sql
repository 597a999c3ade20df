-- check_current_log: refuses when a log is no longer any topic's.
--
-- Arguments: _log_id  the log the caller believes to be a topic's.
-- Returns:   nothing.
-- Errors:    PC001 stale_log: the node reads the topic's definition again and repeats the call.
-- Tables:    topic_definitions (read).
CREATE OR REPLACE FUNCTION pgcursus.check_current_log(_log_id bigint)
RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM topic_definitions t WHERE t.log_id = _log_id) THEN
    PERFORM refuse('stale_log', jsonb_build_object('log', _log_id::text));
  END IF;
END
$$;
