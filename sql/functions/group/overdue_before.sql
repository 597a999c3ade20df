-- overdue_before: members last heard of before this time have lost their place.
--
-- Arguments: _session_timeout_ms  how long a member may be silent.
-- Returns:   a time; NULL while nobody is to be removed: the caller's session has been connected for
--            less than the timeout, so heartbeats may not have got through of late.
-- Errors:    none.
-- Tables:    none.
--
-- Nodes write heartbeats down up to a second after they came, and one that is killed or has just lost its
-- session has not written the last ones; nobody may lose a place by that, hence two seconds more. A node
-- says in pgcursus.contact_since when its session began.
CREATE OR REPLACE FUNCTION pgcursus.overdue_before(_session_timeout_ms bigint)
RETURNS timestamptz
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _timeout interval := _session_timeout_ms * interval '1 ms';
BEGIN
  IF nullif(current_setting('pgcursus.contact_since', true), '')::timestamptz
     > clock_timestamp() - _timeout THEN
    RETURN NULL;
  END IF;
  RETURN clock_timestamp() - _timeout - interval '2 s';
END
$$;
