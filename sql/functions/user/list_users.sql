-- list_users: every user of the table, without what could verify a token.
--
-- Arguments: none.
-- Returns:   a row a user, in bytewise order of principals.
-- Errors:    none.
-- Tables:    users (read).
--
-- For administrators.
CREATE OR REPLACE FUNCTION pgcursus.list_users()
RETURNS TABLE (principal text, permissions text[], changed_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  SELECT u.principal, u.permissions, u.changed_at FROM users u ORDER BY u.principal
$$;
