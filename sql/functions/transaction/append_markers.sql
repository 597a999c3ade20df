-- append_markers: appends the markers that end a transaction in some of its partitions (commands-2 4.12).
--
-- Arguments: _transaction;
--            _log_ids, _partitions  arrays of one length, in the one order of locks;
--            _commit    else abort;
--            _resolved  the transaction ends with these markers.
-- Returns:   the next offset of each partition; 0 when its log is gone, and with it every record.
-- Errors:    none.
-- Tables:    topic_definitions, partition_states (read), record_batches (read, written),
--            transaction_partitions (written).
--
-- Readers make the control fields from what is stored here: the kind, the producer's epoch, which is
-- the coordinator's too, and the transaction.
CREATE OR REPLACE FUNCTION pgcursus.append_markers(
  _transaction pgcursus.transaction_states, _log_ids bigint[], _partitions int[], _commit boolean,
  _resolved boolean)
RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  _payload     bytea := '__cursus_txn_control_marker__'::bytea;
  _producer_id text := format('txn-marker:%s:%s:%s', _transaction.transactional_id,
                              _transaction.producer_epoch,
                              CASE WHEN _commit THEN 'commit' ELSE 'abort' END);
  _end_offsets bigint[];
BEGIN
  FOR _place IN 1 .. cardinality(_log_ids) LOOP
    PERFORM pg_advisory_xact_lock((_log_ids[_place] << 16) | _partitions[_place]);
  END LOOP;
  -- One statement, after all locks: it sees what their last holders have committed.
  WITH ends AS MATERIALIZED (
    SELECT u.place, u.log_id, u.partition,
           CASE WHEN (SELECT t.log_id FROM topic_definitions t WHERE t.log_id = u.log_id) IS NOT NULL
                THEN coalesce((SELECT b.last_offset + 1
                                 FROM record_batches b
                                WHERE b.log_id = u.log_id AND b.partition = u.partition
                                ORDER BY b.base_offset DESC
                                LIMIT 1),
                              (SELECT p.end_offset
                                 FROM partition_states p
                                WHERE p.log_id = u.log_id AND p.partition = u.partition))
                ELSE -1
           END AS marker_offset
      FROM unnest(_log_ids, _partitions) WITH ORDINALITY AS u (log_id, partition, place)),
  markers AS (
    INSERT INTO record_batches (
      log_id, base_offset, last_offset, appended_at, partition, record_count, byte_count, kind,
      idempotent, producer_epoch, first_sequence, last_sequence, transaction_id, producer_id, payloads)
    SELECT e.log_id, e.marker_offset, e.marker_offset, clock_timestamp(), e.partition, 1,
           octet_length(_payload), CASE WHEN _commit THEN 1 ELSE 2 END, false,
           _transaction.producer_epoch, 1, 1, _transaction.transaction_id, _producer_id,
           ARRAY[_payload]
      FROM ends e
     WHERE e.marker_offset >= 0),
  marked AS (
    UPDATE transaction_partitions p
       SET marker_offset = e.marker_offset, resolved = _resolved
      FROM ends e
     WHERE p.transaction_id = _transaction.transaction_id AND p.log_id = e.log_id
       AND p.partition = e.partition)
  SELECT array_agg(e.marker_offset + 1 ORDER BY e.place) INTO _end_offsets FROM ends e;
  RETURN _end_offsets;
END
$$;
