-- lock_changes: takes what several changes of transactions lock, for them to share a database transaction.
--
-- Arguments: _transactional_ids  of all the calls that follow;
--            _ending             those of them whose calls may end a transaction;
--            _groups             the groups that the calls name.
-- Returns:   nothing.
-- Errors:    lock_not_available when somebody holds one for longer than lock_timeout;
--            program_limit_exceeded for more than 256 partitions: the calls have to go one by one.
-- Tables:    producers, transaction_states, transaction_partitions (read).
--
-- The functions take their locks again, each in the order that is the same everywhere: transactional
-- ids, groups, partitions. One after another in one database transaction they would break it.
CREATE OR REPLACE FUNCTION pgcursus.lock_changes(
  _transactional_ids text[], _ending text[], _groups text[])
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _group_keys     bigint[];
  _partition_keys bigint[];
BEGIN
  PERFORM pg_advisory_xact_lock(k.key)
     FROM (SELECT DISTINCT transaction_lock_key(i.id) AS key
             FROM unnest(_transactional_ids) AS i (id)
            ORDER BY key) k;
  -- Nobody else changes these transactions from here on.
  SELECT array_agg(DISTINCT group_lock_key(t.group_name)) FILTER (WHERE t.group_name IS NOT NULL),
         array_agg(DISTINCT (p.log_id << 16) | p.partition ORDER BY (p.log_id << 16) | p.partition)
           FILTER (WHERE p.partition IS NOT NULL)
    INTO _group_keys, _partition_keys
    FROM unnest(_transactional_ids) AS i (id)
   CROSS JOIN LATERAL (
           SELECT t.transaction_id, t.group_name
             FROM producers c
             JOIN transaction_states t USING (transactional_id, producer_epoch)
            WHERE c.transactional_id = i.id AND t.state NOT IN ('committed', 'aborted')
              AND (i.id = ANY (_ending) OR t.deadline <= clock_timestamp())
            LIMIT 1) t
    LEFT JOIN LATERAL (
           SELECT p.log_id, p.partition
             FROM transaction_partitions p
            WHERE p.transaction_id = t.transaction_id AND p.marker_offset IS NULL
           OFFSET 0) p ON true;
  IF cardinality(_partition_keys) > 256 THEN
    RAISE EXCEPTION USING ERRCODE = 'program_limit_exceeded',
      MESSAGE = format('%s partitions to be locked at once', cardinality(_partition_keys));
  END IF;
  PERFORM pg_advisory_xact_lock_shared(k.key)
     FROM (SELECT unnest(_group_keys) AS key
            UNION
           SELECT group_lock_key(g.name) FROM unnest(_groups) AS g (name)
            ORDER BY key) k;
  FOR _place IN 1 .. coalesce(cardinality(_partition_keys), 0) LOOP
    PERFORM pg_advisory_xact_lock(_partition_keys[_place]);
  END LOOP;
END
$$;
