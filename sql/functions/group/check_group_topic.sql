-- check_group_topic: gives a request the refusal that comes first.
--
-- Arguments: _command, _group, _topic (NULL: none named)  of the request;
--            _problem  the code of what the node found wrong with later fields.
-- Returns:   never.
-- Errors:    PC001 missing_topic, topic_not_assigned_to_group as refuse_wrong_topic(), else _problem
--            {command}.
-- Tables:    group_definitions (read).
--
-- The protocol looks at the group before it looks at generation and member, so a node that finds
-- those unusable has to ask.
CREATE OR REPLACE FUNCTION pgcursus.check_group_topic(
  _command text, _group text, _topic text, _problem text)
RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _found group_definitions;
BEGIN
  SELECT g.* INTO _found FROM group_definitions g WHERE g.name = _group AND g.registered;
  PERFORM refuse_wrong_topic(_command, _found, _topic);
  PERFORM refuse(_problem, jsonb_build_object('command', _command));
END
$$;
