-- nodes: the broker nodes that are registered.
--
-- alive tells whether the node's session is there now. A node that died stays for a while; last_seen
-- is then about when that was noticed.
CREATE OR REPLACE VIEW pgcursus.nodes AS
SELECT n.node_id, n.address, n.started_at, n.last_seen, n.is_alive AS alive
  FROM pgcursus.registered_nodes() n;
