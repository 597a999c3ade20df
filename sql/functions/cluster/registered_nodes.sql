-- registered_nodes: every registered node, and whether it is alive now.
--
-- Arguments: none.
-- Returns:   a row a node, ordered by id (bytewise). last_seen is now for a node that is alive; for
--            another the time when its death was noticed, or, until then, now.
-- Errors:    none.
-- Tables:    node_registrations (read).
CREATE OR REPLACE FUNCTION pgcursus.registered_nodes()
RETURNS TABLE (node_id text, address text, started_at timestamptz, last_seen timestamptz, is_alive boolean)
LANGUAGE sql VOLATILE SECURITY DEFINER ROWS 10
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  SELECT n.node_id, n.address, n.started_at,
         CASE WHEN live.yes THEN clock_timestamp() ELSE coalesce(n.lost_at, clock_timestamp()) END,
         live.yes
    FROM node_registrations n
   CROSS JOIN (SELECT live_node_keys() AS keys) k
   CROSS JOIN LATERAL (SELECT n.lock_key = ANY (k.keys) AS yes) live
   ORDER BY n.node_id
$$;
