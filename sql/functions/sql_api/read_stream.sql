-- read_stream: the events of an aggregate's stream, in order.
--
-- Arguments: topic, key    the aggregate;
--            from_version  the first version wanted.
-- Returns:   a row an event that retention has left; nothing for an unknown key. Snapshots are not
--            looked at.
-- Errors:    undefined_object for an unknown topic.
-- Tables:    topic_definitions, stream_versions, record_batches, partition_states (read).
CREATE OR REPLACE FUNCTION pgcursus.read_stream(topic text, key bytea, from_version bigint DEFAULT 1)
RETURNS SETOF pgcursus.stream_event
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_sort = off
AS $$
#variable_conflict use_column
DECLARE
  _log_id bigint := (topic_with_partition(read_stream.topic, NULL)).log_id;
BEGIN
  RETURN QUERY
  SELECT r.version, r.event_type,
         CASE WHEN r.schema_version <= 2147483647 THEN r.schema_version::int END, r.payload,
         r.metadata, r.appended_at, r.partition, r.record_offset, r.event_id
    FROM stream_event_rows r
    JOIN partition_states p ON p.log_id = r.log_id AND p.partition = r.partition
   WHERE r.log_id = _log_id AND r.stream_key = short_key(read_stream.key)
     AND r.version >= read_stream.from_version AND r.record_offset >= p.earliest_offset
   ORDER BY r.version;
END
$$;
