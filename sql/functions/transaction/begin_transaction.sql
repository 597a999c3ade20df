-- begin_transaction: opens the transaction of a producer session (BEGIN_TXN, commands-2 4.5).
--
-- Arguments: _transactional_id, _producer_id, _producer_epoch;
--            _timeout_ms  from now until it is aborted.
-- Returns:   state.
-- Errors:    PC001: transaction_begin_failed {reason} for an unknown id and for an epoch that was not
--            given out; producer_fenced {...}; producer_reinitialization_required {transactional_id,
--            epoch} when the session has had its transaction.
-- Tables:    producers (read), transaction_states (read, written).
CREATE OR REPLACE FUNCTION pgcursus.begin_transaction(
  _transactional_id text, _producer_id text, _producer_epoch bigint, _timeout_ms bigint)
RETURNS pgcursus.transaction_answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _answer transaction_answer;
BEGIN
  PERFORM pg_advisory_xact_lock(transaction_lock_key(_transactional_id));
  INSERT INTO transaction_states (transactional_id, producer_id, producer_epoch, state, deadline)
  SELECT p.transactional_id, p.producer_id, p.producer_epoch, 'open',
         clock_timestamp() + least(_timeout_ms, 3153600000000) * interval '1 millisecond'
    FROM producers p
   WHERE p.transactional_id = _transactional_id AND NOT p.expired
     AND p.producer_id = _producer_id AND p.producer_epoch = _producer_epoch
      ON CONFLICT (transactional_id, producer_epoch) DO NOTHING;
  IF NOT FOUND THEN
    IF EXISTS (SELECT
                 FROM producers p
                WHERE p.transactional_id = _transactional_id AND NOT p.expired
                  AND p.producer_id = _producer_id AND p.producer_epoch < _producer_epoch) THEN
      PERFORM refuse('transaction_begin_failed', jsonb_build_object('reason',
        format('epoch %s of transactional id %s has not been initialised', _producer_epoch,
               _transactional_id)));
    END IF;
    PERFORM session_transaction(_transactional_id, _producer_id, _producer_epoch,
                                'transaction_begin_failed');
    PERFORM refuse('producer_reinitialization_required', jsonb_build_object(
      'transactional_id', _transactional_id, 'epoch', _producer_epoch::text));
  END IF;
  _answer.more := false;
  _answer.state := 'open';
  RETURN _answer;
END
$$;
