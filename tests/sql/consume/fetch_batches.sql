-- fetch_batches: which batches come, the bounds, and what it does not touch.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();
SELECT count(*) FROM pg_temp.create_topic('t', 2) \g /dev/null
-- Batches 0-1, 2-3, 4-4, 5-7 of 10 bytes a record.
SELECT pg_temp.append('t', array_fill('0123456789'::text, ARRAY[n])) FROM unnest('{2,2,1,3}'::int[]) n
\g /dev/null

CREATE FUNCTION pg_temp.bases(_from bigint, _records bigint DEFAULT 1000, _bytes bigint DEFAULT 100000)
RETURNS text LANGUAGE sql AS $$
  SELECT string_agg(f.base_offset::text, ' ')
    FROM fetch_batches((SELECT log_id FROM topic_definition('t')), 0, _from, _records, _bytes) f
$$;

SELECT is(pg_temp.bases(0), '0 2 4 5', 'everything_from_the_start');
SELECT is(pg_temp.bases(1), '0 2 4 5', 'an_offset_inside_a_batch_gets_that_batch');
SELECT is(pg_temp.bases(2), '2 4 5', 'an_offset_at_a_border_gets_the_batch_it_starts');
SELECT is(pg_temp.bases(3), '2 4 5', 'the_last_offset_of_a_batch_gets_that_batch');
SELECT is(pg_temp.bases(7), '5', 'the_last_record_is_found');
SELECT is(pg_temp.bases(8), NULL, 'at_the_end_there_is_nothing');
SELECT is(pg_temp.bases(99), NULL, 'beyond_the_end_there_is_nothing');
SELECT is(pg_temp.bases(0, 2), '0', 'it_stops_when_enough_records_are_covered');
SELECT is(pg_temp.bases(1, 2), '0 2', 'records_before_the_offset_do_not_count');
SELECT is(pg_temp.bases(0, 3), '0 2', 'a_batch_comes_whole');
SELECT is(pg_temp.bases(0, 1000, 40), '0 2', 'it_stops_before_the_bytes_are_passed');
SELECT is(pg_temp.bases(0, 1000, 39), '0', 'a_batch_that_would_pass_the_bytes_stays_out');
SELECT is(pg_temp.bases(5, 1000, 1), '5', 'the_first_batch_always_comes');
SELECT is(pg_temp.bases(0, 0), NULL, 'zero_records_ask_for_the_bounds_only');

CREATE FUNCTION pg_temp.bounds(_log_id bigint, _partition int, _from bigint) RETURNS text
LANGUAGE sql AS $$
  SELECT string_agg((f.log_is_current, f.earliest_offset, f.end_offset, f.stable_offset,
                     f.base_offset)::text, ' ')
    FROM fetch_batches(_log_id, _partition, _from, 10, 1000) f
$$;
SELECT log_id AS log FROM topic_definition('t') \gset
SELECT is(pg_temp.bounds(:log, 0, 5), '(t,0,8,8,5)', 'every_row_has_the_bounds');
SELECT is(pg_temp.bounds(:log, 0, 8), '(t,0,8,8,)', 'the_bounds_come_without_batches_too');
SELECT is(pg_temp.bounds(:log, 1, 0), '(t,0,0,0,)', 'an_empty_partition_has_bounds');
SELECT is(pg_temp.bounds(:log, 9, 0), '(t,,,,)', 'an_unknown_partition_has_none');
SELECT is(pg_temp.bounds(987654, 0, 0), '(f,,,,)', 'an_unknown_log_is_not_current');

-- Retention and compaction leave gaps between batches.
DELETE FROM record_batches WHERE log_id = :log AND base_offset IN (0, 4);
UPDATE partition_states SET earliest_offset = 2 WHERE log_id = :log AND partition = 0;
SELECT is(pg_temp.bounds(:log, 0, 1), '(t,2,8,8,)', 'below_the_earliest_offset_only_the_bounds_come');
SELECT is(pg_temp.bases(2), '2 5', 'from_the_earliest_offset_on_batches_come');
SELECT is(pg_temp.bases(4), '5', 'in_a_gap_the_next_batch_comes');
SELECT is(pg_temp.bounds(:log, 0, 8), '(t,2,8,8,)', 'the_earliest_offset_is_the_recorded_one');
SELECT is(pg_temp.bases(2, 1), '2', 'a_gap_before_does_not_count_as_records');

-- Transactions bound what is stable and tell each batch's state.
INSERT INTO transaction_states (transactional_id, producer_id, producer_epoch, state, deadline)
VALUES ('x', 'p', 1, 'open', 'infinity') RETURNING transaction_id AS xid \gset
INSERT INTO transaction_partitions VALUES (:xid, :log, 0, 5, NULL, false);
UPDATE record_batches SET transaction_id = :xid WHERE log_id = :log AND base_offset = 5;
SELECT is(pg_temp.bounds(:log, 0, 8), '(t,2,8,5,)', 'an_open_transaction_bounds_the_stable_offset');
CREATE FUNCTION pg_temp.states() RETURNS text LANGUAGE sql AS $$
  SELECT string_agg(coalesce(f.transaction_state, '-'), ' ')
    FROM fetch_batches((SELECT log_id FROM topic_definition('t')), 0, 2, 100, 10000) f
$$;
SELECT is(pg_temp.states(), '- open', 'a_batch_has_its_transaction_s_state');
UPDATE transaction_states SET state = 'prepare_commit';
SELECT is(pg_temp.states(), '- open', 'a_prepared_end_is_still_open');
UPDATE transaction_states SET state = 'committed';
UPDATE transaction_partitions SET resolved = true;
SELECT is(pg_temp.states(), '- committed', 'a_decision_shows_at_once');
SELECT is(pg_temp.bounds(:log, 0, 8), '(t,2,8,8,)', 'a_resolved_transaction_bounds_nothing');

-- Cost: 1,000 batches with payloads outside the row.
SELECT pg_temp.append('t', ARRAY[(SELECT string_agg(md5(n::text || i), '') FROM generate_series(1, 150) i)], 1)
  FROM generate_series(1, 1000) n \g /dev/null
SELECT cmp_ok(pg_temp.buffers(format('SELECT * FROM fetch_batches(%s, 1, 990, 1, 1000)', :log)), '<', 30,
              'a_fetch_near_the_end_touches_few_buffers');
SELECT cmp_ok(pg_temp.buffers(format('SELECT * FROM fetch_batches(%s, 1, 0, 1, 1000)', :log)), '<', 30,
              'a_fetch_at_the_start_touches_few_buffers');
SELECT cmp_ok(pg_temp.buffers(format('SELECT * FROM fetch_batches(%s, 1, 500, 100, 20000)', :log)), '<', 60,
              'batches_that_are_not_returned_are_not_fetched');
SELECT * FROM finish();
ROLLBACK;
