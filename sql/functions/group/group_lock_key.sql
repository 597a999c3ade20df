-- group_lock_key: the advisory lock of a consumer group.
--
-- Arguments: _group  the group's name.
-- Returns:   a negative number, so that it is no partition's. Two names may share one: they then wait
--            for each other, which harms nothing else.
-- Errors:    none.
-- Tables:    none.
--
-- Commits take it shared and only when it is free, so that a lane of commits never waits for one
-- group; whatever changes members or generation takes it exclusively, after the group's row.
CREATE OR REPLACE FUNCTION pgcursus.group_lock_key(_group text)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  SELECT pg_catalog.hashtextextended(_group, 0) | (-9223372036854775808)::bigint
$$;
