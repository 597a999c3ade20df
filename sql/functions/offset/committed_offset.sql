-- committed_offset: the next offset that a group has committed for a partition.
--
-- Arguments: _group_id  an incarnation of a group; _log_id, _partition.
-- Returns:   the offset; NULL when nothing was ever committed.
-- Errors:    none.
-- Tables:    offset_commits (read).
CREATE OR REPLACE FUNCTION pgcursus.committed_offset(_group_id bigint, _log_id bigint, _partition int)
RETURNS bigint
LANGUAGE sql STABLE
AS $$
  SELECT o.next_offset
    FROM pgcursus.offset_commits o
   WHERE o.group_id = _group_id AND o.log_id = _log_id AND o.partition = _partition
   ORDER BY o.next_offset DESC
   LIMIT 1
$$;
