-- assignment_of: what a member has, as joining and synchronizing answer it.
--
-- Arguments: _group   the group's name; _member  the member's id; both exist;
--            _topic   only this topic's partitions; NULL: all.
-- Returns:   a row a partition in order; one row without topic and partition when there is none.
-- Errors:    none.
-- Tables:    group_definitions, group_members (read).
CREATE OR REPLACE FUNCTION pgcursus.assignment_of(_group text, _member text, _topic text)
RETURNS SETOF pgcursus.member_assignment
LANGUAGE plpgsql STABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
BEGIN
  RETURN QUERY
  SELECT g.group_id, g.generation, m.member_id, g.selector <> 'topic', p.topic, p.partition
    FROM group_definitions g
    JOIN group_members m ON m.group_id = g.group_id
    LEFT JOIN LATERAL positions_of(g.topics, g.partition_counts, m.first_position, m.position_count) p
      ON _topic IS NULL OR p.topic = _topic
   WHERE g.name = _group AND m.member_id = _member;
END
$$;
