-- decided_state: what readers may know of a transaction: open, committed or aborted.
--
-- Arguments: _transaction_id.
-- Returns:   'committed' or 'aborted' once that is final, else 'open': also while the end is being
--            prepared, and for a transaction that is not there, since showing its records is the
--            one mistake that cannot be taken back.
-- Errors:    none.
-- Tables:    transaction_states (read).
CREATE OR REPLACE FUNCTION pgcursus.decided_state(_transaction_id bigint)
RETURNS text
LANGUAGE sql STABLE
AS $$
  SELECT coalesce((SELECT x.state
                     FROM pgcursus.transaction_states x
                    WHERE x.transaction_id = _transaction_id
                      AND x.state IN ('committed', 'aborted')), 'open')
$$;
