-- check_member: finds a member, or refuses.
--
-- Arguments: _group   the group's row; NULL (or a tombstone) when there is none;
--            _name, _member  the names asked for;
--            _generation  what the client takes for the current one; NULL: do not compare.
-- Returns:   nothing.
-- Errors:    PC001 group_not_found {group}, member_not_found {member, group}, GEN_MISMATCH {current,
--            requested, group, member}.
-- Tables:    group_members (read).
CREATE OR REPLACE FUNCTION pgcursus.check_member(
  _group pgcursus.group_definitions, _name text, _member text, _generation bigint)
RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
BEGIN
  IF _group.registered IS NOT TRUE THEN
    PERFORM refuse('group_not_found', jsonb_build_object('group', _name));
  END IF;
  PERFORM FROM group_members m WHERE m.group_id = _group.group_id AND m.member_id = _member;
  IF NOT FOUND THEN
    PERFORM refuse('member_not_found', jsonb_build_object('member', _member, 'group', _name));
  END IF;
  IF _generation <> _group.generation THEN
    PERFORM refuse('GEN_MISMATCH', jsonb_build_object(
      'current', _group.generation::text, 'requested', _generation::text, 'group', _name,
      'member', _member));
  END IF;
END
$$;
