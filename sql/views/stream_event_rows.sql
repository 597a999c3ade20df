-- stream_event_rows: the events of streams that are still in the log, each with the columns by which an
-- index finds it.
--
-- For the functions that read streams; nobody else may use it. Sequence, event id and the like are
-- those of the record; version and stream_key are those of the index that led to it.
CREATE OR REPLACE VIEW pgcursus.stream_event_rows AS
SELECT v.log_id,
       v.stream_key,
       v.version,
       v.partition,
       v.record_offset,
       b.base_offset,
       b.appended_at,
       b.producer_id,
       b.producer_epoch,
       b.first_sequence AS sequence,
       b.payloads[i.i] AS payload,
       b.event_types[i.i] AS event_type,
       b.schema_versions[i.i] AS schema_version,
       b.aggregate_versions[i.i] AS aggregate_version,
       b.metadata[i.i] AS metadata,
       b.event_ids[i.i] AS event_id,
       b.payload_digests[i.i] AS payload_digest
  FROM pgcursus.stream_versions v
  JOIN pgcursus.record_batches b USING (log_id, partition, base_offset)
 CROSS JOIN LATERAL (SELECT (v.record_offset - v.base_offset)::int + 1) AS i (i);
