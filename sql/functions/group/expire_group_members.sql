-- expire_group_members: a step of removing the members, of whatever group, that have been silent for
-- too long.
--
-- Arguments: _session_timeout_ms  how long a member may be silent.
-- Returns:   done  groups that lost members;
--            more  whether there may be more to do.
-- Errors:    serialization_failure above READ COMMITTED: try again.
-- Tables:    group_members, group_definitions (written).
--
-- A group's generation rises once, however many it loses. Each group is looked at again under its
-- lock, so two that sweep at the same time do no harm. A group that is being changed, or held by a
-- transaction that commits offsets, is left for the next time: it must not hold up the others.
CREATE OR REPLACE FUNCTION pgcursus.expire_group_members(_session_timeout_ms bigint)
RETURNS TABLE (done bigint, more boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER ROWS 1
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _limit    CONSTANT int := 20;
  _before   timestamptz := overdue_before(_session_timeout_ms);
  _name     text;
  _group_id bigint;
BEGIN
  done := 0;
  FOR _name IN
    SELECT DISTINCT g.name
      FROM group_members m
      JOIN group_definitions g ON g.group_id = m.group_id
     WHERE m.last_heartbeat < _before
     ORDER BY g.name
  LOOP
    SELECT g.group_id INTO _group_id
      FROM group_definitions g WHERE g.name = _name FOR UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND OR NOT pg_try_advisory_xact_lock(group_lock_key(_name));
    IF remove_overdue_members(_group_id, _session_timeout_ms) > 0 THEN
      PERFORM rebalance_group(_name);
      done := done + 1;
    END IF;
    EXIT WHEN done = _limit;
  END LOOP;
  more := done = _limit;
  RETURN NEXT;
END
$$;
