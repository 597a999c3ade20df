-- create_topic: what a new topic is, and what a patch of an existing one changes.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();

SELECT is(
  (SELECT (t.partition_count, t.replication_factor, t.idempotent, t.event_sourcing, t.aggregate_replay,
           t.min_in_sync_replicas, t.cleanup_policy, t.retention_hours, t.retention_bytes,
           t.partitioner, t.auth_policy, t.read_acl, t.write_acl, t.revision, t.lifecycle_epoch)::text
     FROM pg_temp.create_topic('plain') t),
  '(4,3,f,f,f,,delete,0,0,hash_key,open,"","",1,1)',
  'a_new_topic_takes_the_defaults');

SELECT is(
  (SELECT array_agg((d.partition, d.leader_epoch, d.earliest_offset, d.end_offset)::text)
     FROM describe_topic('plain') d),
  ARRAY['(0,0,0,0)', '(1,0,0,0)', '(2,0,0,0)', '(3,0,0,0)'],
  'a_new_topic_has_empty_partitions_from_0_on');

SELECT is((SELECT t.revision FROM pg_temp.create_topic('plain') t), 1::bigint,
          'a_request_that_changes_nothing_keeps_the_revision');
SELECT is((SELECT t.revision FROM pg_temp.create_topic('plain', _read_acl => '{}') t), 1::bigint,
          'clearing_an_empty_acl_changes_nothing');
SELECT is((SELECT t.revision FROM pg_temp.create_topic('plain', _idempotent => false,
                                                       _replication_factor => 3) t), 1::bigint,
          'restating_an_immutable_field_changes_nothing');
SELECT is((SELECT (t.revision, t.retention_hours, t.retention_bytes)::text
             FROM pg_temp.create_topic('plain', _retention_hours => 24, _retention_bytes => 5) t),
          '(2,24,5)', 'several_changed_fields_raise_the_revision_once');
SELECT is((SELECT (t.revision, t.auth_policy, t.read_acl, t.retention_hours)::text
             FROM pg_temp.create_topic('plain', _auth_policy => 'acl', _read_acl => '{a,b}') t),
          '(3,acl,"a,b",24)', 'absent_fields_are_kept');
SELECT is((SELECT (t.revision, t.read_acl, t.auth_policy)::text
             FROM pg_temp.create_topic('plain', _read_acl => '{}') t),
          '(4,"",acl)', 'an_empty_list_clears_an_acl');
SELECT is((SELECT (t.revision, t.min_in_sync_replicas)::text
             FROM pg_temp.create_topic('plain', _min_in_sync_replicas => 2) t),
          '(5,2)', 'the_minimum_of_replicas_is_replaced');

SELECT is((SELECT pg_temp.outcome(pg_temp.append('plain', '{x}', 3))), 'appended 0-0',
          'the_last_partition_takes_records');
SELECT is((SELECT (t.revision, t.partition_count)::text
             FROM pg_temp.create_topic('plain', _partitions => 6) t),
          '(6,6)', 'partitions_may_grow');
SELECT is((SELECT array_agg(d.partition || ':' || d.end_offset ORDER BY d.partition)
             FROM describe_topic('plain') d),
          ARRAY['0:0', '1:0', '2:0', '3:1', '4:0', '5:0'],
          'growing_keeps_the_records_and_adds_empty_partitions');
SELECT is((SELECT t.log_id FROM pg_temp.create_topic('plain') t),
          (SELECT t.log_id FROM topic_definition('plain') t), 'a_patch_keeps_the_log');
SELECT isnt((SELECT t.log_id FROM pg_temp.create_topic('other') t),
            (SELECT t.log_id FROM topic_definition('plain') t), 'topics_have_logs_of_their_own');

SELECT is((SELECT (t.event_sourcing, t.aggregate_replay, t.idempotent)::text
             FROM pg_temp.create_topic('matches', _event_sourcing => true, _idempotent => true,
                                       _aggregate_replay => true) t),
          '(t,t,t)', 'a_replay_topic_needs_both_flags_and_gets_them');
SELECT * FROM finish();
ROLLBACK;
