-- keep_records: leaves only some records in a row of record_batches.
--
-- Arguments: _log_id, _partition, _base_offset  the row;
--            _keep  of each record, whether it stays; at least one does;
--            _removed_bytes  of payload and key of the others.
-- Returns:   nothing.
-- Errors:    none.
-- Tables:    record_batches (written).
--
-- What follows from a record's place while none is missing, its offset and its sequence, is written down
-- from now on.
CREATE OR REPLACE FUNCTION pgcursus.keep_records(
  _log_id bigint, _partition int, _base_offset bigint, _keep boolean[], _removed_bytes bigint)
RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  UPDATE record_batches b
     SET record_count = cardinality(array_positions(_keep, true)),
         byte_count = b.byte_count - _removed_bytes::int,
         payloads = keep_elements(b.payloads, _keep),
         keys = keep_elements(b.keys, _keep),
         timestamps = keep_elements(b.timestamps, _keep),
         offset_deltas = keep_elements(
           coalesce(b.offset_deltas, ARRAY(SELECT generate_series(0, b.record_count - 1))), _keep),
         sequences = CASE WHEN b.sequences IS NOT NULL THEN keep_elements(b.sequences, _keep)
                          WHEN b.last_sequence - b.first_sequence = b.record_count - 1
                          THEN keep_elements(
                                 ARRAY(SELECT generate_series(b.first_sequence, b.last_sequence)), _keep)
                     END,
         producer_ids = keep_elements(b.producer_ids, _keep),
         producer_epochs = keep_elements(b.producer_epochs, _keep),
         event_types = keep_elements(b.event_types, _keep),
         schema_versions = keep_elements(b.schema_versions, _keep),
         aggregate_versions = keep_elements(b.aggregate_versions, _keep),
         event_ids = keep_elements(b.event_ids, _keep),
         payload_digests = keep_elements(b.payload_digests, _keep),
         metadata = keep_elements(b.metadata, _keep),
         headers = keep_elements(b.headers, _keep)
   WHERE b.log_id = _log_id AND b.partition = _partition AND b.base_offset = _base_offset
$$;
