-- What finished transactions leave behind, and what becomes of transactional ids that rest.
BEGIN;
\ir ../helpers.sql
\ir ../transaction_helpers.sql
SELECT no_plan();
SELECT count(*) FROM pg_temp.create_topic('t', 2) \g /dev/null

CREATE FUNCTION pg_temp.run(_id text, _commit boolean) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  _epoch bigint := split_part(pg_temp.init(_id), ' ', 2)::bigint;
BEGIN
  EXECUTE pg_temp.begin_of(_id, _epoch);
  PERFORM pg_temp.add(_id, _epoch, 't', 0, 1, 'x'), pg_temp.add(_id, _epoch, 't', 1, 1, 'y');
  RETURN CASE WHEN _commit IS NULL THEN 'left open' ELSE pg_temp.finish(_id, _epoch, _commit) END;
END
$$;
CREATE FUNCTION pg_temp.left_over() RETURNS text LANGUAGE sql AS $$
  SELECT format('%s transactions, %s partitions, %s requests, %s offsets',
                (SELECT count(*) FROM transaction_states), (SELECT count(*) FROM transaction_partitions),
                (SELECT count(*) FROM transaction_requests), (SELECT count(*) FROM transaction_offsets))
$$;
CREATE FUNCTION pg_temp.older() RETURNS void LANGUAGE sql AS $$
  UPDATE transaction_states SET begun_at = begun_at - interval '2 minutes'
$$;

SELECT is(pg_temp.run('a', true), 'committed 2 0', 'one_is_committed');
SELECT is(pg_temp.run('a', false), 'aborted 2 0', 'one_is_aborted');
SELECT is(pg_temp.run('b', NULL), 'left open', 'one_is_open');
SELECT is(pg_temp.run('c', true), 'committed 2 0', 'and_one_is_committed_after_it');
INSERT INTO transaction_offsets SELECT transaction_id, 1, 0, 5 FROM transaction_states;
SELECT is((SELECT (c.done, c.more)::text FROM clean_transactions() c), '(0,f)', 'what_is_new_stays');
SELECT pg_temp.older() \g /dev/null
SELECT is((SELECT (c.done, c.more)::text FROM clean_transactions() c), '(6,f)',
          'what_only_an_unfinished_one_needs_goes');
SELECT is(pg_temp.left_over(), '4 transactions, 8 partitions, 4 requests, 2 offsets',
          'up_to_the_first_that_is_open');
SELECT is(pg_temp.status('a'), 'aborted 2 2 0', 'the_counts_stay');
SELECT is((SELECT count(*) FROM read('t', 0)), 1::bigint, 'and_readers_know_what_was_committed');
SELECT is(pg_temp.finish('b', 0, false), 'aborted 2 1', 'when_that_one_has_ended');
SELECT is((SELECT (c.done, c.more)::text FROM clean_transactions() c), '(6,f)', 'the_rest_goes');
SELECT is(pg_temp.left_over(), '4 transactions, 8 partitions, 0 requests, 0 offsets', 'but_no_decision');

-- Retention has removed the records of the first two: markers at 1 and 3 of each partition.
DELETE FROM record_batches WHERE base_offset < 4;
UPDATE partition_states SET earliest_offset = 4;
SELECT is((SELECT (c.done, c.more)::text FROM clean_transactions() c), '(1,f)',
          'a_transaction_whose_records_are_gone_goes');
SELECT is((SELECT string_agg(transactional_id || producer_epoch, ' ' ORDER BY 1) FROM
             (SELECT transactional_id, producer_epoch FROM transaction_states ORDER BY 1, 2) s), 'a1 b0 c0',
          'unless_it_is_the_latest_of_its_id');
UPDATE partition_states SET earliest_offset = 5 WHERE partition = 0;
UPDATE producers SET expired = true;
SELECT is((SELECT (c.done, c.more)::text FROM clean_transactions() c), '(1,f)',
          'or_some_partition_still_has_records');

-- Resting ids.
UPDATE producers SET expired = false;
SELECT is((SELECT (e.done, e.more)::text FROM expire_transactional_ids(60000) e), '(0,f)', 'ids_in_use_are_known');
UPDATE producers SET changed_at = changed_at - interval '1 hour' WHERE transactional_id <> 'c';
SELECT is((SELECT (e.done, e.more)::text FROM expire_transactional_ids(60000) e), '(1,f)',
          'one_that_rests_and_has_no_transaction_is_forgotten');
UPDATE transaction_states SET changed_at = changed_at - interval '1 hour';
SELECT is((SELECT (e.done, e.more)::text FROM expire_transactional_ids(60000) e), '(1,f)',
          'and_one_whose_transaction_rests_too');
SELECT is(pg_temp.refusal($$SELECT transaction_status('b', 200)$$) ->> 'code', 'transaction_not_found',
          'it_is_not_found');
SELECT is(pg_temp.add('b', 0, 't', 0, 2, 'x'), 'not found', 'and_cannot_publish');
SELECT is(pg_temp.refusal($$SELECT pg_temp.finish('b', 0, true)$$) ->> 'code', 'transaction_not_found', 'nor_end');
SELECT is(pg_temp.init('b'), pg_temp.producer('b') || ' 1', 'its_epoch_goes_on_counting');
SELECT is(pg_temp.status('c'), 'committed 2 2 0', 'others_stay');
SELECT is(pg_temp.run('d', NULL), 'left open', 'an_open_transaction');
UPDATE producers SET changed_at = changed_at - interval '1 hour';
UPDATE transaction_states SET changed_at = changed_at - interval '1 hour';
SELECT ok((SELECT e.done FROM expire_transactional_ids(60000) e) > 0, 'whatever_its_age');
SELECT is(pg_temp.status('d'), 'open 2 2 0', 'keeps_its_id_known');
SELECT * FROM finish();
ROLLBACK;
