-- register_group: registers a consumer group, or finds it registered alike.
--
-- Arguments: _group     the name, which is valid;
--            _selector  'topic', 'topics' or 'pattern'; _selector_text  its value.
-- Returns:   the topics that the group consumes, comma separated in bytewise order.
-- Errors:    PC001 as resolve_subscription(); register_group_failed {reason} when the group is
--            registered differently; serialization_failure: try again.
-- Tables:    group_definitions (written), topic_definitions (locked).
CREATE OR REPLACE FUNCTION pgcursus.register_group(_group text, _selector text, _selector_text text)
RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
SET enable_seqscan = off  -- a scan would conflict with every other group's changes
AS $$
DECLARE
  _current group_definitions;
  _topics  text[];
BEGIN
  _topics := resolve_subscription(_group, _selector, _selector_text);
  _current := lock_group(_group);
  IF _current.registered IS NOT TRUE THEN
    _current := store_group(_current, _group, _selector, _selector_text, _topics);
  ELSIF _current.selector <> _selector OR _current.topics <> _topics
        OR (_selector = 'pattern' AND _current.selector_text <> _selector_text) THEN
    PERFORM refuse('register_group_failed', jsonb_build_object('reason', format(
      'group %s is registered already, with %s %s', _group, _current.selector, _current.selector_text)));
  END IF;
  RETURN array_to_string(_topics, ',');
END
$$;
