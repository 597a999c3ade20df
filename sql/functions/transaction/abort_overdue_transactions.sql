-- abort_overdue_transactions: a step of housekeeping: ends one transaction that nobody ends.
--
-- Arguments: _batch  as decide_transaction().
-- Returns:   done  1 when there was one; more  whether there may be another, or more of it.
-- Errors:    lock_not_available: somebody is at it.
-- Tables:    transaction_states (read), and as decide_transaction().
--
-- An open transaction past its deadline is aborted; one whose end was decided is driven to it, after a
-- grace, as a node is at it normally.
CREATE OR REPLACE FUNCTION pgcursus.abort_overdue_transactions(
  _batch int, OUT done bigint, OUT more boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _transactional_id text;
  _transaction_id   bigint;
  _transaction      transaction_states;
  _answer           transaction_answer;
BEGIN
  done := 0;
  more := false;
  SELECT t.transactional_id, t.transaction_id INTO _transactional_id, _transaction_id
    FROM transaction_states t
   WHERE (t.state = 'open' AND t.deadline <= clock_timestamp())
      OR (t.state IN ('prepare_commit', 'prepare_abort')
          AND t.changed_at < clock_timestamp() - interval '10 seconds')
   ORDER BY t.deadline
   LIMIT 1;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  PERFORM pg_advisory_xact_lock(transaction_lock_key(_transactional_id));
  -- Again, now that nobody else can touch it.
  SELECT t.* INTO _transaction
    FROM transaction_states t
   WHERE t.transaction_id = _transaction_id;
  more := true;
  IF _transaction.state = 'prepare_commit' THEN
    _answer := decide_transaction(_transaction, true, _batch);
  ELSE
    _answer := end_overdue(_transaction, _batch);
  END IF;
  IF _answer.state IS NOT NULL THEN
    done := 1;
  END IF;
END
$$;
