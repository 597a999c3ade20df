-- records: every retained record of every topic, one row each, whatever its transaction's state.
--
-- For looking at a whole topic or many. To read from an offset use read(), which finds the place by
-- the index: here an offset is known only after its batch has been unpacked. Markers of transactions
-- are rows with is_control. The columns are those of the type log_record.
CREATE OR REPLACE VIEW pgcursus.records AS
SELECT t.name AS topic,
       r.partition,
       r."offset",
       r.key,
       r.payload,
       r."timestamp",
       r.appended_at,
       r.producer_id,
       r.producer_epoch,
       r.sequence,
       r.transaction_state,
       r.is_control,
       r.event_type,
       r.schema_version,
       r.aggregate_version,
       r.metadata,
       r.headers
  FROM pgcursus.record_rows r
  JOIN pgcursus.topic_definitions t USING (log_id)
  JOIN pgcursus.partition_states p
    ON p.log_id = r.log_id AND p.partition = r.partition AND r."offset" >= p.earliest_offset;
