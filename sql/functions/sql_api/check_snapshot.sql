-- check_snapshot: refuses to append above READ COMMITTED where rows were removed behind the snapshot.
--
-- Arguments: _log_id, _partition.
-- Returns:   nothing. Until the transaction ends nothing is removed from the partition.
-- Errors:    serialization_failure when retention or compaction has removed rows since the snapshot: an
--            append would not notice that a removed row has had its offsets.
-- Tables:    partition_states (locked, above READ COMMITTED).
CREATE OR REPLACE FUNCTION pgcursus.check_snapshot(_log_id bigint, _partition int)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM FROM partition_states p WHERE p.log_id = _log_id AND p.partition = _partition FOR SHARE;
  END IF;
END
$$;
