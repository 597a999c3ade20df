-- set_user: adds a user, or replaces the token and permissions of one.
--
-- Arguments: _principal    one word of at most 249 bytes without commas, not '*';
--            _permissions  among admin, topic.read, topic.write, group, transaction and *;
--            _salt, _iterations, _hash  the token's PBKDF2-HMAC-SHA256; all NULL keeps the token
--              of a user who exists;
--            _replace      whether there may be such a user already.
-- Returns:   true when the user is new.
-- Errors:    invalid_parameter_value; unique_violation when the user exists and _replace is false;
--            no_data_found when there is no token to keep.
-- Tables:    users (written).
--
-- For administrators: `pgcursus user add` makes the hash, so the token never reaches the server.
CREATE OR REPLACE FUNCTION pgcursus.set_user(
  _principal text, _permissions text[], _salt bytea, _iterations int, _hash bytea,
  _replace boolean DEFAULT false)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _granted text[];
  _is_new  boolean;
BEGIN
  IF _principal IS NULL OR octet_length(_principal) NOT BETWEEN 1 AND 249
     OR _principal ~ '[[:space:][:cntrl:],]' OR _principal = '*' THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE =
      'a principal is one word of at most 249 bytes, without commas, and not *';
  END IF;
  SELECT array_agg(DISTINCT lower(p.name)) INTO _granted FROM unnest(_permissions) AS p(name);
  IF coalesce(cardinality(_granted), 0) = 0
     OR NOT _granted <@ '{admin,topic.read,topic.write,group,transaction,*}'::text[] THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE =
      'permissions are one or more of admin, topic.read, topic.write, group, transaction and *';
  END IF;

  PERFORM FROM users u WHERE u.principal = _principal FOR UPDATE;
  _is_new := NOT FOUND;
  IF _is_new AND _hash IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'no_data_found', MESSAGE =
      format('there is no user %s whose token could be kept', _principal);
  ELSIF NOT _is_new AND NOT _replace THEN
    RAISE EXCEPTION USING ERRCODE = 'unique_violation', MESSAGE =
      format('there is a user %s already', _principal);
  END IF;

  IF _is_new THEN
    INSERT INTO users (principal, permissions, salt, iterations, hash)
    VALUES (_principal, _granted, _salt, _iterations, _hash);
  ELSE
    UPDATE users u
       SET permissions = _granted, changed_at = now(), hash = coalesce(_hash, u.hash),
           salt = CASE WHEN _hash IS NULL THEN u.salt ELSE _salt END,
           iterations = CASE WHEN _hash IS NULL THEN u.iterations ELSE _iterations END
     WHERE u.principal = _principal;
  END IF;
  PERFORM pg_notify('pgcursus_control', 'users');
  RETURN _is_new;
END
$$;
