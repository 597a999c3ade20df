-- commit_offsets: commits the offsets of one topic for a member of a group, all or none.
--
-- Arguments: as check_commit_fence(); _offsets  the next offset to read of each partition.
-- Returns:   status, code and fields; commit_result explains them. A refusal is no error, so that the
--            commits of others in the same transaction stand.
-- Errors:    none but PostgreSQL's own.
-- Tables:    as check_commit_fence() and apply_offset_commit().
--
-- Runs at READ COMMITTED: what follows the lock sees the group as it is then. Waits for no group; when
-- one is just being rebalanced the status says so.
CREATE OR REPLACE FUNCTION pgcursus.commit_offsets(
  _group text, _topic text, _member text, _generation bigint, _registration_epoch bigint,
  _partitions int[], _offsets bigint[])
RETURNS pgcursus.commit_result
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _fence      commit_fence;
  _regression jsonb;
BEGIN
  IF NOT pg_try_advisory_xact_lock_shared(group_lock_key(_group)) THEN
    RETURN ROW(2, NULL, NULL)::commit_result;
  END IF;
  _fence := check_commit_fence(_group, _topic, _member, _generation, _partitions,
                               _registration_epoch);
  IF _fence.code IS NOT NULL THEN
    RETURN ROW(1, _fence.code, _fence.fields::text)::commit_result;
  END IF;
  _regression := apply_offset_commit(_fence, _group, _topic, _partitions, _offsets);
  IF _regression IS NOT NULL THEN
    RETURN ROW(1, 'offset_regression', _regression::text)::commit_result;
  END IF;
  RETURN ROW(0, NULL, NULL)::commit_result;
END
$$;
