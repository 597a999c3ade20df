-- transaction_counts: what an open transaction holds so far.
--
-- Arguments: _transaction_id.
-- Returns:   messages: distinct records; participants: partitions they are in; offsets: staged ones.
-- Errors:    none.
-- Tables:    transaction_requests, transaction_partitions, transaction_offsets (read).
CREATE OR REPLACE FUNCTION pgcursus.transaction_counts(
  _transaction_id bigint, OUT messages bigint, OUT participants bigint, OUT offsets bigint)
LANGUAGE sql STABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  SELECT (SELECT count(*) FROM transaction_requests r WHERE r.transaction_id = _transaction_id),
         (SELECT count(*) FROM transaction_partitions p WHERE p.transaction_id = _transaction_id),
         (SELECT count(*) FROM transaction_offsets o WHERE o.transaction_id = _transaction_id)
$$;
