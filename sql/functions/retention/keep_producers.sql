-- keep_producers: keeps what only rows that are about to be deleted know of idempotent producers.
--
-- Arguments: _log_id, _partition;
--            _bases  the base offsets of these rows.
-- Returns:   nothing.
-- Errors:    none.
-- Tables:    record_batches (read), producer_states (written).
--
-- A producer that has a later row keeps its state there. An idempotent row is appended without gaps, so
-- its last record is that of its last sequence.
CREATE OR REPLACE FUNCTION pgcursus.keep_producers(_log_id bigint, _partition int, _bases bigint[])
RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  INSERT INTO producer_states AS s (
    log_id, partition, producer_id, producer_epoch, last_sequence, last_offset)
  SELECT _log_id, _partition, d.producer_id, l.producer_epoch, l.last_sequence, l.last_offset
    FROM (SELECT DISTINCT b.producer_id
            FROM record_batches b
           WHERE b.log_id = _log_id AND b.partition = _partition AND b.base_offset = ANY (_bases)
             AND b.idempotent) d
   CROSS JOIN LATERAL (
         SELECT b.base_offset, b.producer_epoch, b.last_sequence, b.last_offset
           FROM record_batches b
          WHERE b.log_id = _log_id AND b.partition = _partition AND b.producer_id = d.producer_id
            AND b.idempotent
          ORDER BY b.producer_epoch DESC, b.last_sequence DESC
          LIMIT 1) l
   WHERE l.base_offset = ANY (_bases)
      ON CONFLICT (log_id, partition, producer_id) DO UPDATE
     SET (producer_epoch, last_sequence, last_offset) =
         (excluded.producer_epoch, excluded.last_sequence, excluded.last_offset)
   WHERE (excluded.producer_epoch, excluded.last_sequence) > (s.producer_epoch, s.last_sequence)
$$;
