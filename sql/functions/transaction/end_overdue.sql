-- end_overdue: aborts a transaction whose deadline has passed, as everything that touches it must first.
--
-- Arguments: _transaction  its row, under the exclusive lock of its id, or all NULL; _batch: as decide_transaction().
-- Returns:   as decide_transaction(), or NULL when there was nothing to do. A transaction that is
--            being aborted already is continued.
-- Errors:    none of its own.
-- Tables:    as decide_transaction().
CREATE OR REPLACE FUNCTION pgcursus.end_overdue(
  _transaction pgcursus.transaction_states, _batch int)
RETURNS pgcursus.transaction_answer
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  _answer transaction_answer;
BEGIN
  IF (_transaction.state = 'open' AND _transaction.deadline <= clock_timestamp())
     OR _transaction.state = 'prepare_abort' THEN
    _answer := decide_transaction(_transaction, false, _batch);
  END IF;
  RETURN _answer;
END
$$;
