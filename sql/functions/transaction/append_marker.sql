-- append_marker: appends the marker that ends a transaction in one partition (commands-2 4.12).
--
-- Arguments: _transaction, _log_id, _partition; _commit: else abort.
-- Returns:   the marker's offset; -1 when the log is gone, and with it every record.
-- Errors:    none.
-- Tables:    topic_definitions, partition_states (read), record_batches (read, written).
--
-- Readers make the control fields from what is stored here: the kind, the producer's epoch, which is
-- the coordinator's too, and the transaction.
CREATE OR REPLACE FUNCTION pgcursus.append_marker(
  _transaction pgcursus.transaction_states, _log_id bigint, _partition int, _commit boolean)
RETURNS bigint
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  _offset  bigint;
  _payload bytea := '__cursus_txn_control_marker__'::bytea;
BEGIN
  PERFORM pg_advisory_xact_lock((_log_id << 16) | _partition);
  -- A statement after the lock: it sees what the last holder has committed.
  SELECT coalesce((SELECT b.last_offset + 1
                     FROM record_batches b
                    WHERE b.log_id = _log_id AND b.partition = _partition
                    ORDER BY b.base_offset DESC
                    LIMIT 1), p.end_offset)
    INTO _offset
    FROM topic_definitions t
    JOIN partition_states p USING (log_id)
   WHERE t.log_id = _log_id AND p.partition = _partition;
  IF NOT FOUND THEN
    RETURN (-1)::bigint;
  END IF;
  INSERT INTO record_batches (
    log_id, base_offset, last_offset, appended_at, partition, record_count, byte_count, kind,
    idempotent, producer_epoch, first_sequence, last_sequence, transaction_id, producer_id, payloads)
  VALUES (
    _log_id, _offset, _offset, clock_timestamp(), _partition, 1, octet_length(_payload),
    CASE WHEN _commit THEN 1 ELSE 2 END, false, _transaction.producer_epoch, 1, 1,
    _transaction.transaction_id,
    format('txn-marker:%s:%s:%s', _transaction.transactional_id, _transaction.producer_epoch,
           CASE WHEN _commit THEN 'commit' ELSE 'abort' END),
    ARRAY[_payload]);
  RETURN _offset;
END
$$;
