-- remove_user: removes a user; its connections are refused from their next request on.
--
-- Arguments: _principal  the user.
-- Returns:   false when there is none.
-- Errors:    none.
-- Tables:    users (written).
--
-- For administrators.
CREATE OR REPLACE FUNCTION pgcursus.remove_user(_principal text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
BEGIN
  DELETE FROM users u WHERE u.principal = _principal;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM pg_notify('pgcursus_control', 'users');
  RETURN true;
END
$$;
