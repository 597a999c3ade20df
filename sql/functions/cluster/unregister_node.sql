-- unregister_node: a node leaves; its session holds the registration.
--
-- Arguments: _node_id.
-- Returns:   nothing.
-- Errors:    none.
-- Tables:    node_registrations (written).
CREATE OR REPLACE FUNCTION pgcursus.unregister_node(_node_id text)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
BEGIN
  DELETE FROM node_registrations n WHERE n.node_id = _node_id;
  PERFORM pg_notify('pgcursus_control', 'nodes');
END
$$;
