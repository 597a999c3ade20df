-- Delete retention: whole closed segments, oldest first, by age or size, and what outlives the records.
BEGIN;
\ir ../helpers.sql
\ir ../retention_helpers.sql
\ir ../transaction_helpers.sql
SELECT no_plan();

SELECT is(pg_temp.retained(), '0 0 0', 'without_topics_there_is_nothing_to_do');

-- Segments.
SELECT count(*) FROM pg_temp.create_topic('t', 2) \g /dev/null
SELECT is(pg_temp.retained(), '0 0 0', 'empty_partitions_are_no_trouble');
SELECT count(pg_temp.append('t', ARRAY[repeat('x', 40), repeat('y', 10)])) FROM generate_series(1, 5) \g /dev/null
SELECT is(pg_temp.retained(), '0 0 0', 'what_is_young_stays');
SELECT is(pg_temp.segments('t'), '0-4:100 4-8:100 8+50', 'a_row_that_would_make_a_segment_larger_begins_the_next');
SELECT pg_temp.append('t', ARRAY[repeat('z', 500)]) \g /dev/null
SELECT pg_temp.append('t', ARRAY['z']) \g /dev/null
SELECT is(pg_temp.retained(), '0 0 0', 'again');
SELECT is(pg_temp.segments('t'), '0-4:100 4-8:100 8-10:50 10-11:500 11+1', 'a_large_row_is_a_segment_of_its_own');

SELECT count(*) FROM pg_temp.create_topic('slow', 1) \g /dev/null
SELECT count(pg_temp.append('slow', '{a}')) FROM generate_series(1, 6) \g /dev/null
SELECT pg_temp.age('slow', '3 hours', 0, 2) \g /dev/null
SELECT pg_temp.age('slow', '1 hour', 2, 3) \g /dev/null
SELECT pg_temp.retain(_roll_ms => 7200000) \g /dev/null
SELECT is(pg_temp.segments('slow'), '0-2:2 2+4', 'a_row_that_is_much_younger_than_the_first_begins_the_next');
SELECT pg_temp.retain(_roll_ms => 3600000) \g /dev/null
SELECT is(pg_temp.segments('slow'), '0-2:2 2-6:4 6+0', 'a_segment_is_closed_by_time_also_when_nothing_follows');
SELECT pg_temp.append('slow', '{b}') \g /dev/null
SELECT pg_temp.retain(_roll_ms => 3600000) \g /dev/null
SELECT is(pg_temp.segments('slow'), '0-2:2 2-6:4 6+1', 'the_next_one_begins_there');

-- By age.
SELECT pg_temp.age('slow', '10 days') \g /dev/null
UPDATE log_segments SET last_appended_at = last_appended_at - interval '10 days' WHERE base_offset = 2;
SELECT is(pg_temp.retained(), '0 0 0', 'a_younger_segment_before_it_keeps_an_old_one');
UPDATE log_segments SET last_appended_at = last_appended_at - interval '10 days'
 WHERE base_offset = 0 AND log_id = (SELECT log_id FROM topic_definition('slow'));
SELECT is(pg_temp.retained(_hours => 250), '0 0 0', 'the_limit_is_in_hours');
SELECT is(pg_temp.retained(_hours => 239), '6 6 6', 'old_segments_go_oldest_first');
SELECT is(pg_temp.bounds('slow') || ' ' || pg_temp.contents('slow'), '6-7 6:b', 'the_active_one_stays_however_old');
SELECT is(pg_temp.batches('slow'), '6-6:1', 'and_no_other_row');
SELECT is(pg_temp.segments('t'), '0-4:100 4-8:100 8-10:50 10-11:500 11+1', 'other_topics_keep_what_they_have');

-- By size.
SELECT is(pg_temp.retained(_bytes => 751), '0 0 0', 'what_has_room_stays');
SELECT is(pg_temp.retained(_bytes => 750), '2 4 100', 'a_segment_goes_while_the_partition_has_too_much');
SELECT is(pg_temp.bounds('t'), '4-12', 'the_earliest_offset_is_the_first_remaining_segments');
SELECT count(*) FROM pg_temp.create_topic('t', _retention_bytes => 550) \g /dev/null
SELECT is(pg_temp.retained(), '3 6 150', 'the_topics_own_limit_goes_first');
SELECT is(pg_temp.retained(_bytes => 0), '0 0 0', 'whatever_the_brokers_is');
SELECT count(*) FROM pg_temp.create_topic('t', _retention_bytes => 0) \g /dev/null
SELECT is(pg_temp.retained(_bytes => 0), '1 1 500', 'without_its_own_the_brokers_counts');
SELECT is(pg_temp.bounds('t') || ' ' || pg_temp.bounds('t', 1), '11-12 0-0', 'but_the_active_segment_stays');
SELECT count(*) FROM pg_temp.create_topic('t', _retention_hours => 1) \g /dev/null
SELECT pg_temp.age('t', '2 hours') \g /dev/null
SELECT pg_temp.append('t', ARRAY[repeat('n', 100)]) \g /dev/null
SELECT pg_temp.retain() \g /dev/null
SELECT is(pg_temp.bounds('t'), '11-13', 'what_was_measured_keeps_its_time');
UPDATE log_segments SET last_appended_at = last_appended_at - interval '2 hours';
SELECT is(pg_temp.retained(), '1 1 1', 'the_topics_own_hours_go_first');

-- Policies.
SELECT count(*) FROM pg_temp.create_topic('c', 1, _cleanup_policy => 'compact') \g /dev/null
SELECT count(pg_temp.append('c', ARRAY[repeat('x', 60)])) FROM generate_series(1, 3) \g /dev/null
SELECT is(pg_temp.retained(_bytes => 0), '0 0 0', 'without_the_policy_delete_nothing_goes');
SELECT is(pg_temp.segments('c'), '0-1:60 1-2:60 2+60', 'but_segments_are_closed');
SELECT count(*) FROM pg_temp.create_topic('c', _cleanup_policy => 'delete,compact') \g /dev/null
SELECT is(pg_temp.retained(_bytes => 0), '2 2 120', 'with_both_it_does');

-- Everything.
SELECT count(*) FROM pg_temp.create_topic('all', 1) \g /dev/null
SELECT count(pg_temp.append('all', '{a,b}', 0, 'p', 3, 2 * n - 1)) FROM generate_series(1, 500) n \g /dev/null
SELECT register_group('g', 'topic', 'all') \g /dev/null
INSERT INTO offset_commits (group_id, log_id, partition, next_offset)
SELECT g.group_id, t.log_id, 0, 10 FROM group_definitions g, topic_definition('all') t WHERE g.name = 'g';
SELECT pg_temp.age('all', '9 days') \g /dev/null
SELECT is(pg_temp.retained(), '500 1000 1000', 'all_segments_may_go');
SELECT is(pg_temp.bounds('all'), '1000-1000', 'the_end_stays');
SELECT is(pg_temp.contents('all'), NULL, 'no_record_is_shown');
SELECT is((SELECT count(*) FROM read('all', 0, 0)), 0::bigint, 'nor_read');
SELECT is((SELECT (f.earliest_offset, f.end_offset, f.stable_offset, f.base_offset)::text
             FROM fetch_batches((SELECT log_id FROM topic_definition('all')), 0, 999, 10, 1000) f),
          '(1000,1000,1000,)', 'nor_fetched');
SELECT is((SELECT (l.committed, l.earliest_offset, l.end_offset, l.lag)::text FROM group_lag l
            WHERE l."group" = 'g'), '(10,1000,1000,0)', 'nobody_lags_by_what_is_gone');
SELECT is(pg_temp.batches('all'), '998-999:0', 'the_last_row_stays_empty_to_mark_the_end');
SELECT is(pg_temp.retained(), '0 0 0', 'nothing_is_left_to_do');
SELECT is(pg_temp.outcome(pg_temp.append('all', '{c}')), 'appended 1000-1000', 'appending_goes_on_at_the_end');
SELECT is(pg_temp.retained(), '1 0 0', 'the_mark_goes_when_another_row_is_there');
SELECT is(pg_temp.batches('all') || ' ' || pg_temp.bounds('all'), '1000-1000:1 1000-1001', 'which_marks_the_end');

-- Idempotent producers (CASES 7): p has no row any more.
SELECT is((SELECT (s.producer_epoch, s.last_sequence, s.last_offset)::text FROM producer_states s
            WHERE s.producer_id = 'p'), '(3,1000,999)', 'what_only_the_rows_knew_is_kept');
SELECT is(pg_temp.outcome(pg_temp.append('all', '{x}', 0, 'p', 3, 1000)), 'duplicate of 999',
          'the_last_record_is_still_known');
SELECT is(pg_temp.outcome(pg_temp.append('all', '{x}', 0, 'p', 3, 1)), 'duplicate of 999',
          'the_first_sequence_is_no_new_beginning');
SELECT is(pg_temp.outcome(pg_temp.append('all', '{x}', 0, 'p', 3, 1002)), 'gap, expected 1001 got 1002',
          'gaps_are_still_refused');
SELECT is(pg_temp.outcome(pg_temp.append('all', '{x}', 0, 'p', 2, 1)), 'stale epoch, current 3',
          'older_epochs_still_fenced');
SELECT is(pg_temp.outcome(pg_temp.append('all', '{x}', 0, 'p', 3, 1001)), 'appended 1001-1001',
          'and_the_next_is_appended');
SELECT is(pg_temp.outcome(pg_temp.append('all', '{x}', 0, 'p', 4, 1)), 'appended 1002-1002', 'also_of_a_new_epoch');
SELECT pg_temp.append('all', '{x}', 0, 'q', 1, 1) \g /dev/null
SELECT pg_temp.append('all', '{x}', 0, 'p', 4, 2) \g /dev/null
SELECT pg_temp.append('all', ARRAY[repeat('x', 100)]) \g /dev/null
SELECT pg_temp.append('all', '{x}', 0, 'p', 4, 3) \g /dev/null
SELECT is(pg_temp.retained(_bytes => 1), '6 6 105', 'later');
SELECT is((SELECT string_agg(s.producer_id || s.producer_epoch || '/' || s.last_sequence || '@' || s.last_offset,
                             ' ' ORDER BY s.producer_id) FROM producer_states s), 'p3/1000@999 q1/1@1003',
          'a_producer_with_a_newer_row_keeps_its_state_there');
SELECT is(pg_temp.outcome(pg_temp.append('all', '{x}', 0, 'p', 4, 1)), 'duplicate of 1006',
          'of_a_record_in_between_the_next_known_one_is_told');
SELECT is(pg_temp.outcome(pg_temp.append('all', '{x}', 0, 'p', 4, 4)), 'appended 1007-1007', 'and_it_goes_on');

-- Transactions.
SELECT count(*) FROM pg_temp.create_topic('x', 1) \g /dev/null
SELECT pg_temp.append('x', ARRAY[repeat('a', 90)]) \g /dev/null
SELECT pg_temp.init('id') \g /dev/null
SELECT begin_transaction('id', pg_temp.producer('id'), 0, 60000) \g /dev/null
SELECT is(pg_temp.add('id', 0, 'x', 0, 1, repeat('t', 90)), 'appended 1-1', 'a_transaction_is_open');
SELECT count(pg_temp.append('x', ARRAY[repeat('a', 90)])) FROM generate_series(1, 2) \g /dev/null
SELECT is(pg_temp.retained(_bytes => 0), '1 1 90', 'segments_below_the_stable_offset_go');
SELECT is(pg_temp.bounds('x') || ' ' || pg_temp.stable('x', 0), '1-4 1 of 4', 'an_open_transaction_keeps_the_rest');
SELECT is(pg_temp.add('id', 0, 'x', 0, 2, repeat('u', 90)), 'appended 4-4', 'it_goes_on');
SELECT is(pg_temp.finish('id', 0, true), 'committed 2 0', 'it_is_committed');
SELECT is(pg_temp.retained(_bytes => 150), '3 3 270', 'its_records_go_like_others');
SELECT is((SELECT string_agg(r."offset" || r.transaction_state, ' ') FROM read('x', 0) r), '4committed',
          'a_record_that_stays_is_still_committed');
UPDATE transaction_states SET begun_at = begun_at - interval '2 minutes';
SELECT clean_transactions() \g /dev/null
SELECT is(pg_temp.status('id'), 'committed 2 1 0', 'and_so_is_the_decision');

-- Event streams.
SELECT count(*) FROM pg_temp.create_topic('e', 1, _event_sourcing => true, _retention_bytes => 70) \g /dev/null
SELECT count(append_stream('e', 'k', n, 'T', convert_to(repeat('e', 60), 'UTF8'))) FROM generate_series(1, 3) n \g /dev/null
SELECT is(pg_temp.retained(), '2 2 122', 'events_go_like_records');
SELECT is((SELECT array_agg(s.version) FROM read_stream('e', 'k') s), '{3}', 'what_is_gone_is_not_read');
SELECT is((SELECT s.version FROM streams s WHERE s.topic = 'e'), 3::bigint, 'the_version_stays');
SELECT is(append_stream('e', 'k', 4, NULL, 'x'), 3::bigint, 'and_goes_on');

-- A truncated topic leaves nothing, whatever was under way.
SELECT log_id AS log FROM topic_definition('t') \gset
SELECT truncate_topic('t', NULL) \g /dev/null
SELECT count(r) FROM generate_series(1, 20) n, LATERAL (SELECT remove_old_logs() WHERE n > 0) r \g /dev/null
SELECT is((SELECT count(*) FROM log_upkeep u WHERE u.log_id = :log)
          + (SELECT count(*) FROM log_segments s WHERE s.log_id = :log), 0::bigint, 'a_removed_log_has_no_segments');
SELECT is(pg_temp.bounds('t'), '0-0', 'the_new_one_begins_anew');
SELECT * FROM finish();
ROLLBACK;
