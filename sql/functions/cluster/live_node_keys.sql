-- live_node_keys: the lock_key of every node that is alive.
--
-- Arguments: none.
-- Returns:   an array, empty when no node is.
-- Errors:    none.
-- Tables:    pg_locks (read).
CREATE OR REPLACE FUNCTION pgcursus.live_node_keys()
RETURNS int[]
LANGUAGE sql VOLATILE
AS $$
  SELECT coalesce(array_agg(l.objid::int), '{}')
    FROM pg_catalog.pg_locks l
   WHERE l.locktype = 'advisory' AND l.classid = 1885823844 AND l.objsubid = 2 AND l.granted
     AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d
                        WHERE d.datname = pg_catalog.current_database())
$$;
