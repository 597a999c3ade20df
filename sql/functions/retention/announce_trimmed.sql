-- announce_trimmed: tells the nodes to forget what they have in memory of the beginning of a partition.
--
-- Arguments: _log_id, _partition;
--            _offset  something below was removed.
-- Returns:   nothing.
-- Errors:    none.
-- Tables:    none.
CREATE OR REPLACE FUNCTION pgcursus.announce_trimmed(_log_id bigint, _partition int, _offset bigint)
RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  SELECT pg_notify('pgcursus_control', format('trimmed %s %s %s', _log_id, _partition, _offset))
$$;
