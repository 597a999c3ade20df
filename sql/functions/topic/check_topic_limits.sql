-- check_topic_limits: refuses what would exceed the broker's capacity.
--
-- Arguments: _topic                     the topic to be created or to grow;
--            _new_topic                 it does not exist yet;
--            _partitions, _added        its partition count afterwards, and how many are new;
--            _max_topics, _max_partitions_per_topic, _max_partitions  the broker's limits.
-- Returns:   nothing.
-- Errors:    PC001 create_topic_failed {topic, reason}.
-- Tables:    topic_definitions (read).
CREATE OR REPLACE FUNCTION pgcursus.check_topic_limits(
  _topic text, _new_topic boolean, _partitions int, _added int,
  _max_topics bigint, _max_partitions_per_topic bigint, _max_partitions bigint)
RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  -- A partition's lock key has 16 bits for its number.
  _per_topic  bigint := least(_max_partitions_per_topic, 65536);
  _topics     bigint;
  _partitions_total bigint;
  _reason     text;
BEGIN
  SELECT count(*), coalesce(sum(t.partition_count), 0)
    INTO _topics, _partitions_total
    FROM topic_definitions t;

  IF _partitions > _per_topic THEN
    _reason := format('%s partitions exceed max_partitions_per_topic %s', _partitions, _per_topic);
  ELSIF _partitions_total + _added > _max_partitions THEN
    _reason := format('%s more partitions exceed max_partitions %s (in use: %s)', _added,
                      _max_partitions, _partitions_total);
  ELSIF _new_topic AND _topics >= _max_topics THEN
    _reason := format('one more topic exceeds max_topics %s', _max_topics);
  END IF;
  IF _reason IS NOT NULL THEN
    PERFORM refuse('create_topic_failed', jsonb_build_object('topic', _topic, 'reason', _reason));
  END IF;
END
$$;
