-- rebalance_group: begins the group's next generation and assigns its partitions to its members.
--
-- Arguments: _group  the group's name; it is locked.
-- Returns:   the new generation.
-- Errors:    none.
-- Tables:    group_definitions, group_members (written).
--
-- Of n partitions and m members, both sorted, each member takes n/m in a row and the first n mod m
-- take one more. Tells the nodes, whose cached generation is then worth nothing.
CREATE OR REPLACE FUNCTION pgcursus.rebalance_group(_group text)
RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _group_id   bigint;
  _generation bigint;
  _partitions bigint;
BEGIN
  UPDATE group_definitions g
     SET generation = g.generation + 1,
         last_rebalance = CASE WHEN EXISTS (SELECT FROM group_members m WHERE m.group_id = g.group_id)
                               THEN clock_timestamp() ELSE g.last_rebalance END
   WHERE g.name = _group
  RETURNING g.group_id, g.generation, (SELECT sum(c.n) FROM unnest(g.partition_counts) AS c (n))
       INTO STRICT _group_id, _generation, _partitions;
  UPDATE group_members m
     SET first_position = s.first_position, position_count = s.position_count
    FROM (SELECT r.member_id,
                 (r.place * (_partitions / r.members) + least(r.place, _partitions % r.members))::int
                   AS first_position,
                 (_partitions / r.members + (r.place < _partitions % r.members)::int)::int
                   AS position_count
            FROM (SELECT o.member_id, count(*) OVER () AS members,
                         row_number() OVER (ORDER BY o.member_id) - 1 AS place
                    FROM group_members o
                   WHERE o.group_id = _group_id) r) s
   WHERE m.group_id = _group_id AND m.member_id = s.member_id
     AND (m.first_position, m.position_count) <> (s.first_position, s.position_count);
  PERFORM pg_notify('pgcursus_control', 'group ' || _group);
  RETURN _generation;
END
$$;
