-- check_record_size: refuses a record that could not be read back.
--
-- Arguments: _bytes  of payload, key, event type and metadata.
-- Returns:   nothing.
-- Errors:    invalid_parameter_value: a reader gets a record in one frame of at most 64 MiB, and what is
--            left of that is for the rest of it.
-- Tables:    none.
CREATE OR REPLACE FUNCTION pgcursus.check_record_size(_bytes int)
RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
BEGIN
  IF _bytes > 66060288 THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
      MESSAGE = 'a record may have at most 66060288 bytes';
  END IF;
END
$$;
