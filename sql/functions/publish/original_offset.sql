-- original_offset: where a record of an idempotent producer was appended the first time.
--
-- Arguments: _log_id, _partition, _producer_id, _producer_epoch, _sequence.
-- Returns:   its offset; NULL when that is no longer known.
-- Errors:    none.
-- Tables:    record_batches, producer_states (read).
CREATE OR REPLACE FUNCTION pgcursus.original_offset(
  _log_id bigint, _partition int, _producer_id text, _producer_epoch bigint, _sequence bigint)
RETURNS bigint
LANGUAGE plpgsql STABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _offset bigint;
  _batch  record;
  _index  int;
BEGIN
  -- The one row whose sequences can include it: rows of a producer never overlap.
  SELECT b.base_offset, b.offset_deltas, b.sequences, b.first_sequence, b.last_sequence
    INTO _batch
    FROM record_batches b
   WHERE b.log_id = _log_id AND b.partition = _partition AND b.producer_id = _producer_id
     AND b.producer_epoch = _producer_epoch AND b.last_sequence >= _sequence AND b.idempotent
   ORDER BY b.last_sequence
   LIMIT 1;
  IF FOUND AND _batch.first_sequence <= _sequence THEN
    _index := CASE WHEN _batch.sequences IS NULL THEN (_sequence - _batch.first_sequence)::int + 1
                   ELSE array_position(_batch.sequences, _sequence) END;
    IF _index IS NOT NULL THEN
      RETURN _batch.base_offset + coalesce(_batch.offset_deltas[_index], _index - 1);
    END IF;
  END IF;

  SELECT s.last_offset INTO _offset
    FROM producer_states s
   WHERE s.log_id = _log_id AND s.partition = _partition AND s.producer_id = _producer_id
     AND s.producer_epoch = _producer_epoch AND s.last_sequence = _sequence;
  RETURN _offset;
END
$$;
