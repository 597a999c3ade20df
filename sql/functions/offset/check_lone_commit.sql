-- check_lone_commit: may somebody who is no member commit offsets of a topic for this group?
--
-- Arguments: _group   a registered group, whose advisory lock the caller holds and, above READ COMMITTED,
--              its row lock; _topic.
-- Returns:   as check_commit_fence(): topic_not_assigned_to_group, group_in_use while the group has
--            members, else what offsets are stored under.
-- Errors:    none.
-- Tables:    group_definitions, group_members, topic_definitions (read).
CREATE OR REPLACE FUNCTION pgcursus.check_lone_commit(_group text, _topic text)
RETURNS pgcursus.commit_fence
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _current group_definitions;
  _fence   commit_fence;
BEGIN
  SELECT g.* INTO _current FROM group_definitions g WHERE g.name = _group;
  _fence.group_id := _current.group_id;
  _fence.registration_epoch := _current.registration_epoch;
  SELECT t.log_id INTO _fence.log_id FROM topic_definitions t WHERE t.name = _topic;
  PERFORM FROM group_members m WHERE m.group_id = _current.group_id;
  IF FOUND THEN
    _fence.code := 'group_in_use';
    _fence.fields := jsonb_build_object('group', _group);
  ELSIF _topic <> ALL (_current.topics) THEN
    _fence.code := 'topic_not_assigned_to_group';
    _fence.fields := wrong_topic_fields(_current.selector, _current.topics, _topic);
  END IF;
  RETURN _fence;
END
$$;
