-- append_events: appends events of several streams to one partition, each under its version check.
--
-- Arguments: _log_id, _revision, _partition, _require_isr, _min_insync   as append() has them;
--            _byte_count   payloads and keys;
--            _keys         the streams, each at most once;
--            _versions     the version that each event shall have; 0 or NULL is always a conflict;
--            _payloads, _event_types, _schema_versions, _metadata   the events;
--            _event_ids, _payload_digests, _producer_id, _producer_epoch, _sequence   in a topic with
--                          aggregate_replay, where a call takes one event; else NULL.
-- Returns:   status of the call  0: see the events; 2 to 7 as append(), 8: the producer has used the
--                         sequence for another event: nothing was appended;
--            base_offset, last_offset, appended_count, appended_at  of the events that were appended,
--                         which have consecutive offsets in their order;
--            current_value, expected_value  as append();
--            event_statuses  NULL: every event was appended; else one of each event:
--                         0 appended;
--                         1 a repeat of the event that is there: event_values is its offset;
--                         9 version conflict: event_values is the current version;
--                        10 the stream lives in the partition event_values;
--                        11 another event has this version;
--                        12 another event has this event id;
--                        13 the event that has this version can no longer be read;
--                        14 the stream is reserved by the transaction event_values.
-- Errors:    serialization_failure when another partition's append of the same key was first, which
--            needs a change of the partition count in between: try again; invalid_parameter_value when
--            the arrays do not fit each other, or log or partition is NULL.
-- Tables:    stream_reservations (read), stream_versions (read, written); as append().
--
-- A refused event does not keep its neighbours from being appended. The partition's lock is held from
-- before the versions are looked at, so what is found stays true; the primary key of stream_versions
-- decides where that lock cannot: between two partitions.
CREATE OR REPLACE FUNCTION pgcursus.append_events(
  _log_id bigint, _revision bigint, _partition int, _byte_count int, _require_isr boolean,
  _min_insync int, _keys bytea[], _versions bigint[], _payloads bytea[], _event_types text[],
  _schema_versions bigint[], _metadata text[], _event_ids text[], _payload_digests text[],
  _producer_id text, _producer_epoch bigint, _sequence bigint)
RETURNS pgcursus.append_events_result
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
-- However small the planner believes the table to be when the session plans: a plan outlives that.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $$
DECLARE
  _count    int := cardinality(_keys);
  _accepted int;
  _statuses int[];
  _values   bigint[];
  _keep     boolean[];
  _result   append_result;
  _inserted int;
BEGIN
  IF _count IS NULL OR _count < 1 OR cardinality(_payloads) IS DISTINCT FROM _count
     OR cardinality(_event_ids) <> 1 OR (_event_ids IS NOT NULL AND _count <> 1) THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
      MESSAGE = format('%s payloads for %s keys', cardinality(_payloads), _count);
  END IF;
  IF pg_advisory_xact_lock((_log_id << 16) | (_partition & 65535)) IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
      MESSAGE = 'log and partition must be given';
  END IF;

  IF _event_ids IS NULL THEN
    SELECT array_agg(d.status), array_agg(d.value), (count(*) FILTER (WHERE d.status = 0))::int
      INTO _statuses, _values, _accepted
      FROM (SELECT CASE WHEN r.transaction_id IS NOT NULL THEN 14
                        WHEN h.partition <> _partition THEN 10
                        WHEN coalesce(e.version, 0) <> coalesce(h.version, 0) + 1 THEN 9
                        ELSE 0
                   END AS status,
                   CASE WHEN r.transaction_id IS NOT NULL THEN r.transaction_id
                        WHEN h.partition <> _partition THEN h.partition::bigint
                        ELSE coalesce(h.version, 0)
                   END AS value
              FROM unnest(_keys, _versions) AS e (key, version)
              LEFT JOIN LATERAL (
                SELECT v.version, v.partition
                  FROM stream_versions v
                 WHERE v.log_id = _log_id AND v.stream_key = short_key(e.key)
                 ORDER BY v.version DESC
                 LIMIT 1) h ON true
              LEFT JOIN stream_reservations r
                ON r.log_id = _log_id AND r.stream_key = short_key(e.key)) d;
  ELSE
    SELECT ARRAY[c.status], ARRAY[c.value], CASE WHEN c.status = 0 THEN 1 ELSE 0 END
      INTO _statuses, _values, _accepted
      FROM check_replay_event(_log_id, _partition, _keys[1], _versions[1], _event_ids[1],
                              _payload_digests[1]) c;
  END IF;

  IF _accepted = 0 THEN
    -- What a stream holds counts only while its log is the topic's.
    IF NOT EXISTS (SELECT FROM topic_definitions t
                    WHERE t.log_id = _log_id AND t.revision = coalesce(_revision, t.revision)) THEN
      RETURN ROW(2, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL)::append_events_result;
    END IF;
    RETURN ROW(0, NULL, NULL, 0, NULL, NULL, NULL, _statuses, _values)::append_events_result;
  ELSIF _accepted = _count THEN
    _statuses := NULL;
    _values := NULL;
  ELSE
    SELECT array_agg(s.status = 0) INTO _keep FROM unnest(_statuses) AS s (status);
    _keys := keep_elements(_keys, _keep);
    _versions := keep_elements(_versions, _keep);
    _payloads := keep_elements(_payloads, _keep);
    _event_types := keep_elements(_event_types, _keep);
    _schema_versions := keep_elements(_schema_versions, _keep);
    _metadata := keep_elements(_metadata, _keep);
    _byte_count := byte_count_of(_payloads, _keys);
  END IF;

  _result := append(
    _log_id, _revision, _partition, _accepted, _byte_count, _event_ids IS NOT NULL, _require_isr,
    _min_insync, false, _producer_id, _producer_epoch, _sequence, _sequence, _payloads, _keys, NULL,
    NULL, NULL, NULL, _event_types, _schema_versions, _versions, _metadata, _event_ids,
    _payload_digests);
  IF _result.status <> 0 THEN
    -- An event that is not the one at its version has no business with a sequence that was used.
    _result.status := CASE _result.status WHEN 1 THEN 8 ELSE _result.status END;
    RETURN ROW(_result.status, NULL, NULL, 0, NULL, _result.current_value, _result.expected_value,
               NULL, NULL)::append_events_result;
  END IF;

  INSERT INTO stream_versions (
    log_id, version, record_offset, base_offset, partition, byte_count, stream_key, event_key)
  SELECT _log_id, e.version, _result.base_offset + e.n - 1, _result.base_offset, _partition,
         octet_length(e.payload) + octet_length(e.key) + coalesce(octet_length(e.event_type), 0)
         + coalesce(octet_length(e.metadata), 0),
         short_key(e.key), short_key(convert_to(e.event_id, 'UTF8'))
    FROM unnest(_keys, _versions, _payloads, _event_types, _metadata, _event_ids)
         WITH ORDINALITY AS e (key, version, payload, event_type, metadata, event_id, n)
      ON CONFLICT DO NOTHING;
  GET DIAGNOSTICS _inserted = ROW_COUNT;
  IF _inserted <> _accepted THEN
    RAISE EXCEPTION USING ERRCODE = 'serialization_failure',
      MESSAGE = 'the same event was appended to another partition at the same time',
      HINT = 'Run the transaction again.';
  END IF;
  RETURN ROW(0, _result.base_offset, _result.last_offset, _accepted, _result.appended_at, NULL, NULL,
             _statuses, _values)::append_events_result;
END
$$;
