-- group_lag: how far each consumer group is behind, a row for each partition it consumes.
--
-- committed is the next offset to read, NULL when nothing was ever committed. lag counts what is
-- retained: a group whose committed offset has been removed lags by what is left, one that has never
-- committed by everything. Markers of transactions count too. member is NULL while nobody has the
-- partition.
CREATE OR REPLACE VIEW pgcursus.group_lag AS
SELECT g.name AS "group",
       x.topic,
       x.partition,
       m.member_id AS member,
       done.committed,
       p.earliest_offset,
       bounds.end_offset,
       coalesce(undecided.first_offset, bounds.end_offset) AS stable_offset,
       greatest(bounds.end_offset - greatest(coalesce(done.committed, 0), p.earliest_offset), 0) AS lag,
       done.committed_at
  FROM pgcursus.group_definitions g
  CROSS JOIN LATERAL (
    SELECT t.topic, n.partition, row_number() OVER (ORDER BY t.place, n.partition) - 1 AS position
      FROM unnest(g.topics, g.partition_counts) WITH ORDINALITY AS t (topic, partitions, place)
     CROSS JOIN LATERAL generate_series(0, t.partitions - 1) AS n (partition)) x
  JOIN pgcursus.topic_definitions t ON t.name = x.topic
  JOIN pgcursus.partition_states p ON p.log_id = t.log_id AND p.partition = x.partition
 CROSS JOIN LATERAL (
    SELECT coalesce((SELECT b.last_offset + 1
                       FROM pgcursus.record_batches b
                      WHERE b.log_id = p.log_id AND b.partition = p.partition
                      ORDER BY b.base_offset DESC
                      LIMIT 1), p.end_offset) AS end_offset) bounds
  LEFT JOIN LATERAL (
    SELECT u.first_offset
      FROM pgcursus.transaction_partitions u
     WHERE u.log_id = p.log_id AND u.partition = p.partition AND NOT u.resolved
     ORDER BY u.first_offset
     LIMIT 1) undecided ON true
  LEFT JOIN pgcursus.group_members m
    ON m.group_id = g.group_id AND x.position >= m.first_position
   AND x.position < m.first_position + m.position_count
  LEFT JOIN LATERAL (
    SELECT o.next_offset AS committed, o.committed_at
      FROM pgcursus.offset_commits o
     WHERE o.group_id = g.group_id AND o.log_id = p.log_id AND o.partition = p.partition
     ORDER BY o.next_offset DESC
     LIMIT 1) done ON true
 WHERE g.registered;
