-- aggregate_proof and aggregate_range: every outcome, from records that were tampered with.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();
SELECT log_id FROM pg_temp.create_topic('r', 1, _event_sourcing => true, _aggregate_replay => true,
                                        _idempotent => true) \gset
SELECT pg_temp.append_events('r', ARRAY[CASE WHEN n % 2 = 1 THEN 'a' ELSE 'b' END], ARRAY[(n + 1) / 2],
                             _event_id => 'e' || n, _producer => 'p', _sequence => n)
  FROM generate_series(1, 6) n \g /dev/null
CREATE FUNCTION pg_temp.proof(_key text, _expected bigint DEFAULT NULL) RETURNS text
LANGUAGE sql AS $$
  SELECT format('%s %s: %s events %s-%s at %s-%s %s-%s hwm %s', p.status, p.is_complete, p.event_count,
                p.earliest_sequence, p.latest_sequence, p.first_offset, p.last_offset, p.first_event_id,
                p.last_event_id, p.proof_hwm)
    FROM aggregate_proof((SELECT log_id FROM topic_definition('r')), 0, convert_to(_key, 'UTF8'), _expected) p
$$;
CREATE FUNCTION pg_temp.range(_from bigint, _to bigint, _max bigint DEFAULT 100,
                              _bytes bigint DEFAULT 1000000) RETURNS text
LANGUAGE sql AS $$
  SELECT concat_ws(' ', p.status, p.range_count,
                   (SELECT string_agg(format('%s:%s:%s@%s', s, i, convert_from(d, 'UTF8'), o), ' ')
                      FROM unnest(p.sequences, p.event_ids, p.payloads, p.offsets) e(s, i, d, o)))
    FROM aggregate_range((SELECT log_id FROM topic_definition('r')), 0, 'a', _from, _to, _max, _bytes) p
$$;

SELECT is(pg_temp.proof('a'), 'complete t: 3 events 1-3 at 0-4 e1-e5 hwm 6', 'a_whole_stream_is_complete');
SELECT is(pg_temp.proof('b', 3), 'complete t: 3 events 1-3 at 1-5 e2-e6 hwm 6', 'with_the_last_sequence_expected');
SELECT is(pg_temp.proof('b', 4), 'proof_unavailable t: 3 events 1-3 at 1-5 e2-e6 hwm 6', 'with_another_one_expected');
SELECT is(pg_temp.proof('nobody'), 'not_found f: 0 events - at - - hwm 6', 'an_unknown_key_is_not_found');

SELECT is(pg_temp.range(1, 3), 'complete 3 1:e1:a1@0 2:e3:a2@2 3:e5:a3@4', 'a_range_comes_with_its_events');
SELECT is(pg_temp.range(2, 2), 'complete 1 2:e3:a2@2', 'a_part_of_it');
SELECT is(pg_temp.range(1, 3, 2), 'complete 2 1:e1:a1@0 2:e3:a2@2', 'at_most_so_many');
SELECT is(pg_temp.range(3, 9), 'complete 1 3:e5:a3@4', 'what_is_not_there_is_not_counted');
SELECT is(pg_temp.range(4, 9), 'complete 0', 'nor_what_lies_beyond_the_end');
SELECT is(pg_temp.range(1, 9223372036854775807, 9223372036854), 'complete 3 1:e1:a1@0 2:e3:a2@2 3:e5:a3@4',
          'large_numbers_are_no_trouble');
SELECT ok(pg_temp.range(1, 3, 100, 600) LIKE 'complete 0%', 'a_range_that_is_too_large_is_not_returned');

-- The stable end.
INSERT INTO transaction_states (transactional_id, producer_id, producer_epoch, state, deadline)
VALUES ('x', 'x', 0, 'open', now() + interval '1 hour');
INSERT INTO transaction_partitions (transaction_id, log_id, partition, first_offset)
SELECT t.transaction_id, :log_id, 0, 3 FROM transaction_states t;
SELECT is(pg_temp.proof('a'), 'complete t: 2 events 1-2 at 0-2 e1-e3 hwm 3', 'a_proof_keeps_to_the_stable_end');
SELECT is(pg_temp.range(1, 3), 'complete 2 1:e1:a1@0 2:e3:a2@2', 'so_does_a_range');
DELETE FROM transaction_partitions;

-- Faults.
SAVEPOINT intact;
UPDATE record_batches SET payloads = ARRAY['x'::bytea] WHERE log_id = :log_id AND base_offset = 2;
SELECT is(pg_temp.proof('a'), 'identity_conflict f: 1 events 1-1 at 0-0 e1-e1 hwm 6', 'a_payload_must_match_its_digest');
SELECT is(pg_temp.range(1, 1), 'identity_conflict 0', 'a_range_needs_a_complete_proof');
ROLLBACK TO intact;
UPDATE record_batches SET payload_digests = NULL WHERE log_id = :log_id AND base_offset = 0;
SELECT is(pg_temp.proof('a'), 'identity_conflict f: 0 events - at - - hwm 6', 'a_digest_must_be_there');
ROLLBACK TO intact;
UPDATE record_batches SET event_ids = ARRAY[''] WHERE log_id = :log_id AND base_offset = 2;
SELECT ok(pg_temp.proof('a') LIKE 'identity_conflict f: 1 %', 'an_event_id_must_be_there');
ROLLBACK TO intact;
UPDATE record_batches SET aggregate_versions = NULL WHERE log_id = :log_id AND base_offset = 2;
SELECT ok(pg_temp.proof('a') LIKE 'identity_conflict f: 1 %', 'a_sequence_must_be_there');
ROLLBACK TO intact;
UPDATE record_batches SET event_ids = ARRAY['e1'] WHERE log_id = :log_id AND base_offset = 4;
SELECT ok(pg_temp.proof('a') LIKE 'identity_conflict f: 2 %', 'an_event_id_must_not_come_again');
SELECT ok(pg_temp.proof('b') LIKE 'complete t: 3 %', 'another_stream_is_no_concern');
ROLLBACK TO intact;
UPDATE record_batches SET aggregate_versions = ARRAY[5] WHERE log_id = :log_id AND base_offset = 2;
SELECT ok(pg_temp.proof('a') LIKE 'sequence_gap f: 1 %', 'sequences_must_follow_each_other');
ROLLBACK TO intact;
DELETE FROM record_batches WHERE log_id = :log_id AND base_offset = 2;
SELECT ok(pg_temp.proof('a') LIKE 'sequence_gap f: 1 %', 'a_missing_record_is_a_gap');
ROLLBACK TO intact;
UPDATE partition_states SET earliest_offset = 2 WHERE log_id = :log_id;
SELECT is(pg_temp.proof('a'), 'retention_gap f: 2 events 2-3 at 2-4 e3-e5 hwm 6', 'what_retention_took_is_told');
UPDATE partition_states SET earliest_offset = 6 WHERE log_id = :log_id;
SELECT is(pg_temp.proof('a'), 'not_found f: 0 events - at - - hwm 6', 'nothing_left_is_not_found');
ROLLBACK TO intact;
SELECT is(pg_temp.refusal($$SELECT aggregate_proof(999, 0, 'a', NULL)$$), '{"code": "stale_log", "log": "999"}',
          'a_log_that_is_not_current_is_stale');
SELECT * FROM finish();
ROLLBACK;
