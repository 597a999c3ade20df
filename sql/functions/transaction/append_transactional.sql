-- append_transactional: appends one record to a partition in an open transaction, once per request.
--
-- Arguments: _log_id, _revision, _partition, _min_insync  as append() has them;
--            _transactional_id, _producer_id, _producer_epoch  the transaction;
--            _requested_partition  what the client asked for; -1: left to the broker;
--            _client_sequence      the client's number of the request;
--            _payloads ... _metadata  the record, as the columns of record_batches: one element, or
--                                  NULL where it has none. With _aggregate_versions it is an event, and
--                                  that is the version it shall have.
-- Returns:   as append(), and status
--            10 no such transactional id, or it has expired;
--            11 fenced: current_value is the current epoch;
--            12 not open: current_value is 0 never begun, 1 prepare_commit, 2 prepare_abort,
--               3 committed, 4 aborted;
--            13 the deadline has passed: the transaction is to be aborted before anything else;
--            14 a request of this number had other content;
--            15 more records or bytes than a transaction may hold: expected_value is the limit.
--            16 an event whose stream is reserved: another transaction, or this one, has appended to it;
--            17 an event whose stream lives in the partition current_value;
--            18 an event whose version is not the next: current_value is the stream's.
--            1 (duplicate) when the request has been served before: nothing is appended, current_value
--            is the partition where it is.
-- Errors:    as append(); serialization_failure when the same request is being served in another
--            partition: try again.
-- Tables:    producers, transaction_states, topic_definitions, partition_states (read), record_batches,
--            transaction_requests, transaction_partitions, stream_reservations (read, written),
--            stream_versions (read).
--
-- The transaction cannot end meanwhile: that takes its advisory lock exclusively, this takes it shared.
-- The stored sequence counts the transaction's records of the partition, under the partition's lock.
CREATE OR REPLACE FUNCTION pgcursus.append_transactional(
  _log_id bigint, _revision bigint, _partition int, _min_insync int, _transactional_id text,
  _producer_id text, _producer_epoch bigint, _requested_partition int, _client_sequence bigint,
  _payloads bytea[], _keys bytea[], _event_types text[], _schema_versions bigint[],
  _aggregate_versions bigint[], _metadata text[])
RETURNS pgcursus.append_result
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _known         record;
  _status        int;
  _current       bigint;
  _expected      bigint;
  _sequence      bigint;
  _offset        bigint;
  _appended_at   timestamptz;
  _bytes         bigint := (octet_length(_payloads[1])
                            + coalesce(octet_length(_keys[1]), 0))::bigint;
  _total         bigint;
  _other_records bigint := 0::bigint;
  _other_bytes   bigint := 0::bigint;
BEGIN
  -- Tested, not performed, as in append(). Without a record there is no lock, and no append.
  IF pg_advisory_xact_lock_shared(transaction_lock_key(_transactional_id)) IS NULL
     OR pg_advisory_xact_lock((_log_id << 16) | (_partition & 65535)) IS NULL OR _bytes IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
      MESSAGE = 'the transaction, log, partition and payload must be given';
  END IF;

  -- All that has to be known, in one query: this runs once a record, so it does itself what append()
  -- does for others.
  SELECT p.producer_id, p.producer_epoch, t.transaction_id, t.state, t.deadline,
         r.partition AS request_partition, r.record_offset AS request_offset, l.sequence, l.byte_total,
         d.revision, d.partition_count, d.replication_factor,
         coalesce(d.min_in_sync_replicas, _min_insync) AS minimum,
         (SELECT b.last_offset + 1
            FROM record_batches b
           WHERE b.log_id = _log_id AND b.partition = _partition
           ORDER BY b.base_offset DESC
           LIMIT 1) AS end_offset
    INTO _known
    FROM producers p
    LEFT JOIN transaction_states t
      ON t.transactional_id = p.transactional_id AND t.producer_epoch = p.producer_epoch
    LEFT JOIN transaction_requests r
      ON r.transaction_id = t.transaction_id AND r.log_id = _log_id
     AND r.requested_partition = _requested_partition AND r.client_sequence = _client_sequence
    LEFT JOIN LATERAL (
           SELECT q.sequence, q.byte_total
             FROM transaction_requests q
            WHERE q.transaction_id = t.transaction_id AND q.log_id = _log_id
              AND q.partition = _partition
            ORDER BY q.sequence DESC
            LIMIT 1) l ON true
    LEFT JOIN topic_definitions d ON d.log_id = _log_id
   WHERE p.transactional_id = _transactional_id AND NOT p.expired;
  IF NOT FOUND THEN
    _status := 10;
  ELSIF _known.producer_id <> _producer_id OR _known.producer_epoch <> _producer_epoch THEN
    _status := 11;
    _current := _known.producer_epoch;
  ELSIF _known.state IS DISTINCT FROM 'open' THEN
    _status := 12;
    _current := coalesce(array_position(
      ARRAY['prepare_commit', 'prepare_abort', 'committed', 'aborted'], _known.state), 0)::bigint;
  ELSIF _known.deadline <= clock_timestamp() THEN
    _status := 13;
  ELSIF _known.request_offset IS NOT NULL THEN
    _current := _known.request_partition::bigint;
    _offset := _known.request_offset;
    _status := CASE WHEN is_same_record(_log_id, _known.request_partition, _offset, _payloads[1],
                                        _keys[1], _event_types[1], _schema_versions[1],
                                        _aggregate_versions[1], _metadata[1])
                    THEN 1 ELSE 14 END;
  END IF;
  IF _status IS NOT NULL THEN
    RETURN ROW(_status, NULL, CASE WHEN _status = 1 THEN _offset END, 0, NULL, _current,
               NULL)::append_result;
  END IF;

  IF _aggregate_versions IS NOT NULL THEN
    SELECT e.status, e.value INTO _status, _current
      FROM check_reservation(_log_id, _partition, _keys[1], _aggregate_versions[1]) e;
    IF _status <> 0 THEN
      RETURN ROW(_status, NULL, NULL, 0, NULL, _current, NULL)::append_result;
    END IF;
  END IF;
  _sequence := coalesce(_known.sequence, 0) + 1;
  _total := coalesce(_known.byte_total, 0) + _bytes;
  -- Exact for this partition; the others are added up at every sixteenth record only, as that costs a
  -- look at each.
  IF _sequence % 16 = 1 THEN
    SELECT coalesce(sum(r.sequence), 0)::bigint, coalesce(sum(r.byte_total), 0)::bigint
      INTO _other_records, _other_bytes
      FROM transaction_partitions p
     CROSS JOIN LATERAL (
             SELECT q.sequence, q.byte_total
               FROM transaction_requests q
              WHERE q.transaction_id = p.transaction_id AND q.log_id = p.log_id
                AND q.partition = p.partition
              ORDER BY q.sequence DESC
              LIMIT 1) r
     WHERE p.transaction_id = _known.transaction_id
       AND (p.log_id, p.partition) <> (_log_id, _partition);
  END IF;

  IF _sequence + _other_records > 10000 THEN
    _status := 15;
    _expected := 10000::bigint;
  ELSIF _total + _other_bytes > 67108864 THEN
    _status := 15;
    _expected := 67108864::bigint;
  ELSIF _known.revision IS NULL OR _known.revision <> _revision THEN
    _status := 2;
  ELSIF _partition < 0 OR _partition >= _known.partition_count THEN
    _status := 3;
  ELSIF _known.minimum > 1 AND least(in_sync_replicas(), _known.replication_factor) < _known.minimum THEN
    _status := 4;
    _current := least(in_sync_replicas(), _known.replication_factor)::bigint;
    _expected := _known.minimum::bigint;
  ELSIF current_setting('pgcursus.standby_is_missing', true) = 'on' THEN
    _status := 9;
  ELSE
    _status := 0;
  END IF;
  IF _status <> 0 THEN
    RETURN ROW(_status, NULL, NULL, 0, NULL, _current, _expected)::append_result;
  END IF;

  _offset := _known.end_offset;
  IF _offset IS NULL THEN
    SELECT s.end_offset INTO STRICT _offset
      FROM partition_states s
     WHERE s.log_id = _log_id AND s.partition = _partition;
  END IF;
  _appended_at := clock_timestamp();
  INSERT INTO record_batches (
    log_id, base_offset, last_offset, appended_at, partition, record_count, byte_count, kind,
    idempotent, producer_epoch, first_sequence, last_sequence, producer_id, transaction_id, payloads,
    keys, event_types, schema_versions, aggregate_versions, metadata)
  VALUES (
    _log_id, _offset, _offset, _appended_at, _partition, 1, _bytes, 0, false, _producer_epoch,
    _sequence, _sequence, _producer_id, _known.transaction_id, _payloads, _keys, _event_types,
    _schema_versions, _aggregate_versions, _metadata);
  INSERT INTO transaction_requests (
    transaction_id, log_id, partition, sequence, requested_partition, client_sequence,
    record_offset, byte_total)
  VALUES (
    _known.transaction_id, _log_id, _partition, _sequence, _requested_partition, _client_sequence,
    _offset, _total)
  ON CONFLICT (transaction_id, log_id, requested_partition, client_sequence) DO NOTHING;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'serialization_failure',
      MESSAGE = 'the same request has just been served in another partition';
  END IF;
  IF _aggregate_versions IS NOT NULL THEN
    INSERT INTO stream_reservations (
      log_id, stream_key, version, transaction_id, partition, record_offset, byte_count)
    VALUES (
      _log_id, short_key(_keys[1]), _aggregate_versions[1], _known.transaction_id, _partition, _offset,
      (_bytes + coalesce(octet_length(_event_types[1]), 0) + coalesce(octet_length(_metadata[1]), 0))::int);
  END IF;
  IF _sequence = 1 THEN
    INSERT INTO transaction_partitions (transaction_id, log_id, partition, first_offset)
    VALUES (_known.transaction_id, _log_id, _partition, _offset);
  END IF;
  RETURN ROW(0, _offset, _offset, 1, _appended_at, NULL, NULL)::append_result;
END
$$;
