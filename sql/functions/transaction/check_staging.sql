-- check_staging: whether a transaction may stage these offsets.
--
-- Arguments: _transaction, _state  its row, and its state now (NULL: never begun);
--            _group_id, _member, _generation  the scope of the request;
--            _log_id, _partitions, _offsets, _max_offsets  as stage_offsets().
-- Returns:   NULL, or why not; <id> stands for the transactional id.
-- Errors:    none.
-- Tables:    transaction_offsets (read).
CREATE OR REPLACE FUNCTION pgcursus.check_staging(
  _transaction pgcursus.transaction_states, _state text, _group_id bigint, _member text,
  _generation bigint, _log_id bigint, _partitions int[], _offsets bigint[], _max_offsets bigint)
RETURNS text
LANGUAGE plpgsql STABLE
AS $$
DECLARE
  _reason text;
BEGIN
  IF _state IS DISTINCT FROM 'open' THEN
    RETURN format('transaction <id> is %s', coalesce(_state, 'aborted'));
  ELSIF _transaction.group_id IS NULL THEN
    -- Nothing is staged yet.
    RETURN CASE WHEN cardinality(_partitions) > _max_offsets
                THEN format('transaction capacity exceeded: %s offsets', _max_offsets) END;
  ELSIF (_transaction.group_id, _transaction.member_id, _transaction.generation)
        IS DISTINCT FROM (_group_id, _member, _generation) THEN
    RETURN format('transaction <id> has offsets of group=%s member=%s generation=%s',
                  _transaction.group_name, _transaction.member_id, _transaction.generation);
  END IF;
  SELECT format('partition %s of transaction <id> would fall from %s to %s', s.partition, o.next_offset,
                s.next_offset)
    INTO _reason
    FROM unnest(_partitions, _offsets) AS s (partition, next_offset)
    JOIN transaction_offsets o
      ON o.transaction_id = _transaction.transaction_id AND o.log_id = _log_id
     AND o.partition = s.partition AND o.next_offset > s.next_offset
   LIMIT 1;
  IF _reason IS NULL
     AND (SELECT count(*)
            FROM (SELECT o.log_id, o.partition
                    FROM transaction_offsets o
                   WHERE o.transaction_id = _transaction.transaction_id
                   UNION
                  SELECT _log_id, s.partition FROM unnest(_partitions) AS s (partition)) all_offsets)
         > _max_offsets THEN
    _reason := format('transaction capacity exceeded: %s offsets', _max_offsets);
  END IF;
  RETURN _reason;
END
$$;
