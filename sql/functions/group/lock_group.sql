-- lock_group: makes the caller the only one who changes a group, until its transaction ends.
--
-- Arguments: _group  the group's name.
-- Returns:   the group's row, also of a tombstone; NULL when the name was never registered.
-- Errors:    serialization_failure above READ COMMITTED when another has just changed the group.
-- Tables:    group_definitions (locked).
--
-- First the row, then the lock that commits share: those who change groups queue at the row, and
-- commits get their turn between two of them.
CREATE OR REPLACE FUNCTION pgcursus.lock_group(_group text)
RETURNS pgcursus.group_definitions
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _found group_definitions;
BEGIN
  SELECT g.* INTO _found FROM group_definitions g WHERE g.name = _group FOR UPDATE;
  PERFORM pg_advisory_xact_lock(group_lock_key(_group));
  RETURN _found;
END
$$;
