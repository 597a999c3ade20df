-- aggregate_range: a proof of a key's events and a range of them, of one snapshot.
--
-- Arguments: _log_id, _partition, _key;
--            _from_sequence, _to_sequence  the range wanted; _from_sequence at least 1;
--            _max_records  at most this many events;
--            _max_bytes    of payloads and the rest of the events; a range above it is not returned.
-- Returns:   the columns of aggregate_proof(); range_count and the events sequences, offsets,
--            event_ids, event_types, payloads, one element each, in order: none unless the proof is
--            complete, and none when they are too large.
-- Errors:    PC001 stale_log.
-- Tables:    as aggregate_proof() and read_stream_page().
CREATE OR REPLACE FUNCTION pgcursus.aggregate_range(
  _log_id bigint, _partition int, _key bytea, _from_sequence bigint, _to_sequence bigint,
  _max_records bigint, _max_bytes bigint)
RETURNS TABLE (
  earliest_sequence bigint, latest_sequence bigint, first_offset bigint, last_offset bigint,
  event_count bigint, first_event_id text, last_event_id text, is_complete boolean,
  proof_hwm bigint, status text, diagnostic text, range_count int, sequences bigint[],
  offsets bigint[], event_ids text[], event_types text[], payloads bytea[])
LANGUAGE sql STABLE SECURITY DEFINER ROWS 1
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  SELECT p.*, CASE WHEN r.last_version = w.last_sequence THEN r.event_count ELSE 0 END, r.versions,
         r.offsets, r.event_ids, r.event_types, r.payloads
    FROM aggregate_proof(_log_id, _partition, _key, NULL) p
   CROSS JOIN LATERAL (
     SELECT least(_to_sequence, p.latest_sequence, _from_sequence + _max_records - 1)) w (last_sequence)
   CROSS JOIN LATERAL (
     SELECT max(g.last_version) AS last_version, count(*)::int AS event_count,
            array_agg(e.version ORDER BY e.version) AS versions,
            array_agg(e.record_offset ORDER BY e.version) AS offsets,
            array_agg(e.event_id ORDER BY e.version) AS event_ids,
            array_agg(e.event_type ORDER BY e.version) AS event_types,
            array_agg(e.payload ORDER BY e.version) AS payloads
       FROM read_stream_page(_log_id, _key, _from_sequence, w.last_sequence, false, _max_records,
                             _max_bytes, 256) g
      CROSS JOIN LATERAL unnest(expand_run(g.versions, g.event_count),
                                expand_run(g.offsets, g.event_count), g.event_ids, g.event_types,
                                g.payloads) e (version, record_offset, event_id, event_type, payload)
      WHERE p.status = 'complete' AND _from_sequence <= w.last_sequence) r
$$;
