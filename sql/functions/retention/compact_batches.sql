-- compact_batches: removes from the next rows of a pass what compaction may remove.
--
-- Arguments: _upkeep  the row of lock_upkeep(), with a pass under way.
-- Returns:   upkeep, changed, for store_upkeep(): without a pass when it has come to its end;
--            done  rows rewritten or removed; records, bytes  that were removed.
-- Errors:    none.
-- Tables:    record_batches, log_segments, partition_states (written), latest_keys, latest_producers (read), and as
--            keep_producers().
--
-- A record goes when it has a key, is ordinary, is not the newest of its key, and not that of its producer
-- either; newest among the closed segments. So the last record of the closed segments never goes, nor the
-- row by which the end is found. A row that keeps some of its records keeps its place, its last offset and
-- the range of its sequences: that is what finds it, and what tells the offset of a duplicate.
CREATE OR REPLACE FUNCTION pgcursus.compact_batches(
  _upkeep pgcursus.log_upkeep, OUT upkeep pgcursus.log_upkeep, OUT done bigint, OUT records bigint,
  OUT bytes bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _segment log_segments := segment_at(_upkeep.log_id, _upkeep.partition, _upkeep.pass_offset);
  _to      bigint := coalesce(chunk_end(_upkeep.log_id, _upkeep.partition, _upkeep.pass_offset,
                                        _segment.end_offset, 1000), _segment.end_offset);
  _emptied bigint[] := ARRAY[]::bigint[];
  _batch   record;
BEGIN
  upkeep := _upkeep;
  done := 0;
  records := 0;
  bytes := 0;
  FOR _batch IN
    SELECT b.base_offset, j.keep, j.kept_count, j.removed_count, j.removed_bytes
      FROM record_batches b
     CROSS JOIN LATERAL (
           SELECT array_agg(r.keep ORDER BY r.n) AS keep,
                  count(*) FILTER (WHERE r.keep) AS kept_count,
                  count(*) FILTER (WHERE NOT r.keep) AS removed_count,
                  sum(r.byte_count) FILTER (WHERE NOT r.keep) AS removed_bytes
             FROM (SELECT e.n, octet_length(e.payload) + octet_length(e.key) AS byte_count,
                          (k.record_offset > b.base_offset + coalesce(e.offset_delta, e.n - 1)
                           AND p.record_offset
                               IS DISTINCT FROM b.base_offset + coalesce(e.offset_delta, e.n - 1))
                            IS NOT TRUE AS keep
                     FROM unnest(b.payloads, b.keys, b.offset_deltas, b.producer_ids)
                          WITH ORDINALITY AS e (payload, key, offset_delta, producer_id, n)
                     LEFT JOIN latest_keys k
                       ON k.log_id = _upkeep.log_id AND k.partition = _upkeep.partition
                      AND e.key <> '' AND k.record_key = short_key(e.key)
                     LEFT JOIN latest_producers p
                       ON p.log_id = _upkeep.log_id AND p.partition = _upkeep.partition
                      AND p.producer_key = short_key(convert_to(
                            CASE WHEN b.producer_ids IS NULL THEN b.producer_id
                                 ELSE e.producer_id END, 'UTF8'))) r) j
     WHERE b.log_id = _upkeep.log_id AND b.partition = _upkeep.partition
       AND b.base_offset >= _upkeep.pass_offset AND b.base_offset < _to
       AND b.kind = 0 AND b.transaction_id IS NULL AND b.keys IS NOT NULL AND j.removed_count > 0
  LOOP
    done := done + 1;
    records := records + _batch.removed_count;
    bytes := bytes + _batch.removed_bytes;
    IF _batch.kept_count = 0 THEN
      _emptied := _emptied || _batch.base_offset;
    ELSE
      PERFORM keep_records(upkeep.log_id, upkeep.partition, _batch.base_offset, _batch.keep,
                           _batch.removed_bytes);
    END IF;
  END LOOP;
  IF cardinality(_emptied) > 0 THEN
    PERFORM keep_producers(upkeep.log_id, upkeep.partition, _emptied);
    DELETE FROM record_batches b
     WHERE b.log_id = upkeep.log_id AND b.partition = upkeep.partition
       AND b.base_offset = ANY (_emptied);
    -- The end is no later than it was; but who looks at this row sees that others went (check_snapshot()).
    UPDATE partition_states p
       SET end_offset = greatest(p.end_offset, _to)
     WHERE p.log_id = upkeep.log_id AND p.partition = upkeep.partition;
  END IF;
  IF done > 0 THEN
    UPDATE log_segments s
       SET (byte_count, keyed_bytes) = (s.byte_count - bytes, s.keyed_bytes - bytes)
     WHERE s.log_id = upkeep.log_id AND s.partition = upkeep.partition
       AND s.base_offset = _segment.base_offset;
    upkeep.closed_bytes := upkeep.closed_bytes - bytes;
    upkeep.keyed_bytes := upkeep.keyed_bytes - bytes;
    PERFORM announce_trimmed(upkeep.log_id, upkeep.partition, _to);
  END IF;
  IF _to < upkeep.pass_end THEN
    upkeep.pass_offset := _to;
  ELSE
    upkeep.pass_offset := NULL;
    upkeep.pass_end := NULL;
  END IF;
END
$$;
