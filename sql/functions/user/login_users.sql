-- login_users: every user with the hash that verifies its token, for a node.
--
-- Arguments: none.
-- Returns:   a row a user; permissions separated by commas.
-- Errors:    none.
-- Tables:    users (read).
CREATE OR REPLACE FUNCTION pgcursus.login_users()
RETURNS TABLE (principal text, permissions text, salt bytea, iterations int, hash bytea)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  SELECT u.principal, array_to_string(u.permissions, ','), u.salt, u.iterations, u.hash
    FROM users u
$$;
