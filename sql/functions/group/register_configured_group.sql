-- register_configured_group: registers a group of a node's configuration, or finds it registered alike.
--
-- Arguments: _group       the name, which is valid;
--            _topics      what it consumes, one at least;
--            _partitions  how many partitions each of them must have; 0: any number.
-- Returns:   nothing.
-- Errors:    as register_group(); PC001 register_group_failed {reason} when a topic has another number
--            of partitions: then nothing is registered.
-- Tables:    as register_group().
CREATE OR REPLACE FUNCTION pgcursus.register_configured_group(
  _group text, _topics text[], _partitions int[])
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
SET enable_seqscan = off
AS $$
DECLARE
  _reason text;
BEGIN
  PERFORM register_group(_group, CASE cardinality(_topics) WHEN 1 THEN 'topic' ELSE 'topics' END,
                         array_to_string(_topics, ','));
  SELECT format('topic %s has %s partitions, not %s', t.name, t.partition_count, e.wanted)
    INTO _reason
    FROM unnest(_topics, _partitions) WITH ORDINALITY AS e (name, wanted, place)
    JOIN topic_definitions t ON t.name = e.name
   WHERE e.wanted NOT IN (0, t.partition_count)
   ORDER BY e.place
   LIMIT 1;
  IF FOUND THEN
    PERFORM refuse('register_group_failed', jsonb_build_object('reason', _reason));
  END IF;
END
$$;
