-- group_status: a group, its members and what they have.
--
-- Arguments: _group  the group's name.
-- Returns:   a row for each member and partition it has, in order; a member without partitions has one
--            row without topic and partition, a group without members one row without member. Times
--            are RFC 3339 texts; last_rebalance is NULL when there was none.
-- Errors:    PC001 group_not_found {group}.
-- Tables:    group_definitions, group_members (read).
CREATE OR REPLACE FUNCTION pgcursus.group_status(_group text)
RETURNS TABLE (
  selector text, selector_text text, topics text, generation bigint, member_count bigint,
  partition_count bigint, last_rebalance text, member_id text, last_heartbeat text, topic text,
  partition int)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT g.selector, g.selector_text, array_to_string(g.topics, ','), g.generation,
         (SELECT count(*) FROM group_members c WHERE c.group_id = g.group_id),
         (SELECT sum(c.n) FROM unnest(g.partition_counts) AS c (n)),
         utc_text(g.last_rebalance), m.member_id, utc_text(m.last_heartbeat), p.topic, p.partition
    FROM group_definitions g
    LEFT JOIN group_members m ON m.group_id = g.group_id
    LEFT JOIN LATERAL positions_of(g.topics, g.partition_counts, m.first_position, m.position_count) p
      ON m.member_id IS NOT NULL
   WHERE g.name = _group AND g.registered
   ORDER BY m.member_id, array_position(g.topics, p.topic), p.partition;
  IF NOT FOUND THEN
    PERFORM refuse('group_not_found', jsonb_build_object('group', _group));
  END IF;
END
$$;
