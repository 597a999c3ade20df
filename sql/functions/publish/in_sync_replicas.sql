-- in_sync_replicas: how many servers have everything this one acknowledges with acks=all.
--
-- Arguments: none.
-- Returns:   1 for the primary, plus each synchronous standby that is streaming now. Always 1
--            when pgcursus_owner lacks pg_read_all_stats: standbys are then not seen.
-- Errors:    none.
-- Tables:    none.
CREATE OR REPLACE FUNCTION pgcursus.in_sync_replicas()
RETURNS int
LANGUAGE sql STABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  SELECT 1 + count(*)::int
    FROM pg_stat_get_wal_senders() w
   WHERE w.state = 'streaming' AND w.sync_state IN ('sync', 'quorum')
$$;
