-- resolve_subscription: the topics that a selector stands for, kept as they are until the transaction
-- ends.
--
-- Arguments: _group     the group, for the errors;
--            _selector  'topic', 'topics' or 'pattern'; _selector_text  its value.
-- Returns:   the names, sorted and without repeats.
-- Errors:    PC001 invalid_subscription {reason} (a pattern that matches nothing), topic_not_found
--            {topic}, register_group_failed {reason} (a topic twice).
-- Tables:    topic_definitions (locked).
CREATE OR REPLACE FUNCTION pgcursus.resolve_subscription(
  _group text, _selector text, _selector_text text)
RETURNS text[]
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _named   text[];
  _missing text;
BEGIN
  IF _selector = 'pattern' THEN
    _named := topics_of_pattern(_selector_text);
    IF _named IS NULL THEN
      PERFORM refuse('invalid_subscription', jsonb_build_object(
        'reason', format('the pattern %s matches no topic', _selector_text)));
    END IF;
  ELSE
    _named := CASE _selector WHEN 'topic' THEN ARRAY[_selector_text]
                             ELSE string_to_array(_selector_text, ',') END;
  END IF;
  -- Partitions cannot be added to a topic, nor can it be dropped, while its row is locked.
  PERFORM t.name FROM topic_definitions t WHERE t.name = ANY (_named) ORDER BY t.name FOR SHARE;
  SELECT n.name INTO _missing
    FROM unnest(_named) WITH ORDINALITY AS n (name, place)
   WHERE NOT EXISTS (SELECT FROM topic_definitions t WHERE t.name = n.name)
   ORDER BY n.place
   LIMIT 1;
  IF FOUND THEN
    PERFORM refuse('topic_not_found', jsonb_build_object('topic', _missing));
  END IF;
  IF cardinality(_named) <> (SELECT count(DISTINCT n.name) FROM unnest(_named) AS n (name)) THEN
    PERFORM refuse('register_group_failed', jsonb_build_object(
      'reason', format('group %s: a topic is named twice', _group)));
  END IF;
  RETURN (SELECT array_agg(n.name ORDER BY n.name COLLATE "C") FROM unnest(_named) AS n (name));
END
$$;
