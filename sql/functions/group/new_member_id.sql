-- new_member_id: an id for a member that joins.
--
-- Arguments: _group_id  the group, which is locked; _base  the name that the client chose.
-- Returns:   the name, a hyphen, four random digits: an id that no member has.
-- Errors:    PC001 join_group_failed {reason} when 64 draws were all taken.
-- Tables:    group_members (read).
CREATE OR REPLACE FUNCTION pgcursus.new_member_id(_group_id bigint, _base text)
RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _id text;
BEGIN
  FOR _draw IN 1..64 LOOP
    _id := _base || '-' || lpad(floor(random() * 10000)::int::text, 4, '0');
    PERFORM FROM group_members m WHERE m.group_id = _group_id AND m.member_id = _id;
    IF NOT FOUND THEN
      RETURN _id;
    END IF;
  END LOOP;
  PERFORM refuse('join_group_failed', jsonb_build_object(
    'reason', format('no free member id for %s', _base)));
  RETURN NULL;
END
$$;
