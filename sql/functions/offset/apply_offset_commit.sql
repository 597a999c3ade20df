-- apply_offset_commit: stores offsets, all or none.
--
-- Arguments: _fence   what check_commit_fence() found, without a refusal;
--            _group, _topic          for the refusal;
--            _partitions, _offsets   arrays of one length, each partition once.
-- Returns:   NULL when they are stored, or {reason} of offset_regression when one of them is below what
--            is stored: then nothing was done.
-- Errors:    none.
-- Tables:    offset_commits (written).
--
-- An offset that is stored already is not stored again.
CREATE OR REPLACE FUNCTION pgcursus.apply_offset_commit(
  _fence pgcursus.commit_fence, _group text, _topic text, _partitions int[], _offsets bigint[])
RETURNS jsonb
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _group_id  bigint := _fence.group_id;
  _log_id    bigint := _fence.log_id;
  _partition int := _partitions[1];
  _offset    bigint := _offsets[1];
  _current   bigint;
BEGIN
  IF cardinality(_partitions) = 1 THEN
    -- One statement in the usual case.
    INSERT INTO offset_commits (group_id, log_id, partition, next_offset)
    SELECT _group_id, _log_id, _partition, _offset
     WHERE NOT EXISTS (SELECT FROM offset_commits o
                        WHERE o.group_id = _group_id AND o.log_id = _log_id
                          AND o.partition = _partition AND o.next_offset >= _offset)
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
      RETURN NULL;
    END IF;
    _current := committed_offset(_group_id, _log_id, _partition);
    IF _current <= _offset THEN
      RETURN NULL;
    END IF;
  ELSE
    SELECT c.partition, c.next_offset, committed_offset(_group_id, _log_id, c.partition)
      INTO _partition, _offset, _current
      FROM unnest(_partitions, _offsets) WITH ORDINALITY AS c (partition, next_offset, place)
     WHERE committed_offset(_group_id, _log_id, c.partition) > c.next_offset
     ORDER BY c.place
     LIMIT 1;
    IF NOT FOUND THEN
      INSERT INTO offset_commits (group_id, log_id, partition, next_offset)
      SELECT _group_id, _log_id, c.partition, c.next_offset
        FROM unnest(_partitions, _offsets) AS c (partition, next_offset)
       WHERE committed_offset(_group_id, _log_id, c.partition) IS DISTINCT FROM c.next_offset
       ORDER BY c.partition
      ON CONFLICT DO NOTHING;
      RETURN NULL;
    END IF;
  END IF;
  RETURN offset_regression_fields(_group, _topic, _partition, _current, _offset);
END
$$;
