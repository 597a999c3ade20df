-- leave_group: removes a member and gives its partitions to the others.
--
-- Arguments: _group, _member (the whole id), _topic (NULL: none named);
--            _generation  the member's; NULL: do not compare.
-- Returns:   nothing.
-- Errors:    PC001 as refuse_wrong_topic() and check_member(); serialization_failure: try again.
-- Tables:    group_definitions, group_members (written).
CREATE OR REPLACE FUNCTION pgcursus.leave_group(
  _group text, _member text, _topic text, _generation bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
SET enable_seqscan = off  -- a scan would conflict with every other group's changes
AS $$
DECLARE
  _current group_definitions;
BEGIN
  _current := lock_group(_group);
  PERFORM refuse_wrong_topic('LEAVE_GROUP', _current, _topic);
  PERFORM check_member(_current, _group, _member, _generation);
  DELETE FROM group_members m WHERE m.group_id = _current.group_id AND m.member_id = _member;
  PERFORM rebalance_group(_group);
END
$$;
