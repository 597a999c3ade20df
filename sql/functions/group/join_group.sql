-- join_group: makes a new member of a group, which is registered for its topic if it is not yet.
--
-- Arguments: _group   the group's name; _member  the name the client chose, without the digits;
--            _topic   NULL: none named;
--            _session_timeout_ms  members silent for longer are removed first (remove_overdue_members).
-- Returns:   as assignment_of(): the new member with its generation and partitions.
-- Errors:    PC001 missing_topic {command}, topic_not_assigned_to_group, topic_not_found {topic},
--            join_group_failed {reason}; serialization_failure: try again.
-- Tables:    group_definitions, group_members (written), topic_definitions (locked).
--
-- Registration, the member, the generation and the assignment appear together.
CREATE OR REPLACE FUNCTION pgcursus.join_group(
  _group text, _member text, _topic text, _session_timeout_ms bigint)
RETURNS SETOF pgcursus.member_assignment
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
SET enable_seqscan = off  -- a scan would conflict with every other group's changes
AS $$
DECLARE
  _current   group_definitions;
  _topics    text[];
  _member_id text;
BEGIN
  SELECT g.* INTO _current FROM group_definitions g WHERE g.name = _group;
  PERFORM refuse_wrong_topic('JOIN_GROUP', _current, _topic);
  IF _current.registered IS NOT TRUE THEN
    _topics := resolve_subscription(_group, 'topic', _topic);
  END IF;
  _current := lock_group(_group);
  IF _current.registered IS NOT TRUE THEN
    _current := store_group(_current, _group, 'topic', _topic, _topics);
  END IF;
  IF remove_overdue_members(_current.group_id, _session_timeout_ms) > 0 THEN
    _current.generation := rebalance_group(_group);
  END IF;
  _member_id := new_member_id(_current.group_id, _current.generation, _member);
  INSERT INTO group_members (group_id, member_id) VALUES (_current.group_id, _member_id);
  PERFORM rebalance_group(_group);
  RETURN QUERY SELECT a.* FROM assignment_of(_group, _member_id, _topic) a;
END
$$;
