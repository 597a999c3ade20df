-- lock_transactions: keeps transactions from ending while records are appended to them.
--
-- Arguments: _transactional_ids.
-- Returns:   nothing.
-- Errors:    lock_not_available when an end takes longer than lock_timeout.
-- Tables:    none.
--
-- For a database transaction that appends to several partitions: these locks come before those of any
-- partition, in the order of their keys, as everywhere. Shared: appends do not wait for one another.
CREATE OR REPLACE FUNCTION pgcursus.lock_transactions(_transactional_ids text[])
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(k.key)
     FROM (SELECT DISTINCT transaction_lock_key(i.id) AS key
             FROM unnest(_transactional_ids) AS i (id)
            ORDER BY key) k;
END
$$;
