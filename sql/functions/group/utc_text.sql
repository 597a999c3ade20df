-- utc_text: a time as RFC 3339 text in UTC.
--
-- Arguments: _time.
-- Returns:   e.g. 2026-01-01T00:00:00.000000Z; NULL for NULL.
-- Errors:    none.
-- Tables:    none.
CREATE OR REPLACE FUNCTION pgcursus.utc_text(_time timestamptz)
RETURNS text
LANGUAGE sql STABLE
AS $$
  SELECT pg_catalog.to_char(_time AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;
