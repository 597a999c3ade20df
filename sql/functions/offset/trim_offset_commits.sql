-- trim_offset_commits: a step of removing committed offsets that count no more.
--
-- Arguments: none.
-- Returns:   done  rows removed;
--            more  whether the pass through the table goes on.
-- Errors:    none.
-- Tables:    offset_commits, offset_trim_progress (written), group_definitions (read).
--
-- Removes those below the partition's current one, and all of an incarnation that is no more. A step
-- looks at so many rows in the order of the key and remembers where it stopped; the last one is looked
-- at again, as it may be superseded by the next.
CREATE OR REPLACE FUNCTION pgcursus.trim_offset_commits()
RETURNS TABLE (done bigint, more boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER ROWS 1
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _limit CONSTANT int := 4000;
  _from  offset_trim_progress;
  _last  record;
BEGIN
  SELECT p.* INTO _from FROM offset_trim_progress p FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    done := 0;
    more := false;
    RETURN NEXT;
    RETURN;
  END IF;
  WITH looked AS MATERIALIZED (
    SELECT c.group_id, c.log_id, c.partition, c.next_offset
      FROM offset_commits c
     WHERE (c.group_id, c.log_id, c.partition, c.next_offset) >=
           (_from.group_id, _from.log_id, _from.partition, _from.next_offset)
     ORDER BY c.group_id, c.log_id, c.partition, c.next_offset
     LIMIT _limit
  ), judged AS (
    SELECT l.*,
           lead(l.next_offset) OVER (PARTITION BY l.group_id, l.log_id, l.partition
                                     ORDER BY l.next_offset) IS NOT NULL
             OR NOT EXISTS (SELECT FROM group_definitions g
                             WHERE g.group_id = l.group_id AND g.registered) AS is_dead
      FROM looked l
  ), removed AS (
    DELETE FROM offset_commits d
     USING judged j
     WHERE j.is_dead AND d.group_id = j.group_id AND d.log_id = j.log_id
       AND d.partition = j.partition AND d.next_offset = j.next_offset
    RETURNING 1
  )
  SELECT (SELECT count(*) FROM looked) AS looked_count, (SELECT count(*) FROM removed) AS removed_count,
         l.group_id, l.log_id, l.partition, l.next_offset
    INTO _last
    FROM (SELECT) one
    LEFT JOIN (SELECT k.* FROM looked k
                ORDER BY k.group_id DESC, k.log_id DESC, k.partition DESC, k.next_offset DESC
                LIMIT 1) l ON true;
  done := _last.removed_count;
  more := _last.looked_count = _limit;
  IF more THEN
    UPDATE offset_trim_progress
       SET (group_id, log_id, partition, next_offset) =
           (_last.group_id, _last.log_id, _last.partition, _last.next_offset);
  ELSIF _from.group_id > 0 THEN
    UPDATE offset_trim_progress SET (group_id, log_id, partition, next_offset) = (0, 0, 0, 0);
  END IF;
  RETURN NEXT;
END
$$;
