-- delete_topic: deletes a topic with everything in it.
--
-- Arguments: _topic;
--            _if_exists  a topic that does not exist is no error.
-- Returns:   whether there was one.
-- Errors:    PC001 topic_not_found {topic}, topic_delete_blocked {topic, reason};
--            lock_not_available: try again.
-- Tables:    topic_definitions (written), and as the functions it calls.
--
-- Runs at READ COMMITTED (lock_topic). What forbids it without touching publishers is looked at
-- before they are made to wait.
CREATE OR REPLACE FUNCTION pgcursus.delete_topic(_topic text, _if_exists boolean)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _current topic_definitions := lock_topic(_topic);
BEGIN
  IF _current.topic_id IS NULL AND NOT _if_exists THEN
    PERFORM refuse('topic_not_found', jsonb_build_object('topic', _topic));
  END IF;
  PERFORM check_topic_unused(_topic, _current.log_id, 'topic_delete_blocked');
  IF _current.topic_id IS NULL THEN
    RETURN false;
  END IF;

  PERFORM lock_log(_current.log_id, _current.partition_count);
  PERFORM check_topic_unused(_topic, _current.log_id, 'topic_delete_blocked');
  PERFORM abandon_log(_current);
  DELETE FROM topic_definitions t WHERE t.topic_id = _current.topic_id;
  RETURN true;
END
$$;
