-- is_same_record: whether a stored record has the given content.
--
-- Arguments: _log_id, _partition, _record_offset; _payload ... _metadata: the content, NULL for none.
-- Returns:   false when it differs; true also when the record is no longer stored.
-- Errors:    none.
-- Tables:    record_batches (read).
--
-- Transactional records are rows of their own.
CREATE OR REPLACE FUNCTION pgcursus.is_same_record(
  _log_id bigint, _partition int, _record_offset bigint, _payload bytea, _key bytea,
  _event_type text, _schema_version bigint, _aggregate_version bigint, _metadata text)
RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  SELECT coalesce((
    SELECT (b.payloads[1], b.keys[1], b.event_types[1], b.schema_versions[1],
            b.aggregate_versions[1], b.metadata[1])
           IS NOT DISTINCT FROM
           (_payload, _key, _event_type, _schema_version, _aggregate_version, _metadata)
      FROM record_batches b
     WHERE b.log_id = _log_id AND b.partition = _partition AND b.base_offset = _record_offset), true)
$$;
