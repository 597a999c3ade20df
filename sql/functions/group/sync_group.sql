-- sync_group: a member's assignment; it also counts as a heartbeat.
--
-- Arguments: _command  SYNC_GROUP, HEARTBEAT, or JOIN_GROUP for a member that resumes;
--            _group, _member (the whole id), _topic (NULL: none named);
--            _generation  the member's; NULL: do not compare.
-- Returns:   as assignment_of().
-- Errors:    PC001 as refuse_wrong_topic() and check_member(); serialization_failure: try again.
-- Tables:    group_definitions (read), group_members (written).
CREATE OR REPLACE FUNCTION pgcursus.sync_group(
  _command text, _group text, _member text, _topic text, _generation bigint)
RETURNS SETOF pgcursus.member_assignment
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
SET enable_seqscan = off  -- a scan would conflict with every other group's changes
AS $$
DECLARE
  _current group_definitions;
BEGIN
  -- The share lock keeps generation and members as they are seen here, whatever the isolation level.
  SELECT g.* INTO _current FROM group_definitions g WHERE g.name = _group FOR SHARE;
  PERFORM refuse_wrong_topic(_command, _current, _topic);
  PERFORM check_member(_current, _group, _member, _generation);
  UPDATE group_members m SET last_heartbeat = clock_timestamp()
   WHERE m.group_id = _current.group_id AND m.member_id = _member;
  RETURN QUERY SELECT a.* FROM assignment_of(_group, _member, _topic) a;
END
$$;
