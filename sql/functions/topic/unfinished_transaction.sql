-- unfinished_transaction: the transaction that keeps a log from being removed.
--
-- Arguments: _log_id.
-- Returns:   the transactional id of one that is open, or being committed or aborted, and has
--            appended to the log or staged an offset of it; NULL when there is none.
-- Errors:    none.
-- Tables:    transaction_states, transaction_partitions, transaction_offsets (read).
CREATE OR REPLACE FUNCTION pgcursus.unfinished_transaction(_log_id bigint)
RETURNS text
LANGUAGE sql STABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  SELECT s.transactional_id
    FROM transaction_states s
   WHERE s.state IN ('open', 'prepare_commit', 'prepare_abort')
     AND (EXISTS (SELECT FROM transaction_partitions p
                   WHERE p.transaction_id = s.transaction_id AND p.log_id = _log_id)
          OR EXISTS (SELECT FROM transaction_offsets o
                      WHERE o.transaction_id = s.transaction_id AND o.log_id = _log_id))
   ORDER BY s.transaction_id
   LIMIT 1
$$;
