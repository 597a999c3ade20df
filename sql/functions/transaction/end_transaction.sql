-- end_transaction: commits or aborts the transaction of a producer session (END_TXN, commands-2 4.8).
--
-- Arguments: _transactional_id, _producer_id, _producer_epoch; _commit: else abort;
--            _principal  the client's, NULL for nobody: it must still be allowed to write;
--            _batch      as decide_transaction().
-- Returns:   state and counts, the same again when it had this outcome already; more while it takes
--            several calls; the partitions that were touched. Or, by value, since an overdue transaction
--            is aborted first: transaction_aborted, transaction_already_committed {transactional_id},
--            transaction_not_abortable {transactional_id, state}.
-- Errors:    PC001: transaction_not_found {reason}, producer_fenced {...}, transaction_commit_failed
--            {state, reason}.
-- Tables:    as decide_transaction() and check_commit().
CREATE OR REPLACE FUNCTION pgcursus.end_transaction(
  _transactional_id text, _producer_id text, _producer_epoch bigint, _commit boolean,
  _principal text, _batch int)
RETURNS pgcursus.transaction_answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _transaction transaction_states;
  _answer      transaction_answer;
  _failure     text;
BEGIN
  PERFORM pg_advisory_xact_lock(transaction_lock_key(_transactional_id));
  _transaction := session_transaction(_transactional_id, _producer_id, _producer_epoch,
                                      'transaction_not_found');
  _answer := end_overdue(_transaction, _batch);
  IF _answer.more THEN
    RETURN _answer;
  END IF;
  IF _answer.state IS NULL THEN
    IF _transaction.state = 'open' AND _commit THEN
      _failure := check_commit(_transaction, _principal);
      IF _failure IS NOT NULL THEN
        PERFORM refuse('transaction_commit_failed',
                       jsonb_build_object('state', 'open', 'reason', _failure));
      END IF;
    END IF;
    IF _transaction.state = 'open' OR (_transaction.state = 'prepare_commit' AND _commit) THEN
      RETURN decide_transaction(_transaction, _commit, _batch);
    END IF;
    _answer.more := false;
    _answer.state := coalesce(_transaction.state, 'aborted');
    _answer.messages := coalesce(_transaction.message_count, 0);
    _answer.participants := coalesce(_transaction.participant_count, 0);
    _answer.offsets := coalesce(_transaction.offset_count, 0);
  END IF;

  IF _answer.state = 'prepare_commit' THEN
    _answer.refusal := 'transaction_not_abortable';
    _answer.refusal_fields := jsonb_build_object('transactional_id', _transactional_id,
                                                 'state', _answer.state)::text;
  ELSIF _commit AND _answer.state = 'aborted' THEN
    _answer.refusal := 'transaction_aborted';
  ELSIF NOT _commit AND _answer.state = 'committed' THEN
    _answer.refusal := 'transaction_already_committed';
  END IF;
  IF _answer.refusal IS NOT NULL AND _answer.refusal_fields IS NULL THEN
    _answer.refusal_fields := jsonb_build_object('transactional_id', _transactional_id)::text;
  END IF;
  RETURN _answer;
END
$$;
