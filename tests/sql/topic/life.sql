-- alter_topic, delete_topic, truncate_topic: what they change, what they refuse, what they leave.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();

CREATE FUNCTION pg_temp.revision(_topic text) RETURNS text LANGUAGE sql AS $$
  SELECT format('%s/%s', t.revision, t.lifecycle_epoch) FROM topic_definition(_topic) t
$$;
CREATE FUNCTION pg_temp.join_as(_group text, _topic text, _member text) RETURNS void LANGUAGE sql AS $$
  INSERT INTO group_members (group_id, member_id)
  SELECT g.group_id, _member FROM group_definitions g WHERE g.name = _group
$$;
-- Registers a group by hand, also for a topic that does not exist.
CREATE FUNCTION pg_temp.register(_group text, _topics text[]) RETURNS void LANGUAGE sql AS $$
  INSERT INTO group_definitions (name, group_id, registration_epoch, registered, selector,
                                 selector_text, topics, partition_counts)
  VALUES (_group, nextval('group_ids'), 1, true, 'topics', array_to_string(_topics, ','), _topics,
          array_fill(1, ARRAY[cardinality(_topics)]))
  ON CONFLICT (name) DO UPDATE
    SET (registered, topics, partition_counts) = (true, excluded.topics, excluded.partition_counts)
$$;

-- alter_topic
SELECT count(*) FROM pg_temp.create_topic('t', 2) \g /dev/null
SELECT is((SELECT (a.min_in_sync_replicas, a.revision)::text FROM alter_topic('t', 2) a), '(2,2)',
          'altering_raises_the_revision');
SELECT is((SELECT (a.min_in_sync_replicas, a.revision)::text FROM alter_topic('t', 2) a), '(2,2)',
          'altering_to_the_same_changes_nothing');
SELECT is((SELECT (a.min_in_sync_replicas, a.revision)::text FROM alter_topic('t', NULL) a), '(,3)',
          'the_default_comes_back');
SELECT is((SELECT (a.min_in_sync_replicas, a.revision)::text FROM alter_topic('t', NULL) a), '(,3)',
          'the_default_twice_changes_nothing');
SELECT is(pg_temp.refusal($$SELECT * FROM alter_topic('t', 4)$$),
          '{"code": "invalid_min_in_sync_replicas", "value": "4", "replication_factor": "3"}',
          'more_than_the_replication_factor_is_refused');
SELECT is(pg_temp.refusal($$SELECT * FROM alter_topic('t', 9223372036854775807)$$) ->> 'value',
          '9223372036854775807', 'a_huge_minimum_is_refused_as_sent');
SELECT is(pg_temp.refusal($$SELECT * FROM alter_topic('nope', 1)$$),
          '{"code": "topic_not_found", "topic": "nope"}', 'an_unknown_topic_is_not_altered');

-- delete_topic
SELECT is(pg_temp.refusal($$SELECT delete_topic('nope', false)$$),
          '{"code": "topic_not_found", "topic": "nope"}', 'an_unknown_topic_is_not_deleted');
SELECT ok(NOT delete_topic('nope', true), 'unless_it_need_not_exist');
SELECT pg_temp.append('t', '{a,b}', 1, 'p', 1, 1) \g /dev/null
SELECT t.log_id AS old FROM topic_definition('t') t \gset
INSERT INTO stream_snapshots VALUES (:old, 'k', 1, 'x');
SELECT ok(delete_topic('t', false), 'a_topic_is_deleted');
SELECT is((SELECT count(*) FROM topic_definition('t')), 0::bigint, 'and_is_gone');
SELECT is((SELECT (r.log_id, r.partition_count)::text FROM removed_logs r), format('(%s,2)', :old),
          'its_log_is_left_to_housekeeping');
SELECT is((SELECT count(*) FROM record_batches b WHERE b.log_id = :old), 1::bigint,
          'the_deletion_itself_removes_no_record');
SELECT is(pg_temp.outcome(pg_temp.append('t', '{late}', _log_id => :old)), 'stale',
          'nothing_is_appended_to_a_deleted_log');
SELECT is((SELECT (c.revision, c.lifecycle_epoch, c.partition_count)::text
             FROM pg_temp.create_topic('t', 1) c), '(1,1,1)', 'a_namesake_starts_anew');
SELECT is(pg_temp.outcome(pg_temp.append('t', '{c}', 0, 'p', 1, 1)), 'appended 0-0',
          'and_inherits_no_producer_state');
SELECT isnt((SELECT t.log_id FROM topic_definition('t') t), :old::bigint, 'its_log_is_another');

-- truncate_topic
SELECT is(pg_temp.refusal($$SELECT * FROM truncate_topic('nope', 1)$$),
          '{"code": "topic_not_found", "topic": "nope"}', 'an_unknown_topic_is_not_truncated');
SELECT is(pg_temp.refusal($$SELECT * FROM truncate_topic('t', 9)$$),
          '{"code": "topic_revision_conflict", "topic": "t", "expected": "9",
            "reason": "current revision 1, expected 9"}', 'another_revision_is_a_conflict');
SELECT is(pg_temp.refusal($$SELECT * FROM truncate_topic('t', 18446744073709551615)$$) ->> 'expected',
          '18446744073709551615', 'whatever_its_size');
UPDATE partition_states SET leader_epoch = 4, preferred_node = 'n1'
 WHERE log_id = (SELECT log_id FROM topic_definition('t'));
SELECT is((SELECT (r.revision, r.lifecycle_epoch, r.partition_count)::text FROM truncate_topic('t', 1) r),
          '(2,2,1)', 'truncation_raises_revision_and_epoch');
SELECT is((SELECT (d.leader_epoch, d.earliest_offset, d.end_offset)::text FROM describe_topic('t') d),
          '(5,0,0)', 'partitions_start_anew_one_leader_epoch_later');
SELECT is(pg_temp.contents('t'), NULL, 'nothing_is_left');
SELECT is(pg_temp.outcome(pg_temp.append('t', '{d}', 0, 'p', 1, 1)), 'appended 0-0',
          'producers_start_anew_too');
SELECT is(pg_temp.refusal($$SELECT * FROM truncate_topic('t', 1)$$) ->> 'code',
          'topic_revision_conflict', 'the_same_request_again_says_that_it_happened');
SELECT is((SELECT count(*) FROM removed_logs), 2::bigint, 'the_truncated_log_is_left_to_housekeeping');

-- What is in the way
SELECT count(*) FROM pg_temp.create_topic('busy', 1) \g /dev/null
SELECT count(*) FROM pg_temp.create_topic('other', 1) \g /dev/null
SELECT pg_temp.register('g', '{busy,other}');
SELECT pg_temp.join_as('g', 'busy', 'm-1');
SELECT is(pg_temp.refusal($$SELECT delete_topic('busy', false)$$),
          '{"code": "topic_delete_blocked", "topic": "busy",
            "reason": "consumer group g has active members"}', 'members_block_deletion');
SELECT is(pg_temp.refusal($$SELECT * FROM truncate_topic('busy', 99)$$) ->> 'code',
          'topic_truncate_blocked', 'members_block_truncation_before_the_revision_counts');
DELETE FROM group_members;
INSERT INTO transaction_states (transactional_id, producer_id, producer_epoch, state, deadline)
VALUES ('tx', 'p', 1, 'open', now()) RETURNING transaction_id AS tx \gset
INSERT INTO transaction_partitions SELECT :tx, t.log_id, 0, 0, NULL, false FROM topic_definition('busy') t;
SELECT is(pg_temp.refusal($$SELECT delete_topic('busy', false)$$),
          '{"code": "topic_delete_blocked", "topic": "busy", "reason": "transaction tx is not finished"}',
          'an_open_transaction_blocks_deletion');
UPDATE transaction_states SET state = 'prepare_abort';
SELECT is(pg_temp.refusal($$SELECT * FROM truncate_topic('busy', 1)$$) ->> 'code',
          'topic_truncate_blocked', 'one_being_aborted_blocks_truncation');
DELETE FROM transaction_partitions;
INSERT INTO transaction_offsets SELECT :tx, t.log_id, 0, 0 FROM topic_definition('busy') t;
SELECT is(pg_temp.refusal($$SELECT delete_topic('busy', false)$$) ->> 'code', 'topic_delete_blocked',
          'so_does_one_that_staged_an_offset');
UPDATE transaction_states SET state = 'aborted';
SELECT ok(delete_topic('busy', false), 'a_finished_transaction_blocks_nothing');
SELECT is((SELECT (g.registered, g.registration_epoch)::text FROM group_definitions g WHERE g.name = 'g'),
          '(f,2)', 'the_groups_of_a_deleted_topic_are_retired');
SELECT count(*) FROM pg_temp.create_topic('busy', 1) \g /dev/null
SELECT is(pg_temp.revision('busy'), '1/1', 'a_retired_group_keeps_no_namesake_from_being_created');

SELECT pg_temp.register('g', '{missing}');
SELECT is(pg_temp.refusal($$SELECT * FROM pg_temp.create_topic('missing', 1)$$),
          '{"code": "create_topic_failed", "topic": "missing",
            "reason": "lifecycle cleanup is pending: group g belongs to a deleted topic of this name"}',
          'leftovers_of_a_namesake_keep_a_topic_from_being_created');
SELECT is(pg_temp.refusal($$SELECT * FROM pg_temp.create_topic('missing', 1, _min_in_sync_replicas => 9)$$) ->> 'code',
          'invalid_min_in_sync_replicas', 'after_the_replica_minimum');
SELECT is(pg_temp.refusal($$SELECT * FROM pg_temp.create_topic('missing', 1, _retention_hours => -1)$$) ->> 'code',
          'create_topic_failed', 'before_the_policy');
SELECT ok(NOT delete_topic('missing', true), 'without_members_a_missing_topic_is_no_trouble');
SELECT pg_temp.join_as('g', 'missing', 'm-1');
SELECT is(pg_temp.refusal($$SELECT delete_topic('missing', true)$$) ->> 'code', 'topic_delete_blocked',
          'members_block_even_the_deletion_of_what_is_not_there');
SELECT is(pg_temp.refusal($$SELECT * FROM truncate_topic('missing', 1)$$) ->> 'code',
          'topic_truncate_blocked', 'and_its_truncation');
SELECT is(pg_temp.refusal($$SELECT delete_topic('missing', false)$$) ->> 'code', 'topic_not_found',
          'where_a_topic_must_exist_that_comes_first');
SELECT * FROM finish();
ROLLBACK;
