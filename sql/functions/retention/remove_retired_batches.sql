-- remove_retired_batches: removes the next rows below a partition's earliest offset.
--
-- Arguments: _upkeep    the row of lock_upkeep();
--            _earliest  the partition's earliest offset.
-- Returns:   upkeep, changed, for store_upkeep(); done, records, bytes  rows and what was in them;
--            more  whether there are others.
-- Errors:    none.
-- Tables:    record_batches (written), and as keep_producers() and forget_latest().
--
-- The partition's last row stays, emptied, until another follows: it is where everybody finds the end,
-- and what was deleted stays in the index for as long as some snapshot may see it, so that without that
-- row every look for the end would walk over all of it.
CREATE OR REPLACE FUNCTION pgcursus.remove_retired_batches(
  _upkeep pgcursus.log_upkeep, _earliest bigint, OUT upkeep pgcursus.log_upkeep, OUT done bigint,
  OUT records bigint, OUT bytes bigint, OUT more boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _to    bigint := chunk_end(_upkeep.log_id, _upkeep.partition, _upkeep.removed_offset, _earliest, 100000);
  _last  record;
  _bases bigint[];
BEGIN
  upkeep := _upkeep;
  done := 0;
  records := 0;
  bytes := 0;
  more := _to IS NOT NULL;
  IF NOT more THEN
    upkeep.removed_offset := greatest(_earliest, upkeep.removed_offset);
    RETURN;
  END IF;
  SELECT b.base_offset, b.record_count, b.byte_count INTO _last
    FROM record_batches b
   WHERE b.log_id = upkeep.log_id AND b.partition = upkeep.partition
   ORDER BY b.base_offset DESC
   LIMIT 1;
  upkeep := forget_latest(upkeep, upkeep.removed_offset, _to);
  SELECT array_agg(b.base_offset), count(*), sum(b.record_count), sum(b.byte_count)
    INTO _bases, done, records, bytes
    FROM record_batches b
   WHERE b.log_id = upkeep.log_id AND b.partition = upkeep.partition
     AND b.base_offset >= upkeep.removed_offset AND b.base_offset < _to;
  PERFORM keep_producers(upkeep.log_id, upkeep.partition, _bases);
  DELETE FROM record_batches b
   WHERE b.log_id = upkeep.log_id AND b.partition = upkeep.partition
     AND b.base_offset >= upkeep.removed_offset AND b.base_offset < _to
     AND b.base_offset <> _last.base_offset;
  upkeep.removed_offset := _to;
  IF _last.base_offset < _to THEN
    UPDATE record_batches b
       SET (record_count, byte_count, payloads, keys, timestamps, offset_deltas, sequences,
            producer_ids, producer_epochs, event_types, schema_versions, aggregate_versions,
            event_ids, payload_digests, metadata, headers) =
           (0, 0, '{}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
     WHERE b.log_id = upkeep.log_id AND b.partition = upkeep.partition
       AND b.base_offset = _last.base_offset AND b.record_count > 0;
    upkeep.removed_offset := _last.base_offset;
    more := false;
  END IF;
END
$$;
