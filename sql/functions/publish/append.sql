-- append: appends one batch of records to a partition.
--
-- Arguments: _log_id         the log the caller believes to be the topic's;
--            _revision       the topic revision the caller believes in; NULL: any;
--            _partition, _record_count, _byte_count (payloads and keys);
--            _idempotent     deduplicate: all records are of one producer and epoch, and their
--                            sequences are at least 1;
--            _require_isr    refuse unless enough replicas are in sync (acks=all);
--            _min_insync     the broker's minimum, used where the topic has none of its own;
--            _strict         raise instead of returning a refusal, so that the whole transaction
--                            fails: for one client batch that spans several rows;
--            the rest        the columns of record_batches of the same names.
-- Returns:   status  0 appended: base_offset, last_offset, appended_count, appended_at;
--                    1 duplicate, nothing appended: last_offset is the original of the last record;
--                    2 stale: the log is not current or the revision differs;
--                    3 no such partition;
--                    4 too few replicas in sync: current_value, expected_value;
--                    5 stale epoch: current_value is the recorded one;
--                    6 gap: expected_value, current_value is what came;
--                    7 the first sequence of an epoch is not 1: expected_value, current_value;
--                    8 duplicate whose original offset is no longer known;
--                    9 the commit would wait for a synchronous standby that is missing, says
--                      note_standbys(): try again later (acks=all).
--            Checks are made in the order 2, 3, 4, 9, then 5 to 8.
-- Errors:    PC002 for any status but 0 and 1 when _strict: MESSAGE = status, DETAIL = JSON
--            {"current", "expected"}; invalid_parameter_value when _payloads has not _record_count
--            elements, or the log or the partition is NULL.
-- Tables:    topic_definitions, partition_states, producer_states (read), record_batches (read,
--            written).
--
-- VOLATILE and at READ COMMITTED every statement has its own snapshot, so what follows the lock
-- sees what its last holder committed. The lock is held until the commit is visible: offsets are
-- dense and become visible in order. Nothing is updated and no row is locked.
CREATE OR REPLACE FUNCTION pgcursus.append(
  _log_id bigint, _revision bigint, _partition int, _record_count int, _byte_count int,
  _idempotent boolean, _require_isr boolean, _min_insync int, _strict boolean,
  _producer_id text, _producer_epoch bigint, _first_sequence bigint, _last_sequence bigint,
  _payloads bytea[], _keys bytea[], _timestamps bigint[], _sequences bigint[],
  _producer_ids text[], _producer_epochs bigint[], _event_types text[],
  _schema_versions bigint[], _aggregate_versions bigint[], _metadata text[],
  _event_ids text[], _payload_digests text[], _transaction_id bigint DEFAULT NULL)
RETURNS pgcursus.append_result
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _status           int := 0;
  _base_offset      bigint;
  _last_offset      bigint;
  _appended_count   int;
  _appended_at      timestamptz;
  _current_value    bigint;
  _expected_value   bigint;
  _current_revision bigint;
  _partitions       int;
  _replicas         int;
  _minimum          int;
  _known_epoch      bigint;
  _known_sequence   bigint;
  _keep             boolean[];
BEGIN
  IF cardinality(_payloads) IS DISTINCT FROM _record_count OR _record_count < 1 THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
      MESSAGE = format('%s payloads for %s records', cardinality(_payloads), _record_count);
  END IF;
  -- Tested, not performed: an expression is cheaper than a query. No lock, no append: without a log or
  -- a partition the function is not even called.
  IF pg_advisory_xact_lock((_log_id << 16) | (_partition & 65535)) IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
      MESSAGE = 'log and partition must be given';
  END IF;

  SELECT t.revision, t.partition_count, t.replication_factor,
         coalesce(t.min_in_sync_replicas, _min_insync),
         (SELECT b.last_offset + 1
            FROM record_batches b
           WHERE b.log_id = _log_id AND b.partition = _partition
           ORDER BY b.base_offset DESC
           LIMIT 1)
    INTO _current_revision, _partitions, _replicas, _minimum, _base_offset
    FROM topic_definitions t
   WHERE t.log_id = _log_id;

  IF _current_revision IS NULL OR _current_revision <> _revision THEN
    _status := 2;
  ELSIF _partition < 0 OR _partition >= _partitions THEN
    _status := 3;
  ELSIF _require_isr AND _minimum > 1 THEN
    _current_value := least(in_sync_replicas(), _replicas)::bigint;
    IF _current_value < _minimum THEN
      _status := 4;
      _expected_value := _minimum::bigint;
    ELSE
      _current_value := NULL;
    END IF;
  END IF;
  IF _require_isr AND _status = 0 AND current_setting('pgcursus.standby_is_missing', true) = 'on' THEN
    _status := 9;
  END IF;

  IF _idempotent AND _status = 0 THEN
    SELECT s.producer_epoch, s.last_sequence
      INTO _known_epoch, _known_sequence
      FROM ((SELECT b.producer_epoch, b.last_sequence
               FROM record_batches b
              WHERE b.log_id = _log_id AND b.partition = _partition
                AND b.producer_id = _producer_id AND b.idempotent
              ORDER BY b.producer_epoch DESC, b.last_sequence DESC
              LIMIT 1)
            UNION ALL
            (SELECT p.producer_epoch, p.last_sequence
               FROM producer_states p
              WHERE p.log_id = _log_id AND p.partition = _partition
                AND p.producer_id = _producer_id)) s
     ORDER BY s.producer_epoch DESC, s.last_sequence DESC
     LIMIT 1;
    IF _known_epoch IS NULL OR _known_epoch < _producer_epoch THEN
      _known_sequence := 0;
    END IF;

    IF _known_epoch > _producer_epoch THEN
      _status := 5;
      _current_value := _known_epoch;
    ELSIF _sequences IS NOT NULL OR _first_sequence <> _known_sequence + 1
          OR _last_sequence - _first_sequence <> _record_count - 1 THEN
      SELECT c.status, c.keep, c.kept_count, c.got_value, c.expected_value
        INTO _status, _keep, _appended_count, _current_value, _expected_value
        FROM check_sequences(_known_sequence, _record_count, _first_sequence, _last_sequence,
                             _sequences) c;
      IF _status = 1 THEN
        _last_offset := original_offset(_log_id, _partition, _producer_id, _producer_epoch,
                                        coalesce(_sequences[_record_count], _last_sequence));
        IF _last_offset IS NULL THEN
          _status := 8;
        ELSIF _require_isr THEN
          -- The original may be on this server only: its wait for the standby may have been cut short. With
          -- something of its own to commit, this transaction waits until the standby has both.
          PERFORM pg_logical_emit_message(true, 'pgcursus', '');
        END IF;
      ELSIF _status = 0 THEN
        -- What is appended follows what is stored without a gap, so two numbers describe it.
        _first_sequence := _known_sequence + 1;
        _last_sequence := _known_sequence + _appended_count;
        _sequences := NULL;
        IF _appended_count < _record_count THEN
          _payloads := keep_elements(_payloads, _keep);
          _keys := keep_elements(_keys, _keep);
          _timestamps := keep_elements(_timestamps, _keep);
          _event_types := keep_elements(_event_types, _keep);
          _schema_versions := keep_elements(_schema_versions, _keep);
          _aggregate_versions := keep_elements(_aggregate_versions, _keep);
          _metadata := keep_elements(_metadata, _keep);
          _event_ids := keep_elements(_event_ids, _keep);
          _payload_digests := keep_elements(_payload_digests, _keep);
          _record_count := _appended_count;
          _byte_count := byte_count_of(_payloads, _keys);
        END IF;
      END IF;
    END IF;
  END IF;

  IF _status <> 0 THEN
    IF _strict AND _status <> 1 THEN
      RAISE EXCEPTION USING ERRCODE = 'PC002', MESSAGE = _status::text,
        DETAIL = jsonb_build_object('current', _current_value, 'expected', _expected_value)::text;
    END IF;
    RETURN ROW(_status, NULL, _last_offset, 0, NULL, _current_value, _expected_value)::append_result;
  END IF;

  IF _base_offset IS NULL THEN
    SELECT p.end_offset INTO STRICT _base_offset
      FROM partition_states p
     WHERE p.log_id = _log_id AND p.partition = _partition;
  END IF;
  _last_offset := _base_offset + _record_count - 1;
  _appended_at := clock_timestamp();
  INSERT INTO record_batches (
    log_id, base_offset, last_offset, appended_at, partition, record_count, byte_count, kind,
    idempotent, producer_epoch, first_sequence, last_sequence, producer_id, payloads, keys,
    timestamps, sequences, producer_ids, producer_epochs, event_types, schema_versions,
    aggregate_versions, metadata, event_ids, payload_digests, transaction_id)
  VALUES (
    _log_id, _base_offset, _last_offset, _appended_at, _partition, _record_count, _byte_count, 0,
    _idempotent, _producer_epoch, _first_sequence, _last_sequence, _producer_id, _payloads, _keys,
    _timestamps, _sequences, _producer_ids, _producer_epochs, _event_types, _schema_versions,
    _aggregate_versions, _metadata, _event_ids, _payload_digests, _transaction_id);
  RETURN ROW(0, _base_offset, _last_offset, _record_count, _appended_at, NULL, NULL)::append_result;
END
$$;
