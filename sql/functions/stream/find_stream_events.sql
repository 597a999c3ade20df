-- find_stream_events: some events of one stream, looked up in the way that suits what lies between them.
--
-- Arguments: as stream_events(); both versions have been appended.
-- Returns:   as stream_events(), but of versions, and of offsets, only the first when the others follow
--            it directly.
-- Errors:    none.
-- Tables:    stream_versions, record_batches (read).
--
-- As many events as offsets: the stream has this stretch of the log to itself, in a row for each event, since
-- a row holds a stream once (append_events()). The index of versions, half of the work, is then not needed.
CREATE OR REPLACE FUNCTION pgcursus.find_stream_events(
  _log_id bigint, _partition int, _stream_key bytea, _first_version bigint, _last_version bigint,
  _earliest_offset bigint)
RETURNS pgcursus.stream_events
LANGUAGE plpgsql STABLE
SET search_path = pgcursus, pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $$
DECLARE
  _count  bigint := _last_version - _first_version + 1;
  _first  record;
  _last   record;
  _events stream_events;
BEGIN
  SELECT v.base_offset, v.record_offset INTO _first
    FROM stream_versions v
   WHERE v.log_id = _log_id AND v.stream_key = _stream_key AND v.version = _first_version;
  SELECT v.base_offset, v.record_offset INTO _last
    FROM stream_versions v
   WHERE v.log_id = _log_id AND v.stream_key = _stream_key AND v.version = _last_version;

  IF _last.record_offset - _first.record_offset + 1 = _count
     AND _first.record_offset = _first.base_offset AND _first.record_offset >= _earliest_offset THEN
    SELECT count(*)::int, NULL::bigint[], ARRAY[_first.record_offset], array_agg(e.payloads[1]),
           array_agg(e.producer_id) FILTER (WHERE e.producer_id IS NOT NULL),
           array_agg(e.producer_epoch) FILTER (WHERE e.producer_id IS NOT NULL),
           array_agg(e.first_sequence) FILTER (WHERE e.producer_id IS NOT NULL),
           array_agg(e.event_types[1]), array_agg(e.schema_versions[1]), array_agg(e.metadata[1]),
           array_agg(e.event_ids[1]) FILTER (WHERE e.producer_id IS NOT NULL),
           array_agg(e.payload_digests[1]) FILTER (WHERE e.producer_id IS NOT NULL)
      INTO _events
      FROM (SELECT b.producer_id, b.producer_epoch, b.first_sequence, b.payloads, b.event_types,
                   b.schema_versions, b.metadata, b.event_ids, b.payload_digests
              FROM record_batches b
             WHERE b.log_id = _log_id AND b.partition = _partition
               AND b.base_offset BETWEEN _first.record_offset AND _last.record_offset
             ORDER BY b.base_offset) e;
  END IF;
  -- Others lie between, an event is not there, or some of them have a producer and some have none.
  IF _events.event_count IS DISTINCT FROM _count OR cardinality(_events.producer_ids) <> _count THEN
    IF _last.base_offset - _first.base_offset <= 8 * _count THEN
      _events := stream_events_dense(_log_id, _partition, _stream_key, _first_version, _last_version,
                                     _earliest_offset, _first.base_offset, _last.base_offset);
    ELSE
      _events := stream_events(_log_id, _partition, _stream_key, _first_version, _last_version,
                               _earliest_offset);
    END IF;
  END IF;
  IF _events.event_count = _count THEN
    _events.versions := ARRAY[_first_version];
  END IF;
  RETURN _events;
END
$$;
