-- release_streams: gives up a transaction's reservations of streams, with or without the versions.
--
-- Arguments: _transaction_id; _commit: its events count from now on.
-- Returns:   nothing.
-- Errors:    none.
-- Tables:    stream_reservations, stream_versions (written).
--
-- A transactional event is a row of record_batches of its own.
CREATE OR REPLACE FUNCTION pgcursus.release_streams(_transaction_id bigint, _commit boolean)
RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
  IF _commit THEN
    INSERT INTO stream_versions (
      log_id, version, record_offset, base_offset, partition, byte_count, stream_key)
    SELECT r.log_id, r.version, r.record_offset, r.record_offset, r.partition, r.byte_count,
           r.stream_key
      FROM stream_reservations r
     WHERE r.transaction_id = _transaction_id;
  END IF;
  DELETE FROM stream_reservations r WHERE r.transaction_id = _transaction_id;
END
$$;
