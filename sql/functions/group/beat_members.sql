-- beat_members: the heartbeats of many members, which a node has accepted and gathered.
--
-- Arguments: _group_ids, _members  arrays of one length.
-- Returns:   a row each, in order: the group's generation, NULL when the member is gone; and whether
--              the heartbeat was written down: not while the member's row is locked; then it comes
--              again with the next ones.
-- Errors:    none.
-- Tables:    group_definitions (read), group_members (written).
--
-- Waits for nobody, so a rebalance in progress costs nothing here and cannot deadlock with it. A node
-- accepts heartbeats of what it takes for the current generation; one that is wrong learns it here.
CREATE OR REPLACE FUNCTION pgcursus.beat_members(_group_ids bigint[], _members text[])
RETURNS TABLE (current_generation bigint, is_written boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER ROWS 100
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
BEGIN
  RETURN QUERY
  WITH beats AS MATERIALIZED (
    SELECT b.place, b.group_id, b.member_id, g.generation
      FROM unnest(_group_ids, _members) WITH ORDINALITY AS b (group_id, member_id, place)
      JOIN group_definitions g ON g.group_id = b.group_id AND g.registered
      JOIN group_members m ON m.group_id = b.group_id AND m.member_id = b.member_id
  ), free AS MATERIALIZED (
    SELECT m.group_id, m.member_id
      FROM beats b
      JOIN group_members m ON m.group_id = b.group_id AND m.member_id = b.member_id
       FOR NO KEY UPDATE OF m SKIP LOCKED
  ), written AS (
    UPDATE group_members m SET last_heartbeat = clock_timestamp()
      FROM free f
     WHERE m.group_id = f.group_id AND m.member_id = f.member_id
    RETURNING m.group_id, m.member_id
  )
  SELECT b.generation, w.member_id IS NOT NULL
    FROM generate_series(1, cardinality(_group_ids)) AS n (place)
    LEFT JOIN beats b ON b.place = n.place
    LEFT JOIN written w ON w.group_id = b.group_id AND w.member_id = b.member_id
   ORDER BY n.place;
END
$$;
