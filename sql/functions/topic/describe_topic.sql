-- describe_topic: a topic's definition with the bounds of its partitions, all of one snapshot.
--
-- Arguments: _topic      the topic's name;
--            _partition  only this partition; NULL: all.
-- Returns:   a row a partition, in order. A partition that was asked for and does not exist: one
--            row whose partition columns are NULL. Unknown topic: no row.
-- Errors:    none.
-- Tables:    topic_definitions, partition_states, record_batches (read).
CREATE OR REPLACE FUNCTION pgcursus.describe_topic(_topic text, _partition int DEFAULT NULL)
RETURNS TABLE (
  topic text, log_id bigint, partition_count int, replication_factor int, idempotent boolean,
  event_sourcing boolean, aggregate_replay boolean, min_in_sync_replicas int, cleanup_policy text,
  retention_hours bigint, retention_bytes bigint, partitioner text, auth_policy text,
  read_acl text, write_acl text, revision bigint, lifecycle_epoch bigint,
  partition int, leader_epoch bigint, earliest_offset bigint, end_offset bigint, preferred_node text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  SELECT t.*, p.partition, p.leader_epoch, p.earliest_offset,
         coalesce(last_batch.last_offset + 1, p.end_offset), p.preferred_node
    FROM topic_definition(describe_topic._topic) t
    LEFT JOIN partition_states p
      ON p.log_id = t.log_id
     AND (describe_topic._partition IS NULL OR p.partition = describe_topic._partition)
    LEFT JOIN LATERAL (
      SELECT b.last_offset
        FROM record_batches b
       WHERE b.log_id = p.log_id AND b.partition = p.partition
       ORDER BY b.base_offset DESC
       LIMIT 1) last_batch ON true
   ORDER BY p.partition
$$;
