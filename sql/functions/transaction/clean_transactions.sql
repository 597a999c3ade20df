-- clean_transactions: a step of removing what finished transactions leave behind.
--
-- Arguments: none.
-- Returns:   done  rows removed; more  whether to go on at once.
-- Errors:    none.
-- Tables:    transaction_cleanup, transaction_requests, transaction_offsets, transaction_partitions,
--            transaction_states (read, written), producers, partition_states, topic_definitions (read).
--
-- First what only an unfinished transaction needs: what was accepted, and the staged offsets. It goes in
-- the order of beginning, up to the first that is not finished or not a minute old: by then whoever got
-- a lower number has committed its beginning. Then, in passes through the table, transactions none
-- of whose records is stored any more, unless they are their id's latest: until then readers need the
-- decision.
CREATE OR REPLACE FUNCTION pgcursus.clean_transactions(OUT done bigint, OUT more boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _limit CONSTANT int := 200;
  _from    transaction_cleanup;
  _next    bigint;
  _looked  bigint;
  _removed bigint;
  _dead    bigint[];
BEGIN
  done := 0;
  more := false;
  SELECT c.* INTO _from FROM transaction_cleanup c FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  PERFORM set_config('synchronous_commit', 'off', true);

  SELECT max(l.transaction_id) FILTER (WHERE l.all_finished), count(*) FILTER (WHERE l.all_finished)
    INTO _next, _looked
    FROM (SELECT t.transaction_id,
                 bool_and(t.state IN ('committed', 'aborted')
                          AND t.begun_at < clock_timestamp() - interval '1 minute')
                   OVER (ORDER BY t.transaction_id) AS all_finished
            FROM (SELECT s.transaction_id, s.state, s.begun_at
                    FROM transaction_states s
                   WHERE s.transaction_id > _from.requests_done
                   ORDER BY s.transaction_id
                   LIMIT _limit) t) l;
  IF _next IS NOT NULL THEN
    DELETE FROM transaction_requests r
     WHERE r.transaction_id > _from.requests_done AND r.transaction_id <= _next;
    GET DIAGNOSTICS _removed = ROW_COUNT;
    done := done + _removed;
    DELETE FROM transaction_offsets o
     WHERE o.transaction_id > _from.requests_done AND o.transaction_id <= _next;
    GET DIAGNOSTICS _removed = ROW_COUNT;
    done := done + _removed;
    UPDATE transaction_cleanup SET requests_done = _next;
    more := _looked = _limit;
  END IF;

  SELECT max(t.transaction_id), count(*), array_agg(t.transaction_id) FILTER (WHERE t.is_dead)
    INTO _next, _looked, _dead
    FROM (SELECT s.transaction_id,
                 s.state IN ('committed', 'aborted')
                   AND s.transaction_id <= _from.requests_done
                   AND NOT EXISTS (SELECT
                                     FROM producers p
                                    WHERE p.transactional_id = s.transactional_id
                                      AND p.producer_epoch = s.producer_epoch AND NOT p.expired)
                   AND NOT EXISTS (SELECT
                                     FROM transaction_partitions x
                                     JOIN topic_definitions d USING (log_id)
                                     JOIN partition_states q USING (log_id, partition)
                                    WHERE x.transaction_id = s.transaction_id
                                      AND x.marker_offset >= q.earliest_offset) AS is_dead
            FROM (SELECT u.transaction_id, u.state, u.transactional_id, u.producer_epoch
                    FROM transaction_states u
                   WHERE u.transaction_id > _from.records_done
                   ORDER BY u.transaction_id
                   LIMIT _limit) s) t;
  IF _dead IS NOT NULL THEN
    DELETE FROM transaction_partitions x WHERE x.transaction_id = ANY (_dead);
    DELETE FROM transaction_states s WHERE s.transaction_id = ANY (_dead);
    GET DIAGNOSTICS _removed = ROW_COUNT;
    done := done + _removed;
  END IF;
  UPDATE transaction_cleanup SET records_done = CASE WHEN _looked = _limit THEN _next ELSE 0 END;
  more := more OR _looked = _limit;
END
$$;
