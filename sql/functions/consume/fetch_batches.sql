-- fetch_batches: the batches from an offset on, with the partition's bounds, of one snapshot.
--
-- Arguments: _log_id, _partition;
--            _from_offset  the first offset wanted;
--            _max_records  stop when this many records from _from_offset on are covered; 0: bounds only;
--            _max_bytes    stop before the sum of byte_count passes this; the first batch always comes;
--            _known_stable  the caller has seen this stable_offset, or a greater one: it never falls, so
--                          nothing undecided is looked for below. 0: nothing is known;
--            _committed    only batches below stable_offset, all of whose transactions are decided.
-- Returns:   the batch that holds _from_offset, or else the next one, and what follows, in order; none
--            when _from_offset is below earliest_offset: what is left there does not count any more;
--            every row repeats log_is_current and the partition's bounds. At least one row: with
--            nothing to return its batch columns are NULL. log_is_current is false, and the bounds
--            NULL, when no topic has this log; the bounds alone are NULL when the topic has no such
--            partition. stable_offset is the first offset of an undecided transaction, else end_offset.
--            transaction_state is open, committed or aborted, and NULL without a transaction.
-- Errors:    none.
-- Tables:    topic_definitions, partition_states, record_batches, transaction_states,
--            transaction_partitions (read).
--
-- Entries of the index of unresolved transactions stay behind, dead, for as long as some snapshot is
-- older than their end; _known_stable keeps every read from walking over them.
--
-- STABLE: every statement sees the caller's snapshot. The first loop touches no array; only rows
-- that are returned are detoasted, and only when they are sent.
CREATE OR REPLACE FUNCTION pgcursus.fetch_batches(
  _log_id bigint, _partition int, _from_offset bigint, _max_records bigint, _max_bytes bigint,
  _known_stable bigint DEFAULT 0, _committed boolean DEFAULT false)
RETURNS TABLE (
  log_is_current boolean, earliest_offset bigint, end_offset bigint, stable_offset bigint,
  base_offset bigint, last_offset bigint, record_count int, byte_count int,
  appended_at timestamptz, kind smallint, idempotent boolean, producer_id text,
  producer_epoch bigint, first_sequence bigint, last_sequence bigint, transaction_id bigint,
  transaction_state text, offset_deltas int[], payloads bytea[], keys bytea[],
  timestamps bigint[], sequences bigint[], producer_ids text[], producer_epochs bigint[],
  event_types text[], schema_versions bigint[], aggregate_versions bigint[], event_ids text[],
  payload_digests text[], metadata text[], transactional_id text)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 8
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _first_base bigint;  -- of the first and the last batch to return
  _last_base  bigint;
  _records    bigint := 0::bigint;
  _bytes      bigint := 0::bigint;
  _limit      bigint;
  _batch      record;
BEGIN
  SELECT true, p.earliest_offset,
         coalesce((SELECT b.last_offset + 1
                     FROM record_batches b
                    WHERE b.log_id = _log_id AND b.partition = _partition
                    ORDER BY b.base_offset DESC
                    LIMIT 1), p.end_offset),
         (SELECT x.first_offset
            FROM transaction_partitions x
           WHERE x.log_id = _log_id AND x.partition = _partition AND NOT x.resolved
             AND x.first_offset >= _known_stable
           ORDER BY x.first_offset
           LIMIT 1)
    INTO log_is_current, earliest_offset, end_offset, stable_offset
    FROM topic_definitions t
    LEFT JOIN partition_states p ON p.log_id = t.log_id AND p.partition = _partition
   WHERE t.log_id = _log_id;
  log_is_current := coalesce(log_is_current, false);
  stable_offset := coalesce(stable_offset, end_offset);
  _limit := CASE WHEN _committed THEN stable_offset ELSE end_offset END;

  IF log_is_current AND _max_records > 0 AND _from_offset >= earliest_offset
     AND _from_offset < _limit THEN
    SELECT b.base_offset INTO _first_base
      FROM record_batches b
     WHERE b.log_id = _log_id AND b.partition = _partition
       AND b.base_offset BETWEEN earliest_offset AND _from_offset
     ORDER BY b.base_offset DESC
     LIMIT 1;
    FOR _batch IN
      SELECT b.base_offset, b.last_offset, b.record_count, b.byte_count
        FROM record_batches b
       WHERE b.log_id = _log_id AND b.partition = _partition
         AND b.base_offset >= coalesce(_first_base, _from_offset)
         AND b.base_offset < _limit
       ORDER BY b.base_offset
    LOOP
      CONTINUE WHEN _batch.last_offset < _from_offset;
      _bytes := _bytes + _batch.byte_count;
      EXIT WHEN _last_base IS NOT NULL AND _bytes > _max_bytes;
      IF _last_base IS NULL THEN
        _first_base := _batch.base_offset;
        -- Of the first batch only what is not before _from_offset counts.
        _records := least(0, _batch.base_offset - _from_offset);
      END IF;
      _last_base := _batch.base_offset;
      _records := _records + _batch.record_count;
      EXIT WHEN _records >= _max_records;
    END LOOP;
  END IF;

  IF _last_base IS NULL THEN
    RETURN NEXT;
    RETURN;
  END IF;
  RETURN QUERY
  SELECT log_is_current, earliest_offset, end_offset, stable_offset,
         b.base_offset, b.last_offset, b.record_count, b.byte_count, b.appended_at, b.kind,
         b.idempotent, b.producer_id, b.producer_epoch, b.first_sequence, b.last_sequence,
         b.transaction_id,
         CASE WHEN b.transaction_id IS NULL THEN NULL
              WHEN x.state IN ('committed', 'aborted') THEN x.state
              -- Also while its end is being prepared, and when it is not there: to show its records is
              -- the one mistake that cannot be taken back.
              ELSE 'open'
         END,
         b.offset_deltas, b.payloads, b.keys, b.timestamps, b.sequences, b.producer_ids,
         b.producer_epochs, b.event_types, b.schema_versions, b.aggregate_versions, b.event_ids,
         b.payload_digests, b.metadata, x.transactional_id
    FROM record_batches b
    LEFT JOIN transaction_states x USING (transaction_id)
   WHERE b.log_id = _log_id AND b.partition = _partition
     AND b.base_offset BETWEEN _first_base AND _last_base
   ORDER BY b.base_offset;
END
$$;
