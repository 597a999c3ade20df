-- aggregate_proof: whether the retained log of a partition holds all events of a key.
--
-- Arguments: _log_id, _partition, _key;
--            _expected_last_sequence  the sequence that the last event must have; NULL: any.
-- Returns:   event_count, and first and last sequence, offset and event id of the events up to the
--            first fault; NULL when there is none;
--            is_complete  the events are 1 to n, without gap or conflict;
--            proof_hwm    the offset up to which the log was looked at: its stable end;
--            status       complete, not_found, retention_gap, sequence_gap, identity_conflict or
--                         proof_unavailable;
--            diagnostic   for a person; NULL when complete.
-- Errors:    PC001 stale_log.
-- Tables:    stream_versions, record_batches, partition_states, transaction_partitions (read).
--
-- Sequence, event id and digest are those of the records, not of the index that finds them; digests
-- are computed again from the payloads. STABLE: all of one snapshot.
CREATE OR REPLACE FUNCTION pgcursus.aggregate_proof(
  _log_id bigint, _partition int, _key bytea, _expected_last_sequence bigint)
RETURNS pgcursus.stream_proof
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
  _proof    stream_proof;
  _earliest bigint;
  _event    record;
BEGIN
  PERFORM check_current_log(_log_id);
  SELECT p.earliest_offset,
         coalesce((SELECT x.first_offset
                     FROM transaction_partitions x
                    WHERE x.log_id = _log_id AND x.partition = _partition AND NOT x.resolved
                    ORDER BY x.first_offset
                    LIMIT 1),
                  (SELECT b.last_offset + 1
                     FROM record_batches b
                    WHERE b.log_id = _log_id AND b.partition = _partition
                    ORDER BY b.base_offset DESC
                    LIMIT 1),
                  p.end_offset)
    INTO _earliest, _proof.proof_hwm
    FROM partition_states p
   WHERE p.log_id = _log_id AND p.partition = _partition;
  _proof.event_count := 0;

  FOR _event IN
    SELECT e.*, row_number() OVER (PARTITION BY e.event_id ORDER BY e.record_offset) > 1 AS is_repeated
      FROM (SELECT r.record_offset, coalesce(r.aggregate_version, 0) AS sequence, r.event_id,
                   r.payload_digest AS digest, encode(sha256(r.payload), 'hex') AS computed_digest
              FROM stream_event_rows r
             WHERE r.log_id = _log_id AND r.stream_key = short_key(_key) AND r.partition = _partition
               AND r.record_offset >= _earliest AND r.record_offset < _proof.proof_hwm) e
     ORDER BY e.record_offset
  LOOP
    IF _event.sequence = 0 OR coalesce(_event.event_id, '') = ''
       OR _event.digest IS DISTINCT FROM _event.computed_digest THEN
      _proof.status := 'identity_conflict';
      _proof.diagnostic := format('the record at offset %s does not have the identity of an event',
                                  _event.record_offset);
    ELSIF _event.is_repeated THEN
      _proof.status := 'identity_conflict';
      _proof.diagnostic := format('event id %s appears again at offset %s', _event.event_id,
                                  _event.record_offset);
    ELSIF _event.sequence <> _proof.latest_sequence + 1 THEN
      _proof.status := 'sequence_gap';
      _proof.diagnostic := format('expected sequence %s at offset %s, got %s',
                                  _proof.latest_sequence + 1, _event.record_offset, _event.sequence);
    END IF;
    EXIT WHEN _proof.status IS NOT NULL;
    IF _proof.event_count = 0 THEN
      _proof.earliest_sequence := _event.sequence;
      _proof.first_offset := _event.record_offset;
      _proof.first_event_id := _event.event_id;
    END IF;
    _proof.event_count := _proof.event_count + 1;
    _proof.latest_sequence := _event.sequence;
    _proof.last_offset := _event.record_offset;
    _proof.last_event_id := _event.event_id;
  END LOOP;

  IF _proof.status IS NULL AND _proof.event_count = 0 THEN
    _proof.status := 'not_found';
    _proof.diagnostic := 'the retained log has no event of this aggregate';
  ELSIF _proof.status IS NULL AND _proof.earliest_sequence <> 1 THEN
    _proof.status := 'retention_gap';
    _proof.diagnostic := format('the first retained sequence is %s', _proof.earliest_sequence);
  END IF;
  _proof.is_complete := _proof.status IS NULL;
  IF _proof.status IS NULL AND _expected_last_sequence <> _proof.latest_sequence THEN
    _proof.status := 'proof_unavailable';
    _proof.diagnostic := format('expected last sequence %s, got %s', _expected_last_sequence,
                                _proof.latest_sequence);
  END IF;
  _proof.status := coalesce(_proof.status, 'complete');
  RETURN _proof;
END
$$;
