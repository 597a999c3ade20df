-- refuse_wrong_topic: refuses a request whose topic does not fit its group.
--
-- Arguments: _command  the protocol's name of the request;
--            _group    the group's row; NULL (or a tombstone) when there is no such group;
--            _topic    the topic of the request; NULL when it names none.
-- Returns:   nothing.
-- Errors:    PC001 missing_topic {command} when no topic is named and the group is no subscription of
--            several; topic_not_assigned_to_group {expected, actual}, or {actual} for a subscription.
-- Tables:    none.
CREATE OR REPLACE FUNCTION pgcursus.refuse_wrong_topic(
  _command text, _group pgcursus.group_definitions, _topic text)
RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
BEGIN
  IF _topic IS NULL THEN
    IF _group.registered IS NOT TRUE OR _group.selector = 'topic' THEN
      PERFORM refuse('missing_topic', jsonb_build_object('command', _command));
    END IF;
  ELSIF _group.registered AND _topic <> ALL (_group.topics) THEN
    PERFORM refuse('topic_not_assigned_to_group', wrong_topic_fields(_group.selector, _group.topics, _topic));
  END IF;
END
$$;
