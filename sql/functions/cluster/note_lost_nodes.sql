-- note_lost_nodes: a step of housekeeping: notes since when nodes are dead, forgets those long dead.
--
-- Arguments: _expiration_ms  how long a dead node is still shown.
-- Returns:   done  rows changed or removed; more  always false.
-- Errors:    none.
-- Tables:    node_registrations (written).
--
-- A node that registers again locks its row first and is seen to be alive, or finds the row gone and
-- tries again.
CREATE OR REPLACE FUNCTION pgcursus.note_lost_nodes(_expiration_ms bigint, OUT done bigint, OUT more boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _changed bigint;
BEGIN
  more := false;
  UPDATE node_registrations n SET lost_at = clock_timestamp()
   WHERE n.lost_at IS NULL AND n.lock_key <> ALL (live_node_keys());
  GET DIAGNOSTICS done = ROW_COUNT;
  DELETE FROM node_registrations n
   WHERE n.lost_at < clock_timestamp() - _expiration_ms * interval '1 millisecond'
     AND n.lock_key <> ALL (live_node_keys());
  GET DIAGNOSTICS _changed = ROW_COUNT;
  done := done + _changed;
END
$$;
