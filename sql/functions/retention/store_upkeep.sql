-- store_upkeep: writes down how far the upkeep of a partition has come.
--
-- Arguments: _upkeep  the row of lock_upkeep(), changed.
-- Returns:   nothing.
-- Errors:    none.
-- Tables:    log_upkeep (written).
CREATE OR REPLACE FUNCTION pgcursus.store_upkeep(_upkeep pgcursus.log_upkeep)
RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  UPDATE log_upkeep u
     SET (active_base, measured_offset, active_bytes, active_since, last_appended_at, closed_bytes,
          removed_offset, indexed_offset, keyed_bytes, latest_bytes, pass_offset, pass_end) =
         (_upkeep.active_base, _upkeep.measured_offset, _upkeep.active_bytes, _upkeep.active_since,
          _upkeep.last_appended_at, _upkeep.closed_bytes, _upkeep.removed_offset,
          _upkeep.indexed_offset, _upkeep.keyed_bytes, _upkeep.latest_bytes, _upkeep.pass_offset,
          _upkeep.pass_end)
   WHERE u.log_id = _upkeep.log_id AND u.partition = _upkeep.partition
     AND u IS DISTINCT FROM _upkeep
$$;
