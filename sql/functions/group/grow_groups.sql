-- grow_groups: gives the new partitions of a topic to the groups that consume it.
--
-- Arguments: _topic  the topic's name, whose row is locked; _partition_count  its new number of
--              partitions.
-- Returns:   nothing.
-- Errors:    serialization_failure: try again.
-- Tables:    group_definitions, group_members (written).
--
-- A group with members begins a new generation; one without just has more to assign.
CREATE OR REPLACE FUNCTION pgcursus.grow_groups(_topic text, _partition_count int)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _name    text;
  _current group_definitions;
BEGIN
  FOR _name IN
    SELECT g.name FROM group_definitions g
     WHERE g.registered AND g.topics @> ARRAY[_topic]
     ORDER BY g.name
  LOOP
    _current := lock_group(_name);
    UPDATE group_definitions g
       SET partition_counts[array_position(g.topics, _topic)] = _partition_count
     WHERE g.name = _name;
    PERFORM FROM group_members m WHERE m.group_id = _current.group_id;
    IF FOUND THEN
      PERFORM rebalance_group(_name);
    END IF;
  END LOOP;
END
$$;
