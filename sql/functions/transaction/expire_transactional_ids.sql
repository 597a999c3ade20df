-- expire_transactional_ids: a step of forgetting transactional ids that have rested for long.
--
-- Arguments: _expiration_ms  since the last change of the id or its transaction.
-- Returns:   done  ids forgotten; more  whether there may be others.
-- Errors:    lock_not_available: somebody uses one of them.
-- Tables:    producers (read, written), transaction_states (read).
--
-- Producer id and epoch stay, so that a producer that comes back gets a higher epoch. An id whose
-- transaction is not finished stays known.
CREATE OR REPLACE FUNCTION pgcursus.expire_transactional_ids(
  _expiration_ms bigint, OUT done bigint, OUT more boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _limit CONSTANT int := 50;
  _before timestamptz := clock_timestamp()
                         - least(_expiration_ms, 3153600000000) * interval '1 millisecond';
  _ids    text[];
BEGIN
  SELECT array_agg(i.transactional_id) INTO _ids
    FROM (SELECT p.transactional_id
            FROM producers p
            LEFT JOIN transaction_states t USING (transactional_id, producer_epoch)
           WHERE NOT p.expired AND p.changed_at < _before
             AND (t.state IS NULL OR (t.state IN ('committed', 'aborted') AND t.changed_at < _before))
           LIMIT _limit) i;
  PERFORM pg_advisory_xact_lock(k.key)
     FROM (SELECT DISTINCT transaction_lock_key(i.id) AS key FROM unnest(_ids) AS i (id) ORDER BY key) k;
  -- Again, now that nobody else can use them.
  UPDATE producers p
     SET expired = true
   WHERE p.transactional_id = ANY (_ids) AND NOT p.expired AND p.changed_at < _before
     AND NOT EXISTS (SELECT
                       FROM transaction_states t
                      WHERE t.transactional_id = p.transactional_id
                        AND t.producer_epoch = p.producer_epoch
                        AND (t.state NOT IN ('committed', 'aborted') OR t.changed_at >= _before));
  GET DIAGNOSTICS done = ROW_COUNT;
  more := coalesce(cardinality(_ids), 0) = _limit;
END
$$;
