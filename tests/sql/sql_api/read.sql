-- read(): range, isolation, errors, and that it finds its place by the index.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();
SELECT count(*) FROM pg_temp.create_topic('t', 3) \g /dev/null
SELECT log_id AS log FROM topic_definition('t') \gset
SELECT pg_temp.append('t', '{a,b}'), pg_temp.append('t', '{c,d,e}') \g /dev/null
SELECT pg_temp.append('t', '{f}') \g /dev/null

CREATE FUNCTION pg_temp.got(_from bigint DEFAULT 0, _max int DEFAULT 1000,
                            _isolation text DEFAULT 'read_committed', _partition int DEFAULT 0)
RETURNS text LANGUAGE sql AS $$
  SELECT string_agg(r."offset" || ':' || convert_from(r.payload, 'UTF8'), ' ')
    FROM pgcursus.read('t', _partition, _from, _max, _isolation) r
$$;
SELECT is(pg_temp.got(), '0:a 1:b 2:c 3:d 4:e 5:f', 'everything_in_offset_order');
SELECT is(pg_temp.got(3), '3:d 4:e 5:f', 'from_an_offset_inside_a_batch');
SELECT is(pg_temp.got(1, 3), '1:b 2:c 3:d', 'no_more_than_max_records');
SELECT is(pg_temp.got(0, 0), NULL, 'zero_records_are_none');
SELECT is(pg_temp.got(6), NULL, 'nothing_at_the_end');
SELECT is(pg_temp.got(999), NULL, 'nothing_beyond_the_end');
SELECT is(pg_temp.got(_partition => 1), NULL, 'nothing_in_an_empty_partition');
SELECT is((SELECT count(*) FROM read('t', 0)), 6::bigint, 'offset_and_limit_have_defaults');
SELECT is((SELECT max(r.topic) FROM read(topic => 't', partition => 0, from_offset => 5) r), 't',
          'arguments_may_be_named');

SELECT throws_ok($$SELECT * FROM read('nope', 0)$$, '42704', 'topic ''nope'' does not exist',
                 'an_unknown_topic_is_an_error');
SELECT throws_ok($$SELECT * FROM read(NULL, 0)$$, '42704', 'topic NULL does not exist',
                 'no_topic_is_an_error');
SELECT throws_ok($$SELECT * FROM read('t', 3)$$, '22023',
                 'topic t has no partition 3: it has 3, counted from 0',
                 'an_unknown_partition_is_an_error');
SELECT throws_ok($$SELECT * FROM read('t', -1)$$, '22023', NULL, 'a_negative_partition_is_an_error');
SELECT throws_ok($$SELECT * FROM read('t', NULL)$$, '22023', NULL, 'no_partition_is_an_error');
SELECT throws_ok($$SELECT * FROM read('t', 0, 0, 10, 'dirty')$$, '22023',
                 'unknown isolation ''dirty''', 'an_unknown_isolation_is_an_error');
SELECT throws_ok($$SELECT * FROM read('t', 0, -5)$$, '22023', NULL, 'a_negative_offset_is_an_error');
SELECT lives_ok($$SELECT * FROM read('t', 0, 0, 10, 'READ_UNCOMMITTED')$$,
                'isolation_is_named_in_any_case');

-- Partition 2: plain 0, open transaction 1, plain 2, marker 3.
SELECT pg_temp.append('t', ARRAY[p], 2) FROM unnest('{p,x,q,m}'::text[]) p \g /dev/null
INSERT INTO transaction_states (transactional_id, producer_id, producer_epoch, state, deadline)
VALUES ('x', 'p', 1, 'open', 'infinity') RETURNING transaction_id AS xid \gset
INSERT INTO transaction_partitions VALUES (:xid, :log, 2, 1, NULL, false);
UPDATE record_batches SET transaction_id = :xid
 WHERE log_id = :log AND partition = 2 AND base_offset = 1;
SELECT is(pg_temp.got(_partition => 2), '0:p', 'read_committed_stops_at_an_open_transaction');
SELECT is(pg_temp.got(_from => 2, _partition => 2), NULL, 'also_when_it_starts_behind_it');
SELECT is(pg_temp.got(_isolation => 'read_uncommitted', _partition => 2), '0:p 1:x 2:q 3:m',
          'read_uncommitted_shows_everything');
SELECT is((SELECT r.transaction_state FROM read('t', 2, 1, 1, 'read_uncommitted') r), 'open',
          'with_the_transaction_s_state');
UPDATE record_batches SET transaction_id = :xid, kind = 1
 WHERE log_id = :log AND partition = 2 AND base_offset = 3;
UPDATE transaction_partitions SET resolved = true;
UPDATE transaction_states SET state = 'committed';
SELECT is(pg_temp.got(_partition => 2), '0:p 1:x 2:q', 'a_commit_shows_the_records_but_no_marker');
UPDATE transaction_states SET state = 'aborted';
SELECT is(pg_temp.got(_partition => 2), '0:p 2:q', 'an_abort_hides_them');
SELECT is(pg_temp.got(1, 1, _partition => 2), '2:q', 'hidden_records_do_not_count');

-- Cost: 1,000 batches of 10 records, with the planner knowing nothing and then everything.
SELECT pg_temp.append('t', array_fill(repeat('y', 100), ARRAY[10]), 1) FROM generate_series(1, 1000)
\g /dev/null
SELECT cmp_ok(pg_temp.buffers($$SELECT * FROM read('t', 1, 9995)$$), '<', 60,
              'reading_at_the_end_touches_few_buffers');
SELECT cmp_ok(pg_temp.buffers($$SELECT * FROM read('t', 1, 0, 10)$$), '<', 60,
              'reading_at_the_start_touches_few_buffers');
SELECT cmp_ok(pg_temp.buffers($$SELECT * FROM read('t', 1, 5000, 10)$$), '<', 60,
              'reading_in_the_middle_touches_few_buffers');
ANALYZE record_batches;
SELECT cmp_ok(pg_temp.buffers($$SELECT * FROM read('t', 1, 5000, 10)$$), '<', 60,
              'statistics_do_not_change_that');
SELECT is((SELECT count(*) FROM read('t', 1, 5000)), 1000::bigint, 'the_default_limit_is_1000');
SELECT * FROM finish();
ROLLBACK;
