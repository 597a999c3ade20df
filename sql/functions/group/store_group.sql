-- store_group: registers a group name, for the first time or again.
--
-- Arguments: _current  the locked row of the name; NULL when it was never registered;
--            _group    the name; _selector ('topic', 'topics', 'pattern'), _selector_text  as given;
--            _topics   sorted and without repeats, all of them existing and locked.
-- Returns:   the new row: generation 0, no members, no offsets.
-- Errors:    serialization_failure when another session registers the name at the same time.
-- Tables:    group_definitions (written), topic_definitions (read).
CREATE OR REPLACE FUNCTION pgcursus.store_group(
  _current pgcursus.group_definitions, _group text, _selector text, _selector_text text,
  _topics text[])
RETURNS pgcursus.group_definitions
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _stored group_definitions;
  _counts int[];
BEGIN
  SELECT array_agg(t.partition_count ORDER BY t.name) INTO _counts
    FROM topic_definitions t
   WHERE t.name = ANY (_topics);
  IF _current.name IS NULL THEN
    INSERT INTO group_definitions AS g (name, group_id, registration_epoch, registered, selector,
                                        selector_text, topics, partition_counts)
    VALUES (_group, nextval('group_ids'), 1, true, _selector, _selector_text, _topics, _counts)
    RETURNING g.* INTO STRICT _stored;
  ELSE
    UPDATE group_definitions g
       SET (group_id, registration_epoch, registered, selector, selector_text, topics,
            partition_counts, generation, last_rebalance, registered_at) =
           (nextval('group_ids'), g.registration_epoch + 1, true, _selector, _selector_text, _topics,
            _counts, 0, NULL, clock_timestamp())
     WHERE g.name = _group
    RETURNING g.* INTO STRICT _stored;
  END IF;
  RETURN _stored;
EXCEPTION WHEN unique_violation THEN
  RAISE EXCEPTION USING ERRCODE = 'serialization_failure',
    MESSAGE = format('group %s was registered by another session at the same time', _group);
END
$$;
