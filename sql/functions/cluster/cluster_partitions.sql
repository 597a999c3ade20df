-- cluster_partitions: every partition of every topic, as CLUSTER_STATUS shows them.
--
-- Arguments: none.
-- Returns:   a row a partition, ordered by '<topic>-<partition>' (bytewise).
-- Errors:    none.
-- Tables:    topic_definitions, partition_states, record_batches (read).
CREATE OR REPLACE FUNCTION pgcursus.cluster_partitions()
RETURNS TABLE (topic text, partition int, leader_epoch bigint, preferred_node text, end_offset bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  SELECT t.name, p.partition, p.leader_epoch, p.preferred_node,
         coalesce((SELECT b.last_offset + 1
                     FROM record_batches b
                    WHERE b.log_id = p.log_id AND b.partition = p.partition
                    ORDER BY b.base_offset DESC
                    LIMIT 1), p.end_offset)
    FROM topic_definitions t
    JOIN partition_states p USING (log_id)
   ORDER BY (t.name || '-' || p.partition) COLLATE "C"
$$;
