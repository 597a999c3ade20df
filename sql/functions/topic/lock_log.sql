-- lock_log: keeps everybody from appending to a log until the transaction ends.
--
-- Arguments: _log_id, _partition_count.
-- Returns:   nothing.
-- Errors:    lock_not_available after the transaction's lock_timeout.
-- Tables:    none.
--
-- Takes the lock of each partition in their order, in which everybody takes them. Whoever waited for
-- one of them sees, when it gets it, what this transaction has committed.
CREATE OR REPLACE FUNCTION pgcursus.lock_log(_log_id bigint, _partition_count int)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
BEGIN
  FOR _partition IN 0 .. _partition_count - 1 LOOP
    PERFORM pg_advisory_xact_lock((_log_id << 16) | _partition);
  END LOOP;
END
$$;
