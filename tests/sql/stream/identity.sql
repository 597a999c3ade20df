-- Events with an identity: repeats, conflicts, producers, in topics with aggregate_replay.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();
SELECT count(*) FROM pg_temp.create_topic('r', 1, _event_sourcing => true, _aggregate_replay => true,
                                          _idempotent => true) \g /dev/null
CREATE FUNCTION pg_temp.put(_key text, _version bigint, _id text, _sequence bigint,
  _payload text DEFAULT NULL, _producer text DEFAULT 'p', _epoch bigint DEFAULT 0) RETURNS text
LANGUAGE sql AS $$
  SELECT pg_temp.events_outcome(pg_temp.append_events(
           'r', ARRAY[_key], ARRAY[_version], ARRAY[coalesce(_payload, _id)], _event_id => _id,
           _producer => _producer, _sequence => _sequence, _epoch => _epoch))
$$;

SELECT is(pg_temp.put('a', 1, 'e1', 1), 'appended 0-0', 'an_event_is_appended');
SELECT is((SELECT (b.event_ids, b.payload_digests, b.producer_id, b.producer_epoch, b.first_sequence,
                   b.idempotent)::text
             FROM record_batches b WHERE b.producer_id = 'p'),
          (ARRAY['e1'], ARRAY[encode(sha256('e1'), 'hex')], 'p', 0, 1, true)::text,
          'its_identity_is_stored');
SELECT is(pg_temp.put('a', 1, 'e1', 1), 'repeat of 0', 'an_exact_repeat_is_recognised');
SELECT is(pg_temp.put('a', 1, 'e1', 77, _producer => 'other', _epoch => 5), 'repeat of 0',
          'producer_sequence_and_epoch_of_a_repeat_do_not_matter');
SELECT is(pg_temp.put('a', 1, 'e1', 1, 'changed'), 'version taken', 'another_payload_is_another_event');
SELECT is(pg_temp.put('a', 1, 'e9', 1, 'e1'), 'version taken', 'another_event_id_is_another_event');
SELECT is(pg_temp.put('a', 2, 'e1', 2), 'event id taken', 'an_event_id_is_used_once_in_a_stream');
SELECT is(pg_temp.put('b', 1, 'e1', 2), 'event id taken', 'and_once_in_a_partition');
SELECT is(pg_temp.put('b', 5, 'e1', 2), 'event id taken', 'which_comes_before_the_version_check');
SELECT is(pg_temp.put('b', 5, 'e2', 2), 'conflict at 0', 'then_the_version_is_checked');
SELECT is(pg_temp.put('b', 0, 'e2', 2), 'conflict at 0', 'version_0_conflicts');
SELECT is(pg_temp.put('b', 1, 'e2', 4), 'call 6 4/2', 'then_the_sequence_must_follow');
SELECT is(pg_temp.put('b', 1, 'e2', 1), 'call 8 /', 'a_used_sequence_is_refused');
SELECT is(pg_temp.put('b', 1, 'e2', 2, _producer => 'new'), 'call 7 2/1', 'a_producer_begins_with_1');
SELECT is(pg_temp.put('b', 1, 'e2', 2), 'appended 1-1', 'the_sequence_counts_for_the_partition');
SELECT is(pg_temp.put('b', 2, 'e3', 1, _epoch => 3), 'appended 2-2', 'a_new_epoch_begins_again');
SELECT is(pg_temp.put('b', 3, 'e4', 3), 'call 5 3/', 'an_older_epoch_is_refused');

-- What retention removes.
UPDATE partition_states SET earliest_offset = 1
 WHERE log_id = (SELECT log_id FROM topic_definition('r'));
DELETE FROM record_batches WHERE log_id = (SELECT log_id FROM topic_definition('r')) AND base_offset = 0;
SELECT is(pg_temp.put('a', 1, 'e1', 1), 'original gone', 'what_is_gone_cannot_be_compared');
SELECT is(pg_temp.put('a', 2, 'e1', 2, _epoch => 3), 'appended 3-3', 'its_event_id_is_free_again');
SELECT is(pg_temp.put('b', 3, 'e1', 3, _epoch => 3), 'event id taken', 'until_it_is_used_again');
SELECT is(pg_temp.put('a', 3, repeat('i', 60000), 3, 'x', _epoch => 3), 'appended 4-4',
          'an_event_id_may_be_longer_than_an_index_admits');
SELECT is(pg_temp.put('a', 4, repeat('i', 60000), 4, 'x', _epoch => 3), 'event id taken',
          'and_is_found_again');
SELECT * FROM finish();
ROLLBACK;
