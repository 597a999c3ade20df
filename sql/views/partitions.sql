-- partitions: every partition of every topic with its bounds.
--
-- end_offset is the offset of the next record; stable_offset is where read_committed readers stop.
-- records_bound is the span of offsets: an upper bound of the number of records.
CREATE OR REPLACE VIEW pgcursus.partitions AS
SELECT t.name AS topic,
       p.partition,
       p.earliest_offset,
       bounds.end_offset,
       coalesce(undecided.first_offset, bounds.end_offset) AS stable_offset,
       bounds.end_offset - p.earliest_offset AS records_bound,
       last_batch.appended_at AS last_appended_at,
       p.leader_epoch,
       p.preferred_node,
       p.log_id
  FROM pgcursus.topic_definitions t
  JOIN pgcursus.partition_states p USING (log_id)
  LEFT JOIN LATERAL (
    SELECT b.last_offset, b.appended_at
      FROM pgcursus.record_batches b
     WHERE b.log_id = p.log_id AND b.partition = p.partition
     ORDER BY b.base_offset DESC
     LIMIT 1) last_batch ON true
  LEFT JOIN LATERAL (
    SELECT x.first_offset
      FROM pgcursus.transaction_partitions x
     WHERE x.log_id = p.log_id AND x.partition = p.partition AND NOT x.resolved
     ORDER BY x.first_offset
     LIMIT 1) undecided ON true
  CROSS JOIN LATERAL (
    SELECT coalesce(last_batch.last_offset + 1, p.end_offset) AS end_offset) bounds;
