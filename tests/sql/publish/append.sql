-- append: offsets, refusals and their order, what is stored.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();
SELECT count(*) FROM pg_temp.create_topic('t', 2, _replication_factor => 3) \g /dev/null

SELECT is(pg_temp.outcome(pg_temp.append('t', '{a,b,c}')), 'appended 0-2', 'offsets_start_at_0');
SELECT is(pg_temp.outcome(pg_temp.append('t', '{d}')), 'appended 3-3', 'offsets_are_dense');
SELECT is(pg_temp.outcome(pg_temp.append('t', '{a}', 1)), 'appended 0-0',
          'partitions_count_for_themselves');
SELECT is(pg_temp.contents('t'), '0:a 1:b 2:c 3:d', 'records_are_kept_in_order');
SELECT is((pg_temp.append('t', '{e,f}')).appended_count, 2, 'the_result_counts_the_records');

UPDATE partition_states SET earliest_offset = 100, end_offset = 100
 WHERE log_id = (SELECT log_id FROM topic_definition('t')) AND partition = 1;
DELETE FROM record_batches
 WHERE log_id = (SELECT log_id FROM topic_definition('t')) AND partition = 1;
SELECT is(pg_temp.outcome(pg_temp.append('t', '{z}', 1)), 'appended 100-100',
          'after_full_retention_offsets_go_on_from_the_recorded_end');

SELECT is(pg_temp.outcome(pg_temp.append('t', '{x}', _log_id => 999999)), 'stale',
          'a_log_that_is_not_current_is_stale');
SELECT is(pg_temp.outcome(pg_temp.append('t', '{x}', _revision => 2)), 'stale',
          'another_revision_is_stale');
SELECT is(pg_temp.outcome(pg_temp.append('t', '{x}', _revision => 1)), 'appended 6-6',
          'the_current_revision_is_not_stale');
SELECT is(pg_temp.outcome(pg_temp.append('t', '{x}', 2)), 'no partition',
          'a_partition_beyond_the_count_is_refused');
SELECT is(pg_temp.outcome(pg_temp.append('t', '{x}', -1)), 'no partition',
          'a_negative_partition_is_refused');
SELECT is(pg_temp.outcome(pg_temp.append('t', '{x}', 65536)), 'no partition',
          'a_partition_beyond_16_bits_is_refused');
SELECT is(pg_temp.outcome(pg_temp.append('t', '{x}', 9, _revision => 7)), 'stale',
          'stale_is_checked_before_the_partition');

SELECT is(pg_temp.outcome(pg_temp.append('t', '{x}', _require_isr => true, _min_insync => 2)),
          '1 of 2 replicas', 'too_few_replicas_are_refused');
SELECT is(pg_temp.outcome(pg_temp.append('t', '{x}', _min_insync => 2)), 'appended 7-7',
          'replicas_count_for_acks_all_only');
SELECT is(pg_temp.outcome(pg_temp.append('t', '{x}', _require_isr => true)), 'appended 8-8',
          'one_replica_is_always_there');
SELECT is(pg_temp.outcome(pg_temp.append('t', '{x}', 9, _require_isr => true, _min_insync => 2)),
          'no partition', 'the_partition_is_checked_before_replicas');
SELECT is(pg_temp.outcome(pg_temp.append('t', '{x}', _require_isr => true, _min_insync => 2,
                                         _producer => 'p', _epoch => 1, _first => 9)),
          '1 of 2 replicas', 'replicas_are_checked_before_sequences');
SELECT count(*) FROM pg_temp.create_topic('t', _min_in_sync_replicas => 1) \g /dev/null
SELECT is(pg_temp.outcome(pg_temp.append('t', '{x}', _require_isr => true, _min_insync => 2)),
          'appended 9-9', 'the_topic_s_own_minimum_wins');

SELECT is(pg_temp.refusal($$SELECT pg_temp.append('t', '{x}', 5, _strict => true)$$),
          '{"code": "3", "current": null, "expected": null}', 'strict_raises_the_status');
SELECT is(pg_temp.refusal($$SELECT pg_temp.append('t', '{x}', _strict => true, _producer => 'p',
                                                  _epoch => 1, _first => 5)$$),
          '{"code": "7", "current": 5, "expected": 1}', 'strict_tells_current_and_expected');
SELECT is(pg_temp.outcome(pg_temp.append('t', '{x}', _strict => true)), 'appended 10-10',
          'strict_does_not_matter_when_all_is_well');
SELECT throws_ok($$SELECT append(1, NULL, 0, 2, 1, false, false, 1, false, NULL, NULL, NULL, NULL,
                                 '{a}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                 NULL, NULL)$$,
                 '22023', NULL, 'a_count_that_does_not_match_the_payloads_is_an_error');
SELECT throws_ok($$SELECT append(1, NULL, NULL, 1, 1, false, false, 1, false, NULL, NULL, NULL, NULL,
                                 '{a}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                 NULL, NULL)$$,
                 '22023', NULL, 'a_missing_partition_is_an_error');

SELECT is((SELECT (b.record_count, b.byte_count, b.kind, b.idempotent, b.keys IS NULL,
                   b.transaction_id IS NULL, b.offset_deltas IS NULL)::text
             FROM record_batches b
            WHERE b.log_id = (SELECT log_id FROM topic_definition('t'))
              AND b.partition = 0 AND b.base_offset = 0),
          '(3,3,0,f,t,t,t)', 'absent_columns_are_null');
SELECT pg_temp.append('t', '{k1,k2}', _keys => '{a,NULL}', _timestamps => '{1700000000000,NULL}',
                      _metadata => '{m,NULL}') \g /dev/null
SELECT is((SELECT (b.keys, b.timestamps, b.metadata, b.byte_count)::text
             FROM record_batches b
            WHERE b.log_id = (SELECT log_id FROM topic_definition('t'))
              AND b.partition = 0 AND b.base_offset = 11),
          (ARRAY['a', NULL]::bytea[], ARRAY[1700000000000, NULL], ARRAY['m', NULL], 5)::text,
          'optional_columns_are_stored_as_given');
SELECT pg_temp.append('t', '{e1,e2}', _event_ids => '{id1,NULL}', _payload_digests => '{NULL,d2}') \g /dev/null
SELECT is((SELECT (b.event_ids, b.payload_digests)::text
             FROM record_batches b
            WHERE b.log_id = (SELECT log_id FROM topic_definition('t'))
              AND b.partition = 0 AND b.base_offset = 13),
          (ARRAY['id1', NULL], ARRAY[NULL, 'd2'])::text, 'event_ids_and_digests_are_stored');
SELECT * FROM finish();
ROLLBACK;
