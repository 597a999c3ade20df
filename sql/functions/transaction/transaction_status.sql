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
  _session     producers;
  _transaction transaction_states;
  _answer      transaction_answer;
BEGIN
  PERFORM pg_advisory_xact_lock(transaction_lock_key(_transactional_id));
  SELECT p.* INTO _session
    FROM producers p
   WHERE p.transactional_id = _transactional_id;
  _transaction := session_transaction(_transactional_id, _session.producer_id,
                                      _session.producer_epoch, 'transaction_not_found');
  _answer := end_overdue(_transaction, _batch);
  IF _answer.state IS NOT NULL THEN
    RETURN _answer;
  END IF;
  IF _transaction.state = 'open' THEN
    SELECT (SELECT count(*) FROM transaction_requests r
             WHERE r.transaction_id = _transaction.transaction_id),
           (SELECT count(*) FROM transaction_partitions p
             WHERE p.transaction_id = _transaction.transaction_id),
           (SELECT count(*) FROM transaction_offsets o
             WHERE o.transaction_id = _transaction.transaction_id)
      INTO _answer.messages, _answer.participants, _answer.offsets;
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
