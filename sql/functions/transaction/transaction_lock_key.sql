-- transaction_lock_key: the advisory lock that serialises what concerns one transactional id.
--
-- Arguments: _transactional_id.
-- Returns:   a negative key; the locks of partitions are positive. Two ids may share one: they then
--            wait for one another, and nothing else.
-- Errors:    none.
-- Tables:    none.
CREATE OR REPLACE FUNCTION pgcursus.transaction_lock_key(_transactional_id text)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  SELECT -1 - (hashtextextended(_transactional_id, 0) & 4611686018427387903)
$$;
