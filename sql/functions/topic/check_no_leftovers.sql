-- check_no_leftovers: refuses a new topic while a deleted one of its name is still referred to.
--
-- Arguments: _topic  the name of a topic that does not exist.
-- Returns:   nothing.
-- Errors:    PC001 create_topic_failed {topic, reason}.
-- Tables:    group_definitions (read).
--
-- A deletion leaves no such reference behind; what a restored or repaired database has is not for a
-- new topic to inherit. Transactions name logs, which are never used again.
CREATE OR REPLACE FUNCTION pgcursus.check_no_leftovers(_topic text)
RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _group text;
BEGIN
  SELECT g.name INTO _group
    FROM group_definitions g
   WHERE g.registered AND g.topics @> ARRAY[_topic]
   ORDER BY g.name
   LIMIT 1;
  IF FOUND THEN
    PERFORM refuse('create_topic_failed', jsonb_build_object(
      'topic', _topic, 'reason', format(
        'lifecycle cleanup is pending: group %s belongs to a deleted topic of this name', _group)));
  END IF;
END
$$;
