-- expand_run: numbers of which only the first is given when the others follow it directly.
--
-- Arguments: _numbers  _count of them, or the first;
--            _count    how many there are.
-- Returns:   all of them.
-- Errors:    none.
-- Tables:    none.
CREATE OR REPLACE FUNCTION pgcursus.expand_run(_numbers bigint[], _count int)
RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  SELECT CASE WHEN cardinality(_numbers) < _count
              THEN ARRAY(SELECT _numbers[1] + i FROM generate_series(0, _count - 1) i)
              ELSE _numbers END
$$;
