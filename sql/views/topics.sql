-- topics: every topic with its definition, policy and size.
--
-- records_bound is the span of offsets, so it counts markers and what compaction removed: an upper
-- bound that costs an index probe a partition.
CREATE OR REPLACE VIEW pgcursus.topics AS
SELECT t.name AS topic,
       t.partition_count AS partitions,
       t.replication_factor,
       t.idempotent,
       t.event_sourcing,
       t.aggregate_replay,
       t.min_in_sync_replicas,
       t.cleanup_policy,
       t.retention_hours,
       t.retention_bytes,
       t.partitioner,
       t.auth_policy,
       t.read_acl,
       t.write_acl,
       t.revision,
       t.lifecycle_epoch,
       t.created_at,
       t.log_id,
       (SELECT sum(p.end_offset - p.earliest_offset)::bigint
          FROM pgcursus.partitions p
         WHERE p.topic = t.name) AS records_bound
  FROM pgcursus.topic_definitions t;
