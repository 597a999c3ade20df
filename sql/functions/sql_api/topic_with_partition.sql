-- topic_with_partition: the definition of a topic that must have a partition, for SQL users.
--
-- Arguments: _topic, _partition (NULL: only the topic must exist).
-- Returns:   the topic's row.
-- Errors:    undefined_object when there is no such topic; invalid_parameter_value when it has no such
--            partition.
-- Tables:    topic_definitions (read).
CREATE OR REPLACE FUNCTION pgcursus.topic_with_partition(_topic text, _partition int)
RETURNS pgcursus.topic_definitions
LANGUAGE plpgsql STABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _found topic_definitions;
BEGIN
  SELECT t.* INTO _found FROM topic_definitions t WHERE t.name = _topic;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'undefined_object',
      MESSAGE = format('topic %s does not exist', coalesce(quote_literal(_topic), 'NULL'));
  END IF;
  IF _partition < 0 OR _partition >= _found.partition_count THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
      MESSAGE = format('topic %s has no partition %s: it has %s, counted from 0', _topic,
                       _partition, _found.partition_count);
  END IF;
  RETURN _found;
END
$$;
