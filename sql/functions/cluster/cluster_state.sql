-- cluster_state: what belongs to no node and no partition in CLUSTER_STATUS.
--
-- Arguments: none.
-- Returns:   wal_position  bytes of WAL written so far;
--            leader        the id of the node that keeps house; NULL when there is none, or when
--                          pgcursus_owner lacks pg_read_all_stats.
-- Errors:    none.
-- Tables:    node_registrations, pg_locks, pg_stat_activity (read).
CREATE OR REPLACE FUNCTION pgcursus.cluster_state(OUT wal_position bigint, OUT leader text)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint,
         (SELECT n.node_id
            FROM pg_locks l
            JOIN pg_stat_activity a ON a.pid = l.pid
            JOIN node_registrations n ON a.application_name = left('pgcursus ' || n.node_id, 63)
           WHERE l.locktype = 'advisory' AND l.classid = 1885823843 AND l.objid = 2
             AND l.objsubid = 2 AND l.granted
             AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
           LIMIT 1)
$$;
