-- decide_transaction: ends an open transaction, or goes on ending a prepared one.
--
-- Arguments: _transaction  its row, under the exclusive lock of its id, in state open, or prepare_commit or prepare_abort;
--            _commit       the decision; of a prepared one: the one that was prepared;
--            _batch        markers to write in one database transaction.
-- Returns:   more (to be called again), state, the counts, and the partitions that were touched.
-- Errors:    none of its own.
-- Tables:    transaction_states, transaction_partitions, record_batches, offset_commits (written),
--            transaction_requests, transaction_offsets, stream_reservations, topic_definitions,
--            partition_states (read), and as release_streams().
--
-- At READ COMMITTED, under the exclusive lock of the transactional id: nothing is being appended to the
-- transaction, and what was is visible. Markers are appended under the locks of the partitions, in their
-- one order. READ COMMITTED is not a concession: the next offset is looked up after the wait for the
-- partition's lock, which a snapshot taken before would not see. What SERIALIZABLE would add is given by
-- locks: the transactional id's, the group's row, the partitions'.
--
-- With at most _batch partitions all is one database transaction. With more the decision is made durable
-- first (prepare_commit, prepare_abort), markers follow in batches, and the last batch comes with the final
-- state and the release of all partitions, so that readers see all of it or nothing. The offsets go with
-- the decision: nobody can then read the same input again while markers are written, and what was made of
-- it is behind the stable end of its partitions until all of it can be read.
CREATE OR REPLACE FUNCTION pgcursus.decide_transaction(
  _transaction pgcursus.transaction_states, _commit boolean, _batch int)
RETURNS pgcursus.transaction_answer
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  _answer transaction_answer;
BEGIN
  -- One more than the batch, to know whether there are more.
  SELECT array_agg(u.log_id), array_agg(u.partition)
    INTO _answer.log_ids, _answer.partitions
    FROM (SELECT p.log_id, p.partition
            FROM transaction_partitions p
           WHERE p.transaction_id = _transaction.transaction_id AND p.marker_offset IS NULL
           ORDER BY p.log_id, p.partition
           LIMIT _batch + 1) u;
  _answer.more := coalesce(cardinality(_answer.log_ids), 0) > _batch;
  IF _answer.more THEN
    _answer.log_ids := _answer.log_ids[:_batch];
    _answer.partitions := _answer.partitions[:_batch];
  END IF;
  IF _answer.log_ids IS NOT NULL THEN
    _answer.end_offsets := append_markers(_transaction, _answer.log_ids, _answer.partitions, _commit,
                                          _transaction.state = 'open' AND NOT _answer.more);
  END IF;

  IF _commit AND _transaction.state = 'open' AND _transaction.group_id IS NOT NULL THEN
    -- Offsets only rise: one that an ordinary commit has just passed changes nothing.
    INSERT INTO offset_commits (group_id, log_id, partition, next_offset)
    SELECT _transaction.group_id, o.log_id, o.partition, o.next_offset
      FROM transaction_offsets o
     WHERE o.transaction_id = _transaction.transaction_id
        ON CONFLICT DO NOTHING;
  END IF;
  IF _answer.more THEN
    _answer.state := CASE WHEN _commit THEN 'prepare_commit' ELSE 'prepare_abort' END;
  ELSE
    IF _transaction.state <> 'open' THEN
      UPDATE transaction_partitions p
         SET resolved = true
       WHERE p.transaction_id = _transaction.transaction_id AND NOT p.resolved;
      SELECT array_agg(p.log_id), array_agg(p.partition), array_agg(p.marker_offset + 1)
        INTO _answer.log_ids, _answer.partitions, _answer.end_offsets
        FROM transaction_partitions p
       WHERE p.transaction_id = _transaction.transaction_id;
    END IF;
    _answer.state := CASE WHEN _commit THEN 'committed' ELSE 'aborted' END;
    IF EXISTS (SELECT FROM stream_reservations r WHERE r.transaction_id = _transaction.transaction_id) THEN
      PERFORM release_streams(_transaction.transaction_id, _commit);
    END IF;
  END IF;
  UPDATE transaction_states t
     SET state = _answer.state, changed_at = clock_timestamp(),
         message_count = CASE WHEN t.state <> 'open' THEN t.message_count
                              ELSE (SELECT count(*) FROM transaction_requests r
                                     WHERE r.transaction_id = _transaction.transaction_id) END,
         participant_count = CASE WHEN t.state <> 'open' THEN t.participant_count
                                  ELSE (SELECT count(*) FROM transaction_partitions p
                                         WHERE p.transaction_id = _transaction.transaction_id) END,
         offset_count = CASE WHEN t.state <> 'open' THEN t.offset_count
                             ELSE (SELECT count(*) FROM transaction_offsets o
                                    WHERE o.transaction_id = _transaction.transaction_id) END
   WHERE t.transaction_id = _transaction.transaction_id
  RETURNING t.message_count, t.participant_count, t.offset_count
       INTO _answer.messages, _answer.participants, _answer.offsets;
  RETURN _answer;
END
$$;
