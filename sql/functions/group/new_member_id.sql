-- new_member_id: an id for a member that joins.
--
-- Arguments: _group_id  the group, which is locked; _generation  its current one;
--            _base  the name that the client chose.
-- Returns:   the name, a hyphen, four digits: an id that no member has.
-- Errors:    PC001 join_group_failed {reason} when 64 draws were all taken.
-- Tables:    group_members (read).
--
-- The digits follow from the generation, which every join raises: they look random, and who is gone
-- does not come back as somebody else within 10000 generations.
CREATE OR REPLACE FUNCTION pgcursus.new_member_id(_group_id bigint, _generation bigint, _base text)
RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _id text;
BEGIN
  FOR _draw IN 1..64 LOOP
    -- 3877 has no factor in common with 10000: each number has its turn.
    _id := _base || '-' || lpad((((_generation + _draw) % 10000 * 3877 + _group_id % 10000 * 6151) % 10000)::text,
                                4, '0');
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
