-- read_stream_page: pages, snapshots, open transactions, what retention has left, and what it touches.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();
SELECT count(*) FROM pg_temp.create_topic('t', 1, _event_sourcing => true) \g /dev/null
CREATE FUNCTION pg_temp.page(_key text, _from bigint DEFAULT 1, _to bigint DEFAULT NULL,
  _snapshot boolean DEFAULT true, _events bigint DEFAULT 100, _bytes bigint DEFAULT 1000000,
  _overhead int DEFAULT 256) RETURNS text
LANGUAGE sql AS $$
  SELECT format('head %s%s, %s to %s: %s%s', p.head_version,
                CASE WHEN p.snapshot_version IS NOT NULL
                     THEN format(', snapshot %s %s', p.snapshot_version,
                                 convert_from(p.snapshot_payload, 'UTF8')) END,
                p.first_version, p.last_version,
                coalesce((SELECT string_agg(format('%s:%s@%s', v, convert_from(d, 'UTF8'), o), ' ')
                            FROM unnest(expand_run(p.versions, p.event_count), p.payloads,
                                        expand_run(p.offsets, p.event_count)) e(v, d, o)),
                         p.event_count::text),
                CASE WHEN p.next_bytes IS NOT NULL
                     THEN format(', next %s bytes at %s', p.next_bytes, p.next_offset) END)
    FROM read_stream_page((SELECT log_id FROM topic_definition('t')), convert_to(_key, 'UTF8'), _from, _to,
                          _snapshot, _events, _bytes, _overhead) p
$$;
SELECT pg_temp.append_events('t', ARRAY['a', 'b'], ARRAY[n, n]) FROM generate_series(1, 5) n \g /dev/null

SELECT is(pg_temp.page('nobody'), 'head 0, 1 to 0: 0', 'an_unknown_key_has_no_events');
SELECT is(pg_temp.page('a'), 'head 5, 1 to 5: 1:a1@0 2:a2@2 3:a3@4 4:a4@6 5:a5@8',
          'a_stream_is_read_in_order');
SELECT is(pg_temp.page('a', 4), 'head 5, 4 to 5: 4:a4@6 5:a5@8', 'from_a_version');
SELECT is(pg_temp.page('a', 6), 'head 5, 6 to 5: 0', 'beyond_the_end_is_nothing');
SELECT is(pg_temp.page('a', 2, 3), 'head 5, 2 to 3: 2:a2@2 3:a3@4', 'up_to_a_version');
SELECT is(pg_temp.page('a', 2, _events => 2), 'head 5, 2 to 3: 2:a2@2 3:a3@4', 'at_most_so_many_events');
SELECT is(pg_temp.page('a', _bytes => 3 * 259), 'head 5, 1 to 3: 1:a1@0 2:a2@2 3:a3@4',
          'at_most_so_many_bytes');
SELECT is(pg_temp.page('a', _bytes => 3 * 259 - 1), 'head 5, 1 to 2: 1:a1@0 2:a2@2',
          'the_last_byte_counts');
SELECT is(pg_temp.page('a', 2, _bytes => 258), 'head 5, 2 to 1: 0, next 259 bytes at 2',
          'an_event_that_is_too_large_is_told');
SELECT is(pg_temp.page('a', 5, _bytes => 67, _overhead => 64), 'head 5, 5 to 5: 5:a5@8',
          'the_overhead_is_the_callers');

SELECT save_snapshot((SELECT log_id FROM topic_definition('t')), 'a', 3, 'snap') \g /dev/null
SELECT is(pg_temp.page('a'), 'head 5, snapshot 3 snap, 4 to 5: 4:a4@6 5:a5@8',
          'a_snapshot_comes_first');
SELECT is(pg_temp.page('a', 3), 'head 5, snapshot 3 snap, 4 to 5: 4:a4@6 5:a5@8',
          'a_snapshot_of_the_version_asked_for_is_used');
SELECT is(pg_temp.page('a', 4), 'head 5, 4 to 5: 4:a4@6 5:a5@8', 'an_older_one_is_not');
SELECT is(pg_temp.page('a', _snapshot => false), 'head 5, 1 to 5: 1:a1@0 2:a2@2 3:a3@4 4:a4@6 5:a5@8',
          'nor_one_that_is_not_wanted');
SELECT is(pg_temp.page('b'), 'head 5, 1 to 5: 1:b1@1 2:b2@3 3:b3@5 4:b4@7 5:b5@9',
          'nor_that_of_another_stream');

INSERT INTO transaction_states (transactional_id, producer_id, producer_epoch, state, deadline)
VALUES ('x', 'x', 0, 'open', now() + interval '1 hour');
INSERT INTO transaction_partitions (transaction_id, log_id, partition, first_offset)
SELECT t.transaction_id, d.log_id, 0, 0 FROM transaction_states t, topic_definition('t') d;
SELECT is(pg_temp.page('a', 4), 'head 5, 4 to 5: 4:a4@6 5:a5@8', 'an_open_transaction_does_not_hide_events');

-- Events that follow each other directly, then one after a record that is not of the stream.
SELECT pg_temp.append_events('t', '{c}', ARRAY[n]) FROM generate_series(1, 3) n \g /dev/null
SELECT pg_temp.append_events('t', '{c,d}', '{4,1}') \g /dev/null
CREATE FUNCTION pg_temp.arrays(_key text, _from bigint, _to bigint) RETURNS text LANGUAGE sql AS $$
  SELECT format('versions %s, offsets %s', p.versions, p.offsets)
    FROM read_stream_page((SELECT log_id FROM topic_definition('t')), convert_to(_key, 'UTF8'), _from, _to,
                          false, 100, 1000000, 256) p
$$;
SELECT is(pg_temp.page('c'), 'head 4, 1 to 4: 1:c1@10 2:c2@11 3:c3@12 4:c4@13',
          'a_stream_that_is_alone_is_read_without_its_neighbours');
SELECT is(pg_temp.page('c', 2, 3), 'head 4, 2 to 3: 2:c2@11 3:c3@12', 'and_a_part_of_it');
SELECT is(pg_temp.arrays('c', 2, 4), 'versions {2}, offsets {11}', 'of_what_follows_directly_the_first_is_told');
SELECT is(pg_temp.page('d'), 'head 1, 1 to 1: 1:d1@14', 'an_event_may_be_the_second_of_its_row');
SELECT pg_temp.append('t', ARRAY['x']) \g /dev/null
SELECT pg_temp.append_events('t', '{d,c}', '{2,5}') \g /dev/null
SELECT pg_temp.append_events('t', '{c}', '{6}') \g /dev/null
SELECT is(pg_temp.page('c'), 'head 6, 1 to 6: 1:c1@10 2:c2@11 3:c3@12 4:c4@13 5:c5@17 6:c6@18',
          'what_lies_between_is_left_out');
SELECT is(pg_temp.page('c', 5), 'head 6, 5 to 6: 5:c5@17 6:c6@18',
          'events_in_a_row_may_begin_inside_one');
-- An event of a transaction has a producer, the others have none.
UPDATE record_batches SET producer_id = 'p', producer_epoch = 7, first_sequence = 3, last_sequence = 3
 WHERE log_id = (SELECT log_id FROM topic_definition('t')) AND base_offset = 11;
SELECT is((SELECT p.producer_ids::text || p.sequences::text || p.payloads::text
             FROM read_stream_page((SELECT log_id FROM topic_definition('t')), 'c', 1, 3, false, 9, 9999, 256) p),
          '{NULL,p,NULL}{NULL,3,NULL}{"\\x6331","\\x6332","\\x6333"}', 'producers_stay_with_their_events');

-- An event far from the next: one by one instead of side by side.
SELECT pg_temp.append('t', ARRAY['x']) FROM generate_series(1, 100) \g /dev/null
SELECT pg_temp.append_events('t', '{b}', '{6}') \g /dev/null
SELECT is(pg_temp.page('b', 5), 'head 6, 5 to 6: 5:b5@9 6:b6@119', 'events_may_lie_far_apart');

UPDATE partition_states SET earliest_offset = 4
 WHERE log_id = (SELECT log_id FROM topic_definition('t'));
SELECT is(pg_temp.page('b'), 'head 6, 1 to 6: 3:b3@5 4:b4@7 5:b5@9 6:b6@119',
          'what_lies_before_the_earliest_offset_is_gone');
DELETE FROM record_batches WHERE log_id = (SELECT log_id FROM topic_definition('t')) AND base_offset < 8;
SELECT is(pg_temp.page('b'), 'head 6, 1 to 6: 5:b5@9 6:b6@119', 'what_is_not_there_is_left_out');
SELECT is(stream_version((SELECT log_id FROM topic_definition('t')), 'b'), 6::bigint,
          'the_version_outlives_its_events');
SELECT is(pg_temp.refusal($$SELECT * FROM read_stream_page(999, 'a', 1, NULL, true, 1, 1, 1)$$),
          '{"code": "stale_log", "log": "999"}', 'a_log_that_is_not_current_is_stale');

-- Several rows, and what is touched.
SELECT pg_temp.append_events('t', '{long}', ARRAY[n]) FROM generate_series(1, 700) n \g /dev/null
SELECT pg_temp.append('t', ARRAY['x']) \g /dev/null
SELECT pg_temp.append_events('t', '{long}', ARRAY[n]) FROM generate_series(701, 2000) n \g /dev/null
SELECT is((SELECT array_agg(ROW(p.versions[1], cardinality(p.versions), p.offsets[1], cardinality(p.offsets),
                                p.event_count, p.first_version, p.last_version, p.head_version)::text)
             FROM read_stream_page((SELECT log_id FROM topic_definition('t')), 'long', 1, 1500, true, 10000,
                                   9999999, 256) p),
          '{"(1,1,120,1,512,1,1500,2000)","(513,1,632,512,512,1,1500,2000)","(1025,1,1145,1,476,1,1500,2000)"}',
          'a_long_page_comes_in_rows');
SELECT is((SELECT string_agg(convert_from(d, 'UTF8'), ' ' ORDER BY v)
             FROM read_stream_page((SELECT log_id FROM topic_definition('t')), 'long', 2, NULL, true, 10000,
                                   9999999, 256) p,
                  unnest(expand_run(p.versions, p.event_count), p.payloads) e (v, d)),
          (SELECT string_agg('long' || n, ' ' ORDER BY n) FROM generate_series(2, 2000) n),
          'they_hold_every_event_once');
SELECT save_snapshot((SELECT log_id FROM topic_definition('t')), 'long', 1998, 's') \g /dev/null
CREATE FUNCTION pg_temp.cost(_from bigint) RETURNS int LANGUAGE sql AS $$
  SELECT pg_temp.buffers(format('SELECT * FROM read_stream_page(%s, ''long'', %s, NULL, true, 10000, 9999999, 256)',
                                (SELECT log_id FROM topic_definition('t')), _from))
$$;
SELECT pg_temp.cost(1) AS with_snapshot \gset
DELETE FROM stream_snapshots;
SELECT cmp_ok(pg_temp.cost(1) - :with_snapshot, '>', 60, 'with_a_snapshot_only_what_follows_is_touched');
SELECT cmp_ok(pg_temp.cost(1) - pg_temp.cost(1999), '>', 60, 'from_a_version_on_only_what_follows_is');
SELECT * FROM finish();
ROLLBACK;
