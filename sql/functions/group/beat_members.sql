-- beat_members: the heartbeats of many members, which a node has gathered.
--
-- Arguments: _group_ids, _members, _generations  arrays of one length; a NULL generation is not
--              compared.
-- Returns:   a row each, in order: the group's generation, NULL when the member is gone; and whether
--              the heartbeat was written down: not that of an old generation, nor while the member's
--              row is locked: then it comes again with the next ones.
-- Errors:    none.
-- Tables:    group_definitions (read), group_members (written).
--
-- Waits for nobody, so a rebalance in progress costs nothing here and cannot deadlock with it.
CREATE OR REPLACE FUNCTION pgcursus.beat_members(
  _group_ids bigint[], _members text[], _generations bigint[])
RETURNS TABLE (current_generation bigint, is_written boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER ROWS 100
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
BEGIN
  RETURN QUERY
  WITH beats AS MATERIALIZED (
    SELECT b.place, b.group_id, b.member_id, b.generation, g.generation AS now
      FROM unnest(_group_ids, _members, _generations) WITH ORDINALITY
             AS b (group_id, member_id, generation, place)
      LEFT JOIN group_definitions g ON g.group_id = b.group_id AND g.registered
  ), free AS MATERIALIZED (
    SELECT m.group_id, m.member_id
      FROM beats b
      JOIN group_members m ON m.group_id = b.group_id AND m.member_id = b.member_id
     WHERE b.generation IS NULL OR b.generation = b.now
       FOR NO KEY UPDATE OF m SKIP LOCKED
  ), written AS (
    UPDATE group_members m SET last_heartbeat = clock_timestamp()
      FROM free f
     WHERE m.group_id = f.group_id AND m.member_id = f.member_id
    RETURNING m.group_id, m.member_id
  )
  SELECT CASE WHEN EXISTS (SELECT FROM group_members m
                            WHERE m.group_id = b.group_id AND m.member_id = b.member_id)
              THEN b.now END,
         w.member_id IS NOT NULL
    FROM beats b
    LEFT JOIN written w ON w.group_id = b.group_id AND w.member_id = b.member_id
   ORDER BY b.place;
END
$$;
