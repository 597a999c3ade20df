-- stage_offsets: offsets of one topic that become a group's when the transaction commits
-- (SEND_OFFSETS_TO_TXN, commands-2 4.7).
--
-- Arguments: _transactional_id, _producer_id, _producer_epoch;
--            _group, _topic, _member, _generation  as for an ordinary commit;
--            _partitions, _offsets  arrays of one length, each partition once;
--            _failure   why the list of offsets is bad, NULL when it is not;
--            _max_offsets  that one transaction may stage;
--            _batch     as decide_transaction().
-- Returns:   offsets, the number of entries; more while an overdue transaction is being aborted; or by
--            value the refusal transaction_offsets_failed {reason}.
-- Errors:    PC001: topic_not_assigned_to_group, invalid_txn_offsets {reason}, those of
--            check_commit_fence(), offset_regression {reason}, transaction_not_found {reason},
--            producer_fenced {...}.
-- Tables:    transaction_states, transaction_offsets (read, written), and as check_commit_fence() and
--            end_overdue().
--
-- Nothing is promised: the group, the member and the offsets are checked again at the commit, and
-- ordinary commits go on meanwhile.
CREATE OR REPLACE FUNCTION pgcursus.stage_offsets(
  _transactional_id text, _producer_id text, _producer_epoch bigint, _group text, _topic text,
  _member text, _generation bigint, _partitions int[], _offsets bigint[], _failure text,
  _max_offsets bigint, _batch int)
RETURNS pgcursus.transaction_answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _transaction transaction_states;
  _fence       commit_fence;
  _answer      transaction_answer;
  _reason      text;
BEGIN
  PERFORM pg_advisory_xact_lock(transaction_lock_key(_transactional_id));
  PERFORM pg_advisory_xact_lock_shared(group_lock_key(_group));
  _fence := check_commit_fence(_group, _topic, _member, _generation, coalesce(_partitions, '{}'));
  IF _failure IS NOT NULL AND _fence.code IS DISTINCT FROM 'topic_not_assigned_to_group' THEN
    PERFORM refuse('invalid_txn_offsets', jsonb_build_object('reason', _failure));
  END IF;
  IF _fence.code IS NOT NULL THEN
    PERFORM refuse(_fence.code, _fence.fields);
  END IF;
  SELECT format('a committed offset never falls: group=%s topic=%s partition=%s current=%s got=%s',
                _group, _topic, c.partition, c.current, c.next_offset)
    INTO _reason
    FROM (SELECT s.partition, s.next_offset, s.place,
                 (SELECT o.next_offset
                    FROM offset_commits o
                   WHERE o.group_id = _fence.group_id AND o.log_id = _fence.log_id
                     AND o.partition = s.partition
                   ORDER BY o.next_offset DESC
                   LIMIT 1) AS current
            FROM unnest(_partitions, _offsets) WITH ORDINALITY AS s (partition, next_offset, place)) c
   WHERE c.current > c.next_offset
   ORDER BY c.place
   LIMIT 1;
  IF _reason IS NOT NULL THEN
    PERFORM refuse('offset_regression', jsonb_build_object('reason', _reason));
  END IF;

  _transaction := session_transaction(_transactional_id, _producer_id, _producer_epoch,
                                      'transaction_not_found');
  _answer := end_overdue(_transaction, _batch);
  IF _answer.more THEN
    RETURN _answer;
  END IF;
  _reason := check_staging(_transaction, coalesce(_answer.state, _transaction.state), _fence.group_id,
                           _member, _generation, _fence.log_id, _partitions, _offsets, _max_offsets);
  IF _reason IS NOT NULL THEN
    _answer.more := false;
    _answer.refusal := 'transaction_offsets_failed';
    _answer.refusal_fields := jsonb_build_object(
      'reason', replace(_reason, '<id>', _transactional_id))::text;
    RETURN _answer;
  END IF;

  IF _transaction.group_id IS NULL THEN
    UPDATE transaction_states t
       SET group_id = _fence.group_id, group_name = _group, member_id = _member,
           generation = _generation
     WHERE t.transaction_id = _transaction.transaction_id;
  END IF;
  INSERT INTO transaction_offsets AS o (transaction_id, log_id, partition, next_offset)
  SELECT _transaction.transaction_id, _fence.log_id, s.partition, s.next_offset
    FROM unnest(_partitions, _offsets) AS s (partition, next_offset)
      ON CONFLICT (transaction_id, log_id, partition)
      DO UPDATE SET next_offset = excluded.next_offset WHERE o.next_offset <> excluded.next_offset;
  _answer.more := false;
  _answer.state := 'open';
  _answer.offsets := cardinality(_partitions)::bigint;
  RETURN _answer;
END
$$;
