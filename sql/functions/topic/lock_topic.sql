-- lock_topic: keeps a topic and the groups that consume it as they are, until the transaction ends.
--
-- Arguments: _topic.
-- Returns:   the topic's row; NULL when there is none.
-- Errors:    lock_not_available after half a second: try again.
-- Tables:    topic_definitions, group_definitions (locked).
--
-- For READ COMMITTED: what the caller looks at afterwards has been committed before the locks were
-- had. A wait is short, since others wait for what is held already; also for the locks that the
-- caller takes next.
CREATE OR REPLACE FUNCTION pgcursus.lock_topic(_topic text)
RETURNS pgcursus.topic_definitions
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _found topic_definitions;
BEGIN
  PERFORM set_config('lock_timeout', '500ms', true);
  SELECT t.* INTO _found FROM topic_definitions t WHERE t.name = _topic FOR UPDATE;
  PERFORM FROM group_definitions g
    WHERE g.registered AND g.topics @> ARRAY[_topic]
    ORDER BY g.name
      FOR UPDATE;
  RETURN _found;
END
$$;
