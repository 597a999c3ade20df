-- list_groups: the names of all registered groups.
--
-- Arguments: none.
-- Returns:   a row a group, in bytewise order of names.
-- Errors:    none.
-- Tables:    group_definitions (read).
CREATE OR REPLACE FUNCTION pgcursus.list_groups()
RETURNS TABLE (name text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  SELECT g.name FROM group_definitions g WHERE g.registered ORDER BY g.name
$$;
