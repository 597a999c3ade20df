-- group_in_use: whether somebody consumes a topic.
--
-- Arguments: _topic  the topic's name.
-- Returns:   the first group that consumes it and has members; NULL when there is none.
-- Errors:    none.
-- Tables:    group_definitions, group_members (read).
CREATE OR REPLACE FUNCTION pgcursus.group_in_use(_topic text)
RETURNS text
LANGUAGE sql STABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  SELECT g.name
    FROM group_definitions g
   WHERE g.registered AND g.topics @> ARRAY[_topic]
     AND EXISTS (SELECT FROM group_members m WHERE m.group_id = g.group_id)
   ORDER BY g.name
   LIMIT 1
$$;
