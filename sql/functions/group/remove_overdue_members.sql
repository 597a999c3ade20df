-- remove_overdue_members: takes the members out of a group that have been silent for too long.
--
-- Arguments: _group_id            the group, which is locked;
--            _session_timeout_ms  how long a member may be silent.
-- Returns:   how many were removed; the caller rebalances.
-- Errors:    none.
-- Tables:    group_members (written).
CREATE OR REPLACE FUNCTION pgcursus.remove_overdue_members(_group_id bigint, _session_timeout_ms bigint)
RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _before  timestamptz := overdue_before(_session_timeout_ms);
  _removed bigint;
BEGIN
  DELETE FROM group_members m WHERE m.group_id = _group_id AND m.last_heartbeat < _before;
  GET DIAGNOSTICS _removed = ROW_COUNT;
  RETURN _removed;
END
$$;
