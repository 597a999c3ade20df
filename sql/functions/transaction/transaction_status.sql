-- transaction_status: what has become of a transactional id's transaction (TXN_STATUS, commands-2 4.8).
--
-- Arguments: _transactional_id; _batch: as decide_transaction().
-- Returns:   state ('aborted' when none was begun in this session) and counts; more, and the partitions
--            that were touched, while an overdue transaction is being aborted.
-- Errors:    PC001: transaction_not_found {reason}.
-- Tables:    producers (read), and as decide_transaction().
CREATE OR REPLACE FUNCTION pgcursus.transaction_status(_transactional_id text, _batch int)
RETURNS pgcursus.transaction_answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _transaction transaction_states;
  _answer      transaction_answer;
BEGIN
  PERFORM pg_advisory_xact_lock(transaction_lock_key(_transactional_id));
  IF NOT EXISTS (SELECT FROM producers p
                  WHERE p.transactional_id = _transactional_id AND NOT p.expired) THEN
    PERFORM refuse('transaction_not_found', unknown_transaction(_transactional_id));
  END IF;
  _transaction := current_transaction(_transactional_id);
  _answer := end_overdue(_transaction, _batch);
  IF _answer.state IS NOT NULL THEN
    RETURN _answer;
  END IF;
  IF _transaction.state = 'open' THEN
    SELECT c.messages, c.participants, c.offsets
      INTO _answer.messages, _answer.participants, _answer.offsets
      FROM transaction_counts(_transaction.transaction_id) c;
  ELSE
    _answer.messages := coalesce(_transaction.message_count, 0);
    _answer.participants := coalesce(_transaction.participant_count, 0);
    _answer.offsets := coalesce(_transaction.offset_count, 0);
  END IF;
  _answer.more := false;
  _answer.state := coalesce(_transaction.state, 'aborted');
  RETURN _answer;
END
$$;
