-- stream_events_dense: some events of one stream that make up a good part of their stretch of the log.
--
-- Arguments: as stream_events(); _first_base, _last_base   the rows of record_batches between which
--            the events lie.
-- Returns:   as stream_events().
-- Errors:    none.
-- Tables:    stream_versions, record_batches (read).
--
-- One walk through index and log side by side: less than half the time of looking each event up. A row
-- holds a stream once (append_events()), so rows in order are versions in order, without a sort.
CREATE OR REPLACE FUNCTION pgcursus.stream_events_dense(
  _log_id bigint, _partition int, _stream_key bytea, _first_version bigint, _last_version bigint,
  _earliest_offset bigint, _first_base bigint, _last_base bigint)
RETURNS pgcursus.stream_events
LANGUAGE plpgsql STABLE
SET search_path = pgcursus, pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_nestloop = off
SET enable_sort = on
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
             AND r.base_offset BETWEEN _first_base AND _last_base
           ORDER BY r.base_offset) e;
  RETURN _events;
END
$$;
