-- index_latest: adds the next rows of closed segments to what compaction knows.
--
-- Arguments: _upkeep  the row of lock_upkeep(); indexed_offset lies in a closed segment.
-- Returns:   the state, changed, for store_upkeep().
-- Errors:    none.
-- Tables:    record_batches (read), latest_keys, latest_producers, log_segments (written).
--
-- In the order of offsets, so whatever comes is newer than what is there. A record is ordinary that is
-- neither transactional nor a marker.
CREATE OR REPLACE FUNCTION pgcursus.index_latest(_upkeep pgcursus.log_upkeep)
RETURNS pgcursus.log_upkeep
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _from    bigint := _upkeep.indexed_offset;
  _segment log_segments := segment_at(_upkeep.log_id, _upkeep.partition, _upkeep.indexed_offset);
  _to      bigint := chunk_end(_upkeep.log_id, _upkeep.partition, _from, _segment.end_offset, 1000);
  _seen    record;
BEGIN
  _upkeep.indexed_offset := coalesce(_to, _segment.end_offset);
  WITH records AS MATERIALIZED (
    SELECT b.base_offset + coalesce(r.offset_delta, r.n - 1) AS record_offset,
           octet_length(r.payload) + coalesce(octet_length(r.key), 0) AS byte_count,
           CASE WHEN b.transaction_id IS NULL AND r.key <> '' THEN short_key(r.key) END AS record_key,
           short_key(convert_to(nullif(CASE WHEN b.producer_ids IS NULL THEN b.producer_id
                                            ELSE r.producer_id END, ''), 'UTF8')) AS producer_key
      FROM record_batches b
     CROSS JOIN LATERAL unnest(b.payloads, b.keys, b.offset_deltas, b.producer_ids)
           WITH ORDINALITY AS r (payload, key, offset_delta, producer_id, n)
     WHERE b.log_id = _upkeep.log_id AND b.partition = _upkeep.partition
       AND b.base_offset >= _from AND b.base_offset < _upkeep.indexed_offset AND b.kind = 0
  ), newest AS MATERIALIZED (
    SELECT DISTINCT ON (r.record_key) r.record_key, r.record_offset, r.byte_count
      FROM records r
     WHERE r.record_key IS NOT NULL
     ORDER BY r.record_key, r.record_offset DESC
  ), superseded AS (
    SELECT k.byte_count
      FROM newest n
      JOIN latest_keys k ON k.log_id = _upkeep.log_id AND k.partition = _upkeep.partition
                        AND k.record_key = n.record_key
  ), stored AS (
    INSERT INTO latest_keys (log_id, partition, byte_count, record_offset, record_key)
    SELECT _upkeep.log_id, _upkeep.partition, n.byte_count, n.record_offset, n.record_key
      FROM newest n
        ON CONFLICT (log_id, partition, record_key) DO UPDATE
       SET (byte_count, record_offset) = (excluded.byte_count, excluded.record_offset)
  ), anchored AS (
    INSERT INTO latest_producers (
      log_id, partition, byte_count, record_offset, producer_key, record_key)
    SELECT DISTINCT ON (r.producer_key) _upkeep.log_id, _upkeep.partition, r.byte_count,
           r.record_offset, r.producer_key, r.record_key
      FROM records r
     WHERE r.producer_key IS NOT NULL
     ORDER BY r.producer_key, r.record_offset DESC
        ON CONFLICT (log_id, partition, producer_key) DO UPDATE
       SET (byte_count, record_offset, record_key) =
           (excluded.byte_count, excluded.record_offset, excluded.record_key)
  )
  SELECT (SELECT coalesce(sum(r.byte_count), 0) FROM records r WHERE r.record_key IS NOT NULL) AS keyed,
         (SELECT coalesce(sum(n.byte_count), 0) FROM newest n) AS latest,
         (SELECT coalesce(sum(s.byte_count), 0) FROM superseded s) AS superseded
    INTO _seen;
  _upkeep.keyed_bytes := _upkeep.keyed_bytes + _seen.keyed;
  _upkeep.latest_bytes := _upkeep.latest_bytes + _seen.latest - _seen.superseded;
  UPDATE log_segments s
     SET keyed_bytes = s.keyed_bytes + _seen.keyed
   WHERE s.log_id = _upkeep.log_id AND s.partition = _upkeep.partition
     AND s.base_offset = _segment.base_offset;
  RETURN _upkeep;
END
$$;
