-- original_offset: where a record of an idempotent producer was appended the first time.
--
-- Arguments: _log_id, _partition, _producer_id, _producer_epoch, _sequence.
-- Returns:   its offset. Once retention or compaction has removed its row, that of the producer's next record
--            that is still known: what was kept when rows went (commands-1 4.4). NULL when there is none.
-- Errors:    none.
-- Tables:    record_batches, producer_states (read).
--
-- An idempotent row is appended without gaps, and keeps its place and its range of sequences when
-- compaction removes records from it.
CREATE OR REPLACE FUNCTION pgcursus.original_offset(
  _log_id bigint, _partition int, _producer_id text, _producer_epoch bigint, _sequence bigint)
RETURNS bigint
LANGUAGE plpgsql STABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _batch record;
BEGIN
  -- The one row whose sequences can include it: rows of a producer never overlap.
  SELECT b.base_offset, b.first_sequence INTO _batch
    FROM record_batches b
   WHERE b.log_id = _log_id AND b.partition = _partition AND b.producer_id = _producer_id
     AND b.producer_epoch = _producer_epoch AND b.last_sequence >= _sequence AND b.idempotent
   ORDER BY b.last_sequence
   LIMIT 1;
  IF _batch.first_sequence <= _sequence THEN
    RETURN _batch.base_offset + _sequence - _batch.first_sequence;
  END IF;
  RETURN coalesce((SELECT s.last_offset
                     FROM producer_states s
                    WHERE s.log_id = _log_id AND s.partition = _partition
                      AND s.producer_id = _producer_id AND s.producer_epoch = _producer_epoch
                      AND s.last_sequence >= _sequence),
                  _batch.base_offset);
END
$$;
