-- forget_latest: takes records that retention is about to remove from what compaction knows.
--
-- Arguments: _upkeep  the state of the partition;
--            _from, _to  the rows that go: those that begin at or behind _from and before _to. There is no
--                     row before _from.
-- Returns:   the state, changed, for store_upkeep().
-- Errors:    none.
-- Tables:    record_batches (read), latest_keys, latest_producers (written).
CREATE OR REPLACE FUNCTION pgcursus.forget_latest(
  _upkeep pgcursus.log_upkeep, _from bigint, _to bigint)
RETURNS pgcursus.log_upkeep
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _bytes bigint;
BEGIN
  IF _upkeep.indexed_offset IS NULL THEN
    RETURN _upkeep;
  END IF;
  WITH gone AS (
    DELETE FROM latest_keys k
     USING (SELECT DISTINCT short_key(e.key) AS record_key
              FROM record_batches b
             CROSS JOIN LATERAL unnest(b.keys) AS e (key)
             WHERE b.log_id = _upkeep.log_id AND b.partition = _upkeep.partition
               AND b.base_offset >= _from AND b.base_offset < _to AND e.key <> '') r
     WHERE k.log_id = _upkeep.log_id AND k.partition = _upkeep.partition
       AND k.record_key = r.record_key AND k.record_offset < _to
    RETURNING k.byte_count
  )
  SELECT coalesce(sum(g.byte_count), 0) INTO _bytes FROM gone g;
  _upkeep.latest_bytes := _upkeep.latest_bytes - _bytes;
  DELETE FROM latest_producers p
   USING (SELECT DISTINCT short_key(convert_to(i.producer_id, 'UTF8')) AS producer_key
            FROM record_batches b
           CROSS JOIN LATERAL unnest(coalesce(b.producer_ids, ARRAY[b.producer_id])) AS i (producer_id)
           WHERE b.log_id = _upkeep.log_id AND b.partition = _upkeep.partition
             AND b.base_offset >= _from AND b.base_offset < _to) r
   WHERE p.log_id = _upkeep.log_id AND p.partition = _upkeep.partition
     AND p.producer_key = r.producer_key AND p.record_offset < _to;
  RETURN _upkeep;
END
$$;
