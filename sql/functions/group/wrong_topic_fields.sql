-- wrong_topic_fields: the fields of topic_not_assigned_to_group.
--
-- Arguments: _selector, _topics  of the group; _topic  that of the request.
-- Returns:   {expected, actual}; without `expected` for a subscription, which has several.
-- Errors:    none.
-- Tables:    none.
CREATE OR REPLACE FUNCTION pgcursus.wrong_topic_fields(_selector text, _topics text[], _topic text)
RETURNS jsonb
LANGUAGE sql IMMUTABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  SELECT CASE _selector WHEN 'topic' THEN jsonb_build_object('expected', _topics[1], 'actual', _topic)
                        ELSE jsonb_build_object('actual', _topic) END
$$;
