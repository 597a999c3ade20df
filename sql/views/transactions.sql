-- transactions: every transaction that is known, with its age and what it has touched.
--
-- A hanging one is easily found: WHERE NOT is_final ORDER BY age DESC. messages and offsets are what it
-- holds, or held at its end. touched lists partitions as topic/partition; a topic that was deleted or
-- truncated since shows as its log's number. holds_back counts the records of the touched partitions that
-- read_committed readers cannot see because of it or of others.
CREATE OR REPLACE VIEW pgcursus.transactions AS
SELECT t.transactional_id,
       t.producer_id,
       t.producer_epoch,
       t.state,
       t.state IN ('committed', 'aborted') AS is_final,
       t.begun_at,
       t.deadline,
       t.changed_at,
       CASE WHEN t.state IN ('committed', 'aborted') THEN t.changed_at ELSE clock_timestamp() END
         - t.begun_at AS age,
       CASE WHEN t.state = 'open' THEN counts.messages ELSE t.message_count END AS messages,
       CASE WHEN t.state = 'open' THEN counts.offsets ELSE t.offset_count END AS offsets,
       t.group_name AS "group",
       touched.partitions AS touched,
       touched.holds_back
  FROM pgcursus.transaction_states t
  LEFT JOIN LATERAL (
    SELECT (SELECT count(*) FROM pgcursus.transaction_requests r
             WHERE r.transaction_id = t.transaction_id) AS messages,
           (SELECT count(*) FROM pgcursus.transaction_offsets o
             WHERE o.transaction_id = t.transaction_id) AS offsets) counts ON t.state = 'open'
  CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(coalesce(d.name, p.log_id::text) || '/' || p.partition
                              ORDER BY d.name, p.partition), '{}') AS partitions,
           coalesce(sum(CASE WHEN p.resolved THEN 0 ELSE b.end_offset - b.stable_offset END), 0)::bigint
             AS holds_back
      FROM pgcursus.transaction_partitions p
      LEFT JOIN pgcursus.topic_definitions d USING (log_id)
      LEFT JOIN pgcursus.partitions b
        ON NOT p.resolved AND b.log_id = p.log_id AND b.partition = p.partition
     WHERE p.transaction_id = t.transaction_id) touched;
