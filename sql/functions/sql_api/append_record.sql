-- append_record: appends one record without a producer, as a batch of its own.
--
-- Arguments: _log_id, _partition; _key, _payload, _event_type, _metadata, _timestamp: the record, where
--            NULL means that it has none.
-- Returns:   as append().
-- Errors:    as append().
-- Tables:    as append().
CREATE OR REPLACE FUNCTION pgcursus.append_record(
  _log_id bigint, _partition int, _key bytea, _payload bytea, _event_type text, _metadata text,
  _timestamp timestamptz)
RETURNS pgcursus.append_result
LANGUAGE sql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  SELECT a.*
    FROM append(
           _log_id, NULL, _partition, 1,
           octet_length(_payload) + coalesce(octet_length(_key), 0),
           false, false, 1, false, NULL, NULL, NULL, NULL, ARRAY[_payload],
           CASE WHEN _key IS NOT NULL THEN ARRAY[_key] END,
           CASE WHEN _timestamp IS NOT NULL
                THEN ARRAY[floor(extract(epoch FROM _timestamp) * 1000)::bigint] END,
           NULL, NULL, NULL,
           CASE WHEN _event_type IS NOT NULL THEN ARRAY[_event_type] END,
           NULL, NULL,
           CASE WHEN _metadata IS NOT NULL THEN ARRAY[_metadata] END,
           NULL, NULL) a
$$;
