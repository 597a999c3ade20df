-- positions_of: the partitions at a range of positions of a group's expansion.
--
-- Arguments: _topics, _partition_counts  the expansion;
--            _first, _count              the range.
-- Returns:   a row a partition, in the order of topics and partitions.
-- Errors:    none.
-- Tables:    none.
CREATE OR REPLACE FUNCTION pgcursus.positions_of(
  _topics text[], _partition_counts int[], _first int, _count int)
RETURNS TABLE (topic text, partition int)
LANGUAGE sql IMMUTABLE
AS $$
  SELECT t.topic, p.n
    FROM (SELECT u.topic, u.partitions, u.place,
                 sum(u.partitions) OVER (ORDER BY u.place) - u.partitions AS start
            FROM unnest(_topics, _partition_counts) WITH ORDINALITY
                   AS u (topic, partitions, place)) t
   CROSS JOIN LATERAL generate_series(greatest(_first - t.start, 0)::int,
                                      least(_first + _count - t.start, t.partitions)::int - 1) AS p (n)
   ORDER BY t.place, p.n
$$;
