-- committed_offsets: what several groups have committed, of one snapshot.
--
-- Arguments: _groups, _log_ids, _partitions  arrays of one length.
-- Returns:   a row each, in order; NULL where nothing was committed or the group is not registered.
-- Errors:    none.
-- Tables:    group_definitions, offset_commits (read).
--
-- Where consumers of a node begin: one query for all that ask at the same time.
CREATE OR REPLACE FUNCTION pgcursus.committed_offsets(
  _groups text[], _log_ids bigint[], _partitions int[])
RETURNS SETOF bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 10
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
BEGIN
  RETURN QUERY
  SELECT committed_offset(g.group_id, w.log_id, w.partition)
    FROM unnest(_groups, _log_ids, _partitions) WITH ORDINALITY
           AS w (group_name, log_id, partition, place)
    LEFT JOIN group_definitions g ON g.name = w.group_name AND g.registered
   ORDER BY w.place;
END
$$;
