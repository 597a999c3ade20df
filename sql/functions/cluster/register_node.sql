-- register_node: makes the calling session a node's; the node is alive as long as the session is.
--
-- Arguments: _node_id;
--            _address  host:port that clients are told.
-- Returns:   false when another session holds that node id: the node it belongs to is alive, or its
--            death has not been noticed yet. Else true; calling again is harmless.
-- Errors:    none.
-- Tables:    node_registrations (read, written).
--
-- The lock is the session's and outlives the transaction. Other nodes are told.
CREATE OR REPLACE FUNCTION pgcursus.register_node(_node_id text, _address text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _lock_key int;
BEGIN
  INSERT INTO node_registrations (node_id, address) VALUES (_node_id, _address)
  ON CONFLICT (node_id) DO NOTHING;
  -- Locks the row: housekeeping removes none that is being registered.
  SELECT n.lock_key INTO _lock_key FROM node_registrations n WHERE n.node_id = _node_id FOR UPDATE;
  IF _lock_key IS NULL THEN
    RETURN false;
  END IF;
  IF EXISTS (SELECT FROM pg_locks l
              WHERE l.locktype = 'advisory' AND l.classid = 1885823844 AND l.objsubid = 2
                AND l.objid = _lock_key::oid AND l.granted AND l.pid = pg_backend_pid()) THEN
    RETURN true;
  END IF;
  IF NOT pg_try_advisory_lock(1885823844, _lock_key) THEN
    RETURN false;
  END IF;
  UPDATE node_registrations n
     SET address = _address, started_at = clock_timestamp(), lost_at = NULL
   WHERE n.node_id = _node_id;
  PERFORM pg_notify('pgcursus_control', 'nodes');
  RETURN true;
END
$$;
