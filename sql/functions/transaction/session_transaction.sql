-- session_transaction: the transaction of a producer session, which must be its id's current one.
--
-- Arguments: _transactional_id, _producer_id, _producer_epoch: what the request says;
--            _unknown_code  the refusal when the id was never initialised, or has expired.
-- Returns:   its row; all NULL when none was begun in this session.
-- Errors:    PC001: _unknown_code {reason}; producer_fenced {transactional_id, current_epoch,
--            requested_epoch} for another producer id or epoch.
-- Tables:    producers, transaction_states (read).
--
-- Under the exclusive lock of the transactional id, so that nothing of it changes until the end of the
-- database transaction; there is no other way to change it.
CREATE OR REPLACE FUNCTION pgcursus.session_transaction(
  _transactional_id text, _producer_id text, _producer_epoch bigint, _unknown_code text)
RETURNS pgcursus.transaction_states
LANGUAGE plpgsql STABLE
AS $$
DECLARE
  _transaction   transaction_states;
  _current_epoch bigint;
BEGIN
  SELECT t.* INTO _transaction
    FROM producers p
    LEFT JOIN transaction_states t USING (transactional_id, producer_epoch)
   WHERE p.transactional_id = _transactional_id AND NOT p.expired
     AND p.producer_id = _producer_id AND p.producer_epoch = _producer_epoch;
  IF NOT FOUND THEN
    SELECT p.producer_epoch INTO _current_epoch
      FROM producers p
     WHERE p.transactional_id = _transactional_id AND NOT p.expired;
    IF NOT FOUND THEN
      PERFORM refuse(_unknown_code, unknown_transaction(_transactional_id));
    END IF;
    PERFORM refuse('producer_fenced', jsonb_build_object(
      'transactional_id', _transactional_id,
      'current_epoch', _current_epoch::text,
      'requested_epoch', _producer_epoch::text));
  END IF;
  RETURN _transaction;
END
$$;
