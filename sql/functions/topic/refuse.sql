-- refuse: ends the transaction with an error that the protocol knows.
--
-- Arguments: _code    the error code, e.g. 'create_topic_failed';
--            _fields  its fields, all text.
-- Returns:   never.
-- Errors:    PC001, MESSAGE = _code, DETAIL = _fields as JSON.
-- Tables:    none.
CREATE OR REPLACE FUNCTION pgcursus.refuse(_code text, _fields jsonb)
RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'PC001', MESSAGE = refuse._code, DETAIL = refuse._fields::text;
END
$$;
