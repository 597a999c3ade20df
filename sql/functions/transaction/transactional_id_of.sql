-- transactional_id_of: the name of a transaction.
--
-- Arguments: _transaction_id.
-- Returns:   its transactional id; NULL when it is not known.
-- Errors:    none.
-- Tables:    transaction_states (read).
CREATE OR REPLACE FUNCTION pgcursus.transactional_id_of(_transaction_id bigint)
RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  SELECT t.transactional_id FROM transaction_states t WHERE t.transaction_id = _transaction_id
$$;
