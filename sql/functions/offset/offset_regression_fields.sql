-- offset_regression_fields: what the refusal of an offset below the committed one says.
--
-- Arguments: _group, _topic, _partition; _current  what is committed; _offset  what was wanted.
-- Returns:   {reason}.
-- Errors:    none.
-- Tables:    none.
CREATE OR REPLACE FUNCTION pgcursus.offset_regression_fields(
  _group text, _topic text, _partition int, _current bigint, _offset bigint)
RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  SELECT jsonb_build_object('reason', format(
           'a committed offset never falls: group=%s topic=%s partition=%s current=%s got=%s', _group,
           _topic, _partition, _current, _offset))
$$;
