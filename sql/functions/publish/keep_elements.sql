-- keep_elements: the elements of an array that a mask of the same length marks true, in order.
--
-- Arguments: _values, _keep.
-- Returns:   the shorter array; NULL for NULL.
-- Errors:    none.
-- Tables:    none.
CREATE OR REPLACE FUNCTION pgcursus.keep_elements(_values anyarray, _keep boolean[])
RETURNS anyarray
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  SELECT array_agg(e.value ORDER BY e.n)
    FROM unnest(_values) WITH ORDINALITY AS e(value, n)
    JOIN unnest(_keep) WITH ORDINALITY AS k(keep, n) USING (n)
   WHERE k.keep
$$;
