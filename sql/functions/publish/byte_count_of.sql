-- byte_count_of: the bytes of a batch's payloads and keys, as record_batches.byte_count has them.
--
-- Arguments: _payloads, _keys (NULL: no keys).
-- Returns:   the sum of their lengths.
-- Errors:    none.
-- Tables:    none.
CREATE OR REPLACE FUNCTION pgcursus.byte_count_of(_payloads bytea[], _keys bytea[])
RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  SELECT coalesce(sum(coalesce(octet_length(r.payload), 0) + coalesce(octet_length(r.key), 0)), 0)::int
    FROM unnest(_payloads, _keys) AS r(payload, key)
$$;
