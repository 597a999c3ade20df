-- append: the decision table of idempotent producers, and duplicates within and across batches.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();
SELECT count(*) FROM pg_temp.create_topic('t', 2) \g /dev/null

-- One record of a producer.
CREATE FUNCTION pg_temp.one(_producer text, _epoch bigint, _sequence bigint, _partition int DEFAULT 0)
RETURNS text LANGUAGE sql AS $$
  SELECT pg_temp.outcome(pg_temp.append('t', '{x}', _partition, _producer, _epoch, _sequence))
$$;
-- A batch with the given sequences; each payload is its sequence.
CREATE FUNCTION pg_temp.many(_producer text, _epoch bigint, VARIADIC _sequences bigint[])
RETURNS text LANGUAGE sql AS $$
  SELECT pg_temp.outcome(pg_temp.append('t', _sequences::text[], 0, _producer, _epoch,
                                        _sequences => _sequences))
$$;

-- The rows of the table, in its order. State none:
SELECT is(pg_temp.one('none', 5, 2), 'wrong first, expected 1 got 2',
          'without_state_any_sequence_but_1_is_an_error');
SELECT is(pg_temp.one('none', 5, 1), 'appended 0-0', 'without_state_sequence_1_is_appended');
-- State (epoch 5, sequence 1), then (5, 2):
SELECT is(pg_temp.one('none', 4, 1), 'stale epoch, current 5', 'a_lower_epoch_is_stale');
SELECT is(pg_temp.one('none', 4, 99), 'stale epoch, current 5', 'a_lower_epoch_is_stale_at_any_sequence');
SELECT is(pg_temp.one('none', 5, 1), 'duplicate of 0', 'the_same_sequence_is_a_duplicate');
SELECT is(pg_temp.one('none', 5, 2), 'appended 1-1', 'the_next_sequence_is_appended');
SELECT is(pg_temp.one('none', 5, 1), 'duplicate of 0', 'a_lower_sequence_is_a_duplicate');
SELECT is(pg_temp.one('none', 5, 4), 'gap, expected 3 got 4', 'a_skipped_sequence_is_a_gap');
SELECT is(pg_temp.one('none', 6, 3), 'wrong first, expected 1 got 3',
          'a_higher_epoch_must_start_at_1');
SELECT is(pg_temp.one('none', 6, 1), 'appended 2-2', 'a_higher_epoch_starts_at_1');
SELECT is(pg_temp.one('none', 5, 3), 'stale epoch, current 6', 'a_higher_epoch_fences_the_older_session');
SELECT is(pg_temp.one('none', 6, 1), 'duplicate of 2', 'duplicates_are_of_the_current_epoch');

-- State is per partition and per producer.
SELECT is(pg_temp.one('none', 1, 1, 1), 'appended 0-0', 'another_partition_has_its_own_state');
SELECT is(pg_temp.one('other', 1, 1), 'appended 3-3', 'another_producer_has_its_own_state');

-- Batches: state epoch 1, last sequence 3 at offset 6.
SELECT is(pg_temp.many('p1', 1, 1, 2, 3), 'appended 4-6', 'a_batch_of_next_sequences_is_appended');
SELECT is(pg_temp.many('p1', 1, 2, 3, 4, 5), 'appended 7-8',
          'known_records_at_the_front_are_skipped');
SELECT is((SELECT (b.record_count, b.first_sequence, b.last_sequence, b.sequences IS NULL,
                   b.byte_count)::text
             FROM record_batches b
            WHERE b.log_id = (SELECT log_id FROM topic_definition('t')) AND b.base_offset = 7
              AND b.partition = 0),
          '(2,4,5,t,2)', 'the_row_describes_exactly_what_was_appended');
SELECT is(pg_temp.many('p1', 1, 4, 5), 'duplicate of 8', 'a_repeated_batch_is_a_duplicate');
SELECT is(pg_temp.many('p1', 1, 2, 3), 'duplicate of 6',
          'the_original_of_the_last_record_is_reported');
SELECT is(pg_temp.many('p1', 1, 5, 4), 'duplicate of 7',
          'the_last_record_need_not_have_the_last_sequence');
SELECT is(pg_temp.many('p1', 1, 6, 8), 'gap, expected 7 got 8', 'a_gap_inside_a_batch_is_refused');
SELECT is(pg_temp.many('p1', 1, 6, 6, 7), 'appended 9-10', 'repeats_inside_a_batch_are_skipped');
SELECT is(pg_temp.many('p1', 1, 8, 9, 8, 7, 10), 'appended 11-13',
          'duplicates_anywhere_in_a_batch_are_skipped');
SELECT alike(pg_temp.contents('t'), '%9:6 10:7 11:8 12:9 13:10%',
             'the_rest_is_appended_contiguously_and_in_order');
SELECT is(pg_temp.many('p1', 2, 2, 3), 'wrong first, expected 1 got 2',
          'a_batch_of_a_new_epoch_must_start_at_1');
SELECT is(pg_temp.many('p1', 2, 1, 3), 'gap, expected 2 got 3',
          'after_its_first_record_a_new_epoch_has_gaps');
SELECT is(pg_temp.many('p1', 2, 1, 1, 2), 'appended 14-15', 'a_new_epoch_skips_its_own_repeats');
SELECT is(pg_temp.outcome(pg_temp.append('t', '{a,b}', 0, 'p2', 1, 1, 1)), 'appended 16-16',
          'equal_first_and_last_mean_that_all_records_have_that_sequence');

-- The other columns follow the records that are kept.
SELECT pg_temp.append('t', '{a,b,c}', 0, 'p3', 1, _sequences => '{1,1,2}', _keys => '{k,NULL,l}',
                      _timestamps => '{1,2,3}', _metadata => '{x,y,NULL}',
                      _event_ids => '{i,j,NULL}', _payload_digests => '{NULL,e,f}') \g /dev/null
SELECT is((SELECT array_agg((convert_from(r.payload, 'UTF8'), convert_from(r.key, 'UTF8'),
                             (extract(epoch FROM r."timestamp") * 1000)::int, r.metadata, r.sequence)::text
                            ORDER BY r."offset")
             FROM records r WHERE r.topic = 't' AND r.producer_id = 'p3'),
          ARRAY['(a,k,1,x,1)', '(c,l,3,,2)'],
          'skipping_a_record_skips_all_of_it');
SELECT is((SELECT (b.event_ids, b.payload_digests)::text FROM record_batches b WHERE b.producer_id = 'p3'),
          (ARRAY['i', NULL], ARRAY[NULL, 'f'])::text, 'skipping_skips_event_ids_and_digests_too');

-- What outlives the rows.
DELETE FROM record_batches WHERE producer_id = 'p1';
SELECT is(pg_temp.one('p1', 2, 1), 'appended 19-19', 'without_any_trace_a_producer_starts_anew');
DELETE FROM record_batches WHERE producer_id = 'p1';
INSERT INTO producer_states
SELECT log_id, 0, 'p1', 2, 2, 15 FROM topic_definition('t');
SELECT is(pg_temp.one('p1', 2, 2), 'duplicate of 15', 'the_kept_state_knows_its_last_offset');
SELECT is(pg_temp.one('p1', 2, 1), 'duplicate of 15',
          'a_duplicate_whose_original_is_gone_gets_the_kept_offset');
SELECT is(pg_temp.one('p1', 2, 4), 'gap, expected 3 got 4', 'the_kept_state_refuses_gaps');
SELECT is(pg_temp.one('p1', 1, 3), 'stale epoch, current 2', 'the_kept_state_fences');
SELECT is(pg_temp.one('p1', 2, 3), 'appended 19-19', 'the_kept_state_is_continued');
SELECT is(pg_temp.one('p1', 2, 4), 'appended 20-20', 'newer_rows_win_over_the_kept_state');
SELECT is(pg_temp.one('p1', 2, 2), 'duplicate of 15', 'and_the_kept_offset_is_still_known');

-- Compaction leaves holes, and each original where it was.
UPDATE record_batches
   SET offset_deltas = '{0,2}', sequences = '{1,3}', payloads = payloads[1:2], record_count = 2,
       base_offset = 5000, last_offset = 5002, first_sequence = 1, last_sequence = 3,
       producer_id = 'compacted'
 WHERE producer_id = 'p3';
SELECT is(pg_temp.one('compacted', 1, 3), 'duplicate of 5002', 'a_compacted_row_still_tells_the_original');
SELECT is(pg_temp.one('compacted', 1, 2), 'duplicate of 5001',
          'also_of_a_record_that_it_has_removed');

-- Not idempotent: stored, not checked.
SELECT is(pg_temp.outcome(pg_temp.append('t', '{x}', 1, 'free', 1, 7, _idempotent => false)),
          'appended 1-1', 'without_idempotence_nothing_is_checked');
SELECT is(pg_temp.outcome(pg_temp.append('t', '{x}', 1, 'free', 1, 7, _idempotent => false)),
          'appended 2-2', 'without_idempotence_nothing_is_deduplicated');
SELECT is(pg_temp.one('free', 1, 1, 1), 'appended 3-3', 'and_no_state_is_left_behind');
SELECT is(pg_temp.refusal($$SELECT pg_temp.append('t', '{x}', 1, 'free', 1, 9, _strict => true)$$),
          '{"code": "6", "current": 9, "expected": 2}', 'strict_raises_a_gap');
SELECT is(pg_temp.outcome(pg_temp.append('t', '{x}', 1, 'free', 1, 1, _strict => true)),
          'duplicate of 3', 'strict_does_not_raise_a_duplicate');
SELECT * FROM finish();
ROLLBACK;
