-- retire_groups: ends the groups that consume a topic, when the topic is deleted or truncated.
--
-- Arguments: _topic  the topic's name, whose row is locked. No group on it has members
--              (group_in_use).
-- Returns:   nothing.
-- Errors:    serialization_failure: try again.
-- Tables:    group_definitions (written).
--
-- The name keeps its registration epoch, raised by one. The offsets belong to an incarnation that is
-- no more, so nobody sees them; trim_offset_commits() removes them.
CREATE OR REPLACE FUNCTION pgcursus.retire_groups(_topic text)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _name text;
BEGIN
  FOR _name IN
    SELECT g.name FROM group_definitions g
     WHERE g.registered AND g.topics @> ARRAY[_topic]
     ORDER BY g.name
  LOOP
    PERFORM lock_group(_name);
    UPDATE group_definitions g
       SET registered = false, registration_epoch = g.registration_epoch + 1
     WHERE g.name = _name;
    PERFORM pg_notify('pgcursus_control', 'group ' || _name);
  END LOOP;
END
$$;
