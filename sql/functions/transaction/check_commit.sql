-- check_commit: whether an open transaction may be committed (commands-2 4.8).
--
-- Arguments: _transaction; _principal: the client's, NULL for nobody.
-- Returns:   NULL, or why not.
-- Errors:    none.
-- Tables:    transaction_partitions, topic_definitions (read), and as check_staged_offsets().
CREATE OR REPLACE FUNCTION pgcursus.check_commit(
  _transaction pgcursus.transaction_states, _principal text)
RETURNS text
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  _failure text;
BEGIN
  SELECT CASE WHEN t.log_id IS NULL THEN 'topic_not_found: a topic of the transaction was deleted or truncated'
              WHEN p.partition >= t.partition_count THEN format('partition_not_found partition=%s', p.partition)
              ELSE format('NOT_AUTHORIZED_FOR_TOPIC operation=write topic=%s', t.name)
         END
    INTO _failure
    FROM transaction_partitions p
    LEFT JOIN topic_definitions t USING (log_id)
   WHERE p.transaction_id = _transaction.transaction_id
     AND (t.log_id IS NULL OR p.partition >= t.partition_count OR t.auth_policy = 'deny_write'
          OR (t.auth_policy = 'acl'
              AND (_principal IS NULL OR NOT t.write_acl && ARRAY[_principal, '*'])))
   LIMIT 1;
  IF _failure IS NULL AND _transaction.group_id IS NOT NULL THEN
    _failure := check_staged_offsets(_transaction);
  END IF;
  RETURN _failure;
END
$$;
