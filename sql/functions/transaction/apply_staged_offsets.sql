-- apply_staged_offsets: makes the offsets that a transaction staged the group's, where they are greater.
--
-- Arguments: _transaction  being committed.
-- Returns:   nothing.
-- Errors:    none.
-- Tables:    transaction_offsets (read), offset_commits (read, written).
--
-- The group's fence was checked when the decision was made. Offsets only rise: one that an ordinary
-- commit has passed meanwhile changes nothing.
CREATE OR REPLACE FUNCTION pgcursus.apply_staged_offsets(_transaction pgcursus.transaction_states)
RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  INSERT INTO offset_commits (group_id, log_id, partition, next_offset)
  SELECT _transaction.group_id, o.log_id, o.partition, o.next_offset
    FROM transaction_offsets o
   WHERE o.transaction_id = _transaction.transaction_id
     AND NOT EXISTS (SELECT
                       FROM offset_commits c
                      WHERE c.group_id = _transaction.group_id AND c.log_id = o.log_id
                        AND c.partition = o.partition AND c.next_offset >= o.next_offset)
      ON CONFLICT DO NOTHING
$$;
