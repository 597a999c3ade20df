-- writable_topic: the definition of a topic that SQL users may write to.
--
-- Arguments: _topic, _partition (NULL: only the topic must exist).
-- Returns:   the topic's row.
-- Errors:    as topic_with_partition(); insufficient_privilege when its auth_policy denies writing: an
--            ACL names principals of the protocol, and SQL roles are none.
-- Tables:    topic_definitions (read).
CREATE OR REPLACE FUNCTION pgcursus.writable_topic(_topic text, _partition int)
RETURNS pgcursus.topic_definitions
LANGUAGE plpgsql STABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _found topic_definitions := topic_with_partition(_topic, _partition);
BEGIN
  IF _found.auth_policy IN ('deny_write', 'acl') THEN
    RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
      MESSAGE = format('the auth_policy %s of topic %s denies writing', _found.auth_policy,
                       _found.name);
  END IF;
  RETURN _found;
END
$$;
