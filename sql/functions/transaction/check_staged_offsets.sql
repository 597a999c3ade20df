-- check_staged_offsets: whether the offsets that a transaction staged may be committed now.
--
-- Arguments: _transaction  with a group.
-- Returns:   NULL, or why not, beginning with the error code.
-- Errors:    none.
-- Tables:    transaction_offsets, topic_definitions (read), and as check_commit_fence().
--
-- Takes the group's lock, shared, so that the fence holds until the decision is committed.
CREATE OR REPLACE FUNCTION pgcursus.check_staged_offsets(_transaction pgcursus.transaction_states)
RETURNS text
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  _staged     record;
  _fence      commit_fence;
  _regression text;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(group_lock_key(_transaction.group_name));
  FOR _staged IN
    SELECT t.name, s.log_id, array_agg(s.partition ORDER BY s.partition) AS partitions,
           min(format('offset_regression partition=%s current=%s got=%s', s.partition, s.current,
                      s.next_offset)) FILTER (WHERE s.current > s.next_offset) AS regression
      FROM (SELECT o.log_id, o.partition, o.next_offset,
                   (SELECT c.next_offset
                      FROM offset_commits c
                     WHERE c.group_id = _transaction.group_id AND c.log_id = o.log_id
                       AND c.partition = o.partition
                     ORDER BY c.next_offset DESC
                     LIMIT 1) AS current
              FROM transaction_offsets o
             WHERE o.transaction_id = _transaction.transaction_id) s
      LEFT JOIN topic_definitions t USING (log_id)
     GROUP BY t.name, s.log_id
     ORDER BY s.log_id
  LOOP
    IF _staged.name IS NULL THEN
      RETURN 'topic_not_found: a topic of the staged offsets was deleted or truncated';
    END IF;
    _fence := check_commit_fence(_transaction.group_name, _staged.name, _transaction.member_id,
                                 _transaction.generation, _staged.partitions);
    IF _fence.code IS NULL AND _fence.group_id <> _transaction.group_id THEN
      _fence.code := 'group_epoch_mismatch';
      _fence.fields := jsonb_build_object('group', _transaction.group_name);
    END IF;
    IF _fence.code IS NOT NULL THEN
      RETURN _fence.code || (SELECT coalesce(string_agg(format(' %s=%s', f.key, f.value), '' ORDER BY f.key), '')
                               FROM jsonb_each_text(_fence.fields) AS f (key, value));
    END IF;
    _regression := coalesce(_regression, _staged.regression);
  END LOOP;
  RETURN _regression;
END
$$;
