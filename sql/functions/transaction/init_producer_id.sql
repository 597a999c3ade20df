-- init_producer_id: begins the next session of a transactional id (INIT_PRODUCER_ID, commands-2 4.4).
--
-- Arguments: _transactional_id;
--            _max_ids  transactional ids that may be known at a time;
--            _batch    as decide_transaction().
-- Returns:   producer_id, producer_epoch; or more, while a transaction of the last session is being
--            aborted; and the partitions that this has touched.
-- Errors:    PC001: init_producer_failed {reason}.
-- Tables:    producers (read, written), and as decide_transaction().
--
-- Whoever holds an older epoch is fenced when this has committed: appends to its transaction took the
-- same lock, and find it ended. The epoch rises only when this succeeds; an id that is known again
-- after it has expired goes on counting.
CREATE OR REPLACE FUNCTION pgcursus.init_producer_id(
  _transactional_id text, _max_ids bigint, _batch int)
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
  IF NOT FOUND THEN
    _session.producer_id :=
      'txn-' || left(encode(sha256(convert_to(_transactional_id, 'UTF8')), 'hex'), 16);
    _session.producer_epoch := 0;
  ELSE
    SELECT t.* INTO _transaction
      FROM transaction_states t
     WHERE t.transactional_id = _transactional_id AND t.producer_epoch = _session.producer_epoch;
    IF _transaction.state = 'prepare_commit' THEN
      PERFORM refuse('init_producer_failed', jsonb_build_object('reason',
        'the last transaction is being committed; retry END_TXN'));
    ELSIF _transaction.state IN ('open', 'prepare_abort') THEN
      _answer := decide_transaction(_transaction, false, _batch);
      IF _answer.more THEN
        RETURN _answer;
      END IF;
    END IF;
    _session.producer_epoch := _session.producer_epoch + 1;
  END IF;

  IF _session.producer_epoch > 2147483647 THEN
    PERFORM refuse('init_producer_failed', jsonb_build_object('reason',
      'the epochs of this transactional id are used up'));
  END IF;
  IF _session.expired IS DISTINCT FROM false THEN
    IF (SELECT count(*) FROM producers p WHERE NOT p.expired) >= _max_ids THEN
      PERFORM refuse('init_producer_failed', jsonb_build_object('reason',
        format('there are %s transactional ids already', _max_ids)));
    END IF;
  END IF;
  INSERT INTO producers AS p (transactional_id, producer_id, producer_epoch)
  VALUES (_transactional_id, _session.producer_id, _session.producer_epoch)
      ON CONFLICT (transactional_id)
      DO UPDATE SET producer_epoch = excluded.producer_epoch, changed_at = excluded.changed_at,
                    expired = false;
  _answer.more := false;
  _answer.producer_id := _session.producer_id;
  _answer.producer_epoch := _session.producer_epoch;
  RETURN _answer;
END
$$;
