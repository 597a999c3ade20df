-- is_worth_compacting: whether enough of a partition's closed segments can be removed.
--
-- Arguments: _upkeep  the state of the partition, whose closed segments are all indexed;
--            _dirty_ratio  of removable to all bytes.
-- Returns:   true when there is something to remove and it is that much.
-- Errors:    none.
-- Tables:    latest_keys, latest_producers (read).
--
-- Of the ordinary records with a key, the newest of each key stays, and so does the newest of each
-- producer. The latter are looked at only when the former alone leave enough.
CREATE OR REPLACE FUNCTION pgcursus.is_worth_compacting(
  _upkeep pgcursus.log_upkeep, _dirty_ratio double precision)
RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _removable bigint := _upkeep.keyed_bytes - _upkeep.latest_bytes;
BEGIN
  IF _removable <= 0 OR _removable < _dirty_ratio * _upkeep.closed_bytes THEN
    RETURN false;
  END IF;
  SELECT _removable - coalesce(sum(p.byte_count), 0) INTO _removable
    FROM latest_producers p
   WHERE p.log_id = _upkeep.log_id AND p.partition = _upkeep.partition AND p.record_key IS NOT NULL
     AND EXISTS (SELECT
                   FROM latest_keys k
                  WHERE k.log_id = _upkeep.log_id AND k.partition = _upkeep.partition
                    AND k.record_key = p.record_key AND k.record_offset > p.record_offset);
  RETURN _removable > 0 AND _removable >= _dirty_ratio * _upkeep.closed_bytes;
END
$$;
