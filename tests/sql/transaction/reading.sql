-- What transactions cost readers, and what a fetch of committed records returns.
\ir ../helpers.sql
\ir ../transaction_helpers.sql
SET enable_seqscan = off;  -- as the nodes have it
SELECT no_plan();
SELECT count(*) FROM pg_temp.create_topic('t', 2) \g /dev/null
SELECT log_id AS log FROM topic_definition('t') \gset

CREATE FUNCTION pg_temp.fetched(_from bigint, _known bigint, _committed boolean) RETURNS text LANGUAGE sql AS $$
  SELECT format('stable %s:', min(f.stable_offset))
         || coalesce(string_agg(format(' %s%s', f.base_offset, ' ' || f.transaction_state || ' ' || f.transactional_id), ''
                                ORDER BY f.base_offset)
                       FILTER (WHERE f.base_offset IS NOT NULL), '')
    FROM fetch_batches((SELECT log_id FROM topic_definition('t')), 0, _from, 100, 1000000, _known, _committed) f
$$;
SELECT pg_temp.init('a'), pg_temp.init('b') \g /dev/null
SELECT pg_temp.refusal(pg_temp.begin_of('a', 0)), pg_temp.refusal(pg_temp.begin_of('b', 0)) \g /dev/null
SELECT pg_temp.add('a', 0, 't', 0, 1, 'x'), pg_temp.append('t', '{y}'), pg_temp.add('b', 0, 't', 0, 1, 'z') \g /dev/null
SELECT is(pg_temp.fetched(0, 0, true), 'stable 0:', 'nothing_undecided_is_fetched');
SELECT is(pg_temp.fetched(0, 0, false), 'stable 0: 0 open a 1 2 open b', 'unless_it_is_wanted');
SELECT is(pg_temp.finish('b', 0, false), 'aborted 1 0', 'the_second_ends_first');
SELECT is(pg_temp.fetched(0, 0, true), 'stable 0:', 'the_first_still_holds_everybody');
SELECT is(pg_temp.finish('a', 0, true), 'committed 1 0', 'until_it_ends');
SELECT is(pg_temp.fetched(0, 0, true), 'stable 5: 0 committed a 1 2 aborted b 3 aborted b 4 committed a',
          'every_decision_comes_with_its_batch');
SELECT is(pg_temp.fetched(2, 5, true), 'stable 5: 2 aborted b 3 aborted b 4 committed a', 'a_known_end_changes_nothing');

-- 10,000 finished transactions in the past of a partition, and an older snapshot that keeps their dead
-- index entries alive; and an open one in the other partition.
CREATE FUNCTION pg_temp.finished(_count int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO transaction_states (transactional_id, producer_id, producer_epoch, state, deadline)
  SELECT 'old', 'p', n, 'committed', now() FROM generate_series(1, _count) n;
  INSERT INTO transaction_partitions (transaction_id, log_id, partition, first_offset)
  SELECT t.transaction_id, (SELECT log_id FROM topic_definition('t')), 0, 5 + 2 * (t.producer_epoch - 1)
    FROM transaction_states t WHERE t.transactional_id = 'old';
  INSERT INTO record_batches (log_id, base_offset, last_offset, appended_at, partition, record_count, byte_count,
                              kind, idempotent, transaction_id, payloads)
  SELECT p.log_id, p.first_offset + k, p.first_offset + k, now(), 0, 1, 1, k, false, p.transaction_id, '{x}'
    FROM transaction_partitions p JOIN transaction_states t USING (transaction_id), generate_series(0, 1) k
   WHERE t.transactional_id = 'old';
  UPDATE transaction_partitions p SET resolved = true, marker_offset = p.first_offset + 1
    FROM transaction_states t WHERE t.transaction_id = p.transaction_id AND t.transactional_id = 'old';
END
$$;
SELECT pg_temp.refusal(pg_temp.begin_of('b', 1)) \g /dev/null
SELECT pg_temp.init('b') \g /dev/null
SELECT pg_temp.refusal(pg_temp.begin_of('b', 1)), pg_temp.add('b', 1, 't', 1, 1, 'x') \g /dev/null
VACUUM ANALYZE transaction_partitions, transaction_states, record_batches;
CREATE FUNCTION pg_temp.cost(_from bigint, _known bigint) RETURNS int LANGUAGE sql AS $$
  SELECT pg_temp.buffers(format('SELECT * FROM pgcursus.fetch_batches(%s, 0, %s, 1, 1000, %s, true)',
                                (SELECT log_id FROM topic_definition('t')), _from, _known))
$$;
SELECT pg_temp.cost(4, 0) AS before \gset
SELECT pg_temp.finished(10000) \g /dev/null
SELECT is((SELECT stable_offset FROM partitions WHERE topic = 't' AND partition = 0), 20005::bigint,
          'ten_thousand_transactions_are_finished');
SELECT cmp_ok(pg_temp.cost(20004, 20005), '<=', :before + 10, 'they_cost_a_reader_at_the_end_nothing_even_before_a_vacuum');
SELECT cmp_ok(pg_temp.cost(10000, 20005), '<=', :before + 10, 'nor_one_in_the_middle');
VACUUM transaction_partitions;
SELECT cmp_ok(pg_temp.cost(20004, 0), '<=', :before + 10, 'nor_after_one_a_node_that_knows_nothing_yet');
SELECT * FROM finish();
