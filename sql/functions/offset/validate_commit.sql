-- validate_commit: would a commit be accepted now?
--
-- Arguments: as commit_offsets(), of one partition; _offset  NULL: do not look at what is committed.
-- Returns:   nothing.
-- Errors:    PC001, the refusals of commit_offsets(); serialization_failure: try again.
-- Tables:    as check_commit_fence(); offset_commits (read).
CREATE OR REPLACE FUNCTION pgcursus.validate_commit(
  _group text, _topic text, _member text, _generation bigint, _registration_epoch bigint,
  _partition int, _offset bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _fence   commit_fence;
  _current bigint;
BEGIN
  _fence := check_commit_fence(_group, _topic, _member, _generation, ARRAY[_partition],
                               _registration_epoch);
  IF _fence.code IS NOT NULL THEN
    PERFORM refuse(_fence.code, _fence.fields);
  END IF;
  _current := committed_offset(_fence.group_id, _fence.log_id, _partition);
  IF _current > _offset THEN
    PERFORM refuse('offset_regression',
                   offset_regression_fields(_group, _topic, _partition, _current, _offset));
  END IF;
END
$$;
