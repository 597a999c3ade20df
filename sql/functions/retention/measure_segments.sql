-- measure_segments: walks over rows that were appended since the last walk, and closes segments.
--
-- Arguments: _upkeep         the row of lock_upkeep();
--            _segment_bytes  a row that would make a segment larger begins the next one;
--            _roll_ms        a segment whose first row is older is closed, also when nothing follows.
-- Returns:   upkeep, changed, for store_upkeep(); is_complete  no row is left to measure.
-- Errors:    none.
-- Tables:    record_batches (read), log_segments (written).
--
-- Rows become visible in the order of their offsets, so what is seen is a prefix of the log and nobody
-- needs to be kept from appending.
CREATE OR REPLACE FUNCTION pgcursus.measure_segments(
  _upkeep pgcursus.log_upkeep, _segment_bytes bigint, _roll_ms bigint,
  OUT upkeep pgcursus.log_upkeep, OUT is_complete boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _limit CONSTANT int := 1000;
  _roll   interval := _roll_ms * interval '1 millisecond';
  _looked int := 0;
  _batch  record;
BEGIN
  upkeep := _upkeep;
  FOR _batch IN
    SELECT b.last_offset, b.byte_count, b.appended_at
      FROM record_batches b
     WHERE b.log_id = upkeep.log_id AND b.partition = upkeep.partition
       AND b.base_offset >= upkeep.measured_offset
     ORDER BY b.base_offset
     LIMIT _limit
  LOOP
    _looked := _looked + 1;
    IF upkeep.active_bytes + _batch.byte_count > _segment_bytes
       OR _batch.appended_at >= upkeep.active_since + _roll THEN
      upkeep := close_segment(upkeep);
    END IF;
    upkeep.active_since := coalesce(upkeep.active_since, _batch.appended_at);
    upkeep.active_bytes := upkeep.active_bytes + _batch.byte_count;
    upkeep.last_appended_at := greatest(upkeep.last_appended_at, _batch.appended_at);
    upkeep.measured_offset := _batch.last_offset + 1;
  END LOOP;
  is_complete := _looked < _limit;
  IF is_complete AND upkeep.active_since + _roll <= clock_timestamp() THEN
    upkeep := close_segment(upkeep);
  END IF;
END
$$;
