-- record_rows: batches unpacked into records, with the columns by which an index finds a batch.
--
-- For records and read(), which have what users see; nobody else may use it. A schema_version above
-- the range of int shows as NULL, and a timestamp outside the years 1 to 9999, which a client may have
-- written by mistake, as the time of appending: one odd record must not break everyone's query.
CREATE OR REPLACE VIEW pgcursus.record_rows AS
SELECT b.log_id,
       b.partition,
       b.base_offset,
       b.last_offset,
       b.base_offset + coalesce(r.offset_delta, r.n - 1) AS "offset",
       r.key,
       r.payload,
       CASE WHEN r.unix_ms BETWEEN -62135596800000 AND 253402300799999
            THEN timestamptz 'epoch' + r.unix_ms * interval '1 millisecond'
            ELSE b.appended_at
       END AS "timestamp",
       b.appended_at,
       nullif(CASE WHEN b.producer_ids IS NULL THEN b.producer_id ELSE r.producer_id END, '')
         AS producer_id,
       CASE WHEN b.producer_epochs IS NULL THEN b.producer_epoch ELSE r.producer_epoch END
         AS producer_epoch,
       CASE WHEN b.sequences IS NOT NULL THEN r.sequence
            WHEN b.last_sequence - b.first_sequence = b.record_count - 1
            THEN b.first_sequence + r.n - 1
            ELSE b.first_sequence
       END AS sequence,
       CASE WHEN b.transaction_id IS NULL THEN NULL
            WHEN x.state IN ('committed', 'aborted') THEN x.state
            ELSE 'open'
       END AS transaction_state,
       b.kind <> 0 AS is_control,
       r.event_type,
       CASE WHEN r.schema_version <= 2147483647 THEN r.schema_version::int END AS schema_version,
       r.aggregate_version,
       r.metadata,
       r.headers
  FROM pgcursus.record_batches b
  LEFT JOIN pgcursus.transaction_states x USING (transaction_id)
 CROSS JOIN LATERAL unnest(
         b.payloads, b.keys, b.timestamps, b.offset_deltas, b.producer_ids, b.producer_epochs,
         b.sequences, b.event_types, b.schema_versions, b.aggregate_versions, b.metadata, b.headers)
       WITH ORDINALITY AS r(
         payload, key, unix_ms, offset_delta, producer_id, producer_epoch, sequence, event_type,
         schema_version, aggregate_version, metadata, headers, n);
