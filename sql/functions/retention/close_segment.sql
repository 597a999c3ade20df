-- close_segment: makes a closed segment of what was measured of the active one, unless that is empty.
--
-- Arguments: _upkeep  the state of the partition.
-- Returns:   the state with an empty active segment.
-- Errors:    none.
-- Tables:    log_segments (written).
CREATE OR REPLACE FUNCTION pgcursus.close_segment(_upkeep pgcursus.log_upkeep)
RETURNS pgcursus.log_upkeep
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
BEGIN
  IF _upkeep.active_since IS NULL THEN
    RETURN _upkeep;
  END IF;
  INSERT INTO log_segments (log_id, partition, base_offset, end_offset, byte_count, last_appended_at)
  VALUES (_upkeep.log_id, _upkeep.partition, _upkeep.active_base, _upkeep.measured_offset,
          _upkeep.active_bytes, _upkeep.last_appended_at);
  _upkeep.closed_bytes := _upkeep.closed_bytes + _upkeep.active_bytes;
  _upkeep.active_base := _upkeep.measured_offset;
  _upkeep.active_bytes := 0;
  _upkeep.active_since := NULL;
  RETURN _upkeep;
END
$$;
