-- short_key: a key in a form that fits an index.
--
-- Arguments: _key  an aggregate's key or an event id, of any length.
-- Returns:   the key itself below 1,000 bytes; else 1,000 bytes: its beginning and its SHA-256. A short
--            key is never mistaken for a long one, since the lengths differ.
-- Errors:    none.
-- Tables:    none.
CREATE OR REPLACE FUNCTION pgcursus.short_key(_key bytea)
RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS $$
  SELECT CASE WHEN octet_length(_key) < 1000 THEN _key
              ELSE substr(_key, 1, 968) || sha256(_key) END
$$;
