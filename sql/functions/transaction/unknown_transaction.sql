-- unknown_transaction: the fields of a refusal for a transactional id that is not known.
--
-- Arguments: _transactional_id.
-- Returns:   {reason}.
-- Errors:    none.
-- Tables:    none.
CREATE OR REPLACE FUNCTION pgcursus.unknown_transaction(_transactional_id text)
RETURNS jsonb
LANGUAGE sql IMMUTABLE
AS $$
  SELECT jsonb_build_object('reason', format('transactional id %s is not initialised', _transactional_id))
$$;
