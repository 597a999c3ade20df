-- Transactions of more partitions than one database transaction marks: prepared, continued, finished.
BEGIN;
\ir ../helpers.sql
\ir ../transaction_helpers.sql
SELECT no_plan();
SELECT count(*) FROM pg_temp.create_topic('t', 7) \g /dev/null

CREATE FUNCTION pg_temp.opened(_id text, _partitions int, _topic text DEFAULT 't') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_temp.init(_id);
  EXECUTE pg_temp.begin_of(_id, 0);
  FOR _p IN 0 .. _partitions - 1 LOOP
    PERFORM pg_temp.add(_id, 0, _topic, _p, 1, _id);
  END LOOP;
  RETURN pg_temp.status(_id);
END
$$;
-- Of the transactional id: markers written, and partitions that readers still wait for.
CREATE FUNCTION pg_temp.progress(_id text) RETURNS text LANGUAGE sql AS $$
  SELECT format('%s marked, %s held', count(p.marker_offset), count(*) FILTER (WHERE NOT p.resolved))
    FROM transaction_partitions p JOIN transaction_states t USING (transaction_id)
   WHERE t.transactional_id = _id
$$;

SELECT is(pg_temp.opened('a', 7), 'open 7 7 0', 'a_transaction_of_seven_partitions');
SELECT is(pg_temp.finish('a', 0, true, _batch => 3), 'more prepare_commit', 'its_commit_takes_several_steps');
SELECT is(pg_temp.progress('a'), '3 marked, 7 held', 'no_partition_is_released_before_the_last');
SELECT is(pg_temp.status('a'), 'prepare_commit 7 7 0', 'the_decision_is_there_and_the_counts_are_frozen');
SELECT is(pg_temp.finish('a', 0, false), 'transaction_not_abortable {"state": "prepare_commit", "transactional_id": "a"}',
          'it_cannot_be_aborted_any_more');
SELECT is(pg_temp.add('a', 0, 't', 0, 2, 'x'), 'not open 1', 'nor_added_to');
SELECT is(pg_temp.refusal($$SELECT pg_temp.init('a')$$) ->> 'code', 'init_producer_failed',
          'nor_left_behind_by_a_new_session');
UPDATE transaction_states SET deadline = clock_timestamp();
SELECT is(pg_temp.status('a'), 'prepare_commit 7 7 0', 'its_deadline_does_not_matter_any_more');
SELECT is((SELECT count(*) FROM read('t', 6)), 0::bigint, 'readers_see_nothing_yet');
SELECT is(pg_temp.finish('a', 0, true, _batch => 3), 'more prepare_commit', 'a_second_step');
SELECT is(pg_temp.progress('a'), '6 marked, 7 held', 'marks_three_more');
SELECT is((SELECT (e.state, cardinality(e.log_ids), e.end_offsets)::text
             FROM end_transaction('a', pg_temp.producer('a'), 0, true, NULL, 3) e),
          '(committed,7,"{2,2,2,2,2,2,2}")', 'the_last_step_names_all_partitions');
SELECT is(pg_temp.progress('a'), '7 marked, 0 held', 'and_releases_them');
SELECT is((SELECT count(*) FROM read('t', 6)), 1::bigint, 'now_readers_see_it');
SELECT is(pg_temp.finish('a', 0, true, _batch => 3), 'committed 7 0', 'a_retry_says_the_same');
SELECT is((SELECT count(*) FROM records WHERE is_control), 7::bigint, 'there_is_one_marker_a_partition');

SELECT is(pg_temp.opened('b', 5), 'open 5 5 0', 'another_one');
SELECT is(pg_temp.init('b', 2), 'more', 'a_new_session_aborts_it_step_by_step');
SELECT is(pg_temp.refusal($$SELECT pg_temp.begin_of('b', 1)$$), NULL, 'and_has_no_epoch_yet');
SELECT is((SELECT producer_epoch FROM producers WHERE transactional_id = 'b'), 0::bigint, 'the_old_one_stays_until_then');
SELECT is(pg_temp.status('b', 2), 'more prepare_abort', 'whatever_touches_it_goes_on');
SELECT is(pg_temp.status('b', 2), 'aborted 5 5 0', 'to_the_end');
SELECT is(pg_temp.init('b', 2), pg_temp.producer('b') || ' 1', 'then_the_session_begins');

SELECT is(pg_temp.opened('c', 5), 'open 5 5 0', 'one_that_is_left_half_committed');
SELECT is(pg_temp.finish('c', 0, true, _batch => 2), 'more prepare_commit', 'by_its_node');
SELECT is((SELECT (a.done, a.more)::text FROM abort_overdue_transactions(2) a), '(0,f)',
          'housekeeping_gives_the_node_some_time');
UPDATE transaction_states SET changed_at = changed_at - interval '11 seconds' WHERE transactional_id = 'c';
SELECT is((SELECT (a.done, a.more)::text FROM abort_overdue_transactions(2) a), '(1,t)', 'then_it_goes_on');
UPDATE transaction_states SET changed_at = changed_at - interval '11 seconds' WHERE transactional_id = 'c';
SELECT is((SELECT (a.done, a.more)::text FROM abort_overdue_transactions(2) a), '(1,t)', 'and_on');
SELECT is(pg_temp.status('c'), 'committed 5 5 0', 'until_it_is_committed');
SELECT is((SELECT count(*) FROM transaction_partitions WHERE NOT resolved), 0::bigint, 'and_holds_nobody');

-- What is to share a database transaction with others.
SELECT count(*) FROM pg_temp.create_topic('wide', 257) \g /dev/null
SELECT is(pg_temp.opened('w', 257, 'wide'), 'open 257 257 0', 'a_transaction_of_257_partitions');
SELECT throws_ok($$SELECT lock_changes('{w}', '{w}', '{}')$$, '54000', NULL, 'a_large_one_ends_alone');
SELECT lives_ok($$SELECT lock_changes('{w}', '{}', '{g}')$$, 'but_shares_what_does_not_end_it');
SELECT * FROM finish();
ROLLBACK;
