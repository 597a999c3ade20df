-- note_standbys: notes, for the rest of the transaction, whether its commit would wait for a synchronous
-- standby that is not there.
--
-- Arguments: none.
-- Returns:   nothing; sets pgcursus.standby_is_missing to 'on', for append() to find, when fewer standbys
--            stream than synchronous_standby_names asks for. Never when pgcursus_owner lacks
--            pg_read_all_stats: standbys are then not seen.
-- Errors:    none.
-- Tables:    none.
--
-- One look for a whole group: had each row its own, a producer's second record could follow a first one
-- that was held back.
CREATE OR REPLACE FUNCTION pgcursus.note_standbys()
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _names  text := current_setting('synchronous_standby_names');
  _needed int;
BEGIN
  IF _names = '' OR NOT pg_has_role('pg_read_all_stats', 'USAGE') THEN
    RETURN;
  END IF;
  -- 'FIRST 2 (a, b, c)', 'ANY 2 (a, b, c)', '2 (a, b, c)'; a plain list asks for one.
  _needed := coalesce(substring(_names FROM '^\s*(?:(?:[Ff][Ii][Rr][Ss][Tt]|[Aa][Nn][Yy])\s+)?(\d+)\s*\(')::int, 1);
  IF in_sync_replicas() - 1 < _needed THEN
    PERFORM set_config('pgcursus.standby_is_missing', 'on', true);
  END IF;
END
$$;
