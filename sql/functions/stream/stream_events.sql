-- stream_events: some events of one stream, found one by one.
--
-- Arguments: _log_id, _partition  where the stream lives;
--            _stream_key          as short_key() makes it;
--            _first_version, _last_version   the events wanted;
--            _earliest_offset     what lies before is gone.
-- Returns:   those that are still there; arrays are NULL when there is none.
-- Errors:    none.
-- Tables:    stream_versions, record_batches (read).
--
-- For a stream whose events lie far apart; stream_events_dense() is for the others.
CREATE OR REPLACE FUNCTION pgcursus.stream_events(
  _log_id bigint, _partition int, _stream_key bytea, _first_version bigint, _last_version bigint,
  _earliest_offset bigint)
RETURNS pgcursus.stream_events
LANGUAGE plpgsql STABLE
SET search_path = pgcursus, pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_sort = off
AS $$
DECLARE
  _events stream_events;
BEGIN
  SELECT count(*)::int, array_agg(e.version), array_agg(e.record_offset), array_agg(e.payload),
         array_agg(e.producer_id), array_agg(e.producer_epoch), array_agg(e.sequence),
         array_agg(e.event_type), array_agg(e.schema_version), array_agg(e.metadata),
         array_agg(e.event_id), array_agg(e.payload_digest)
    INTO _events
    FROM (SELECT *
            FROM stream_event_rows r
           WHERE r.log_id = _log_id AND r.stream_key = _stream_key AND r.partition = _partition
             AND r.version BETWEEN _first_version AND _last_version
             AND r.record_offset >= _earliest_offset
           ORDER BY r.version) e;
  RETURN _events;
END
$$;
