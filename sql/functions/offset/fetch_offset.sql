-- fetch_offset: the committed offset of a group for a partition.
--
-- Arguments: _group, _topic, _partition.
-- Returns:   one row: next_offset, NULL when nothing was committed (also for a partition that is not
--            there), and the group's registration epoch.
-- Errors:    PC001 group_not_found {group}, topic_not_assigned_to_group.
-- Tables:    group_definitions, topic_definitions, offset_commits (read).
CREATE OR REPLACE FUNCTION pgcursus.fetch_offset(
  _group text, _topic text, _partition int, OUT next_offset bigint, OUT registration_epoch bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _current group_definitions;
BEGIN
  SELECT g.* INTO _current FROM group_definitions g WHERE g.name = _group AND g.registered;
  IF NOT FOUND THEN
    PERFORM refuse('group_not_found', jsonb_build_object('group', _group));
  END IF;
  PERFORM refuse_wrong_topic('FETCH_OFFSET', _current, _topic);
  registration_epoch := _current.registration_epoch;
  next_offset := (SELECT committed_offset(_current.group_id, t.log_id, _partition)
                    FROM topic_definitions t
                   WHERE t.name = _topic);
END
$$;
