-- Events in transactions: reserved streams, versions that count after the commit only.
BEGIN;
\ir ../helpers.sql
\ir ../transaction_helpers.sql
SELECT no_plan();
SELECT count(*) FROM pg_temp.create_topic('e', 2, _event_sourcing => true) \g /dev/null
SELECT log_id AS log FROM topic_definition('e') \gset

CREATE FUNCTION pg_temp.event(_id text, _epoch bigint, _key text, _version bigint, _number bigint,
                              _partition int DEFAULT 0)
RETURNS text LANGUAGE sql AS $$
  SELECT CASE a.status WHEN 16 THEN 'reserved'
                       WHEN 17 THEN format('lives in %s', a.current_value)
                       WHEN 18 THEN format('conflict, at %s', a.current_value)
                       WHEN 14 THEN 'other content'
                       ELSE pg_temp.outcome(a) END
    FROM append_transactional(
           (SELECT log_id FROM topic_definition('e')), NULL, _partition, 1, _id, pg_temp.producer(_id),
           _epoch, -1, _number, ARRAY[convert_to(_key || _version, 'UTF8')], ARRAY[convert_to(_key, 'UTF8')],
           '{kind}', '{1}', ARRAY[_version], NULL) a
$$;
-- APPEND_STREAM.
CREATE FUNCTION pg_temp.plain(_key text, _version bigint) RETURNS text LANGUAGE sql AS $$
  SELECT CASE a.event_statuses[1]
           WHEN 9 THEN format('conflict, at %s', a.event_values[1])
           WHEN 14 THEN format('reserved by %s', transactional_id_of(a.event_values[1]))
           ELSE format('appended %s', a.base_offset) END
    FROM append_events((SELECT log_id FROM topic_definition('e')), NULL, 0, 2, false, 1,
                       ARRAY[convert_to(_key, 'UTF8')], ARRAY[_version], ARRAY['x'::bytea], NULL, NULL, NULL,
                       NULL, NULL, NULL, NULL, NULL) a
$$;
CREATE FUNCTION pg_temp.version(_key text) RETURNS bigint LANGUAGE sql AS $$
  SELECT stream_version((SELECT log_id FROM topic_definition('e')), convert_to(_key, 'UTF8'))
$$;

SELECT is(pg_temp.plain('k', 1), 'appended 0', 'a_stream_has_one_event');
SELECT pg_temp.init('a'), pg_temp.init('b') \g /dev/null
SELECT pg_temp.refusal(pg_temp.begin_of('a', 0)), pg_temp.refusal(pg_temp.begin_of('b', 0)) \g /dev/null
SELECT is(pg_temp.event('a', 0, 'k', 3, 1), 'conflict, at 1', 'the_version_must_be_the_next');
SELECT is(pg_temp.event('a', 0, 'k', 2, 1), 'appended 1-1', 'an_event_is_appended');
SELECT is(pg_temp.event('a', 0, 'k', 2, 1), 'duplicate of 1', 'once');
SELECT is(pg_temp.event('a', 0, 'k', 3, 1), 'other content', 'the_version_is_content');
SELECT is(pg_temp.event('a', 0, 'k', 2, 2), 'reserved', 'a_second_one_in_the_transaction_is_refused');
SELECT is(pg_temp.event('b', 0, 'k', 2, 1), 'reserved', 'and_one_of_another_transaction');
SELECT is(pg_temp.plain('k', 2), 'reserved by a', 'and_one_without');
SELECT is(pg_temp.plain('k', 9), 'reserved by a', 'whatever_its_version');
SELECT is(pg_temp.plain('other', 1), 'appended 2', 'other_streams_are_free');
SELECT is(pg_temp.event('a', 0, 'new', 1, 3), 'appended 3-3', 'a_stream_may_begin_in_a_transaction');
SELECT is(pg_temp.version('k'), 1::bigint, 'before_the_commit_the_version_stays');
SELECT is(pg_temp.finish('a', 0, true), 'committed 2 0', 'with_the_commit');
SELECT is((pg_temp.version('k'), pg_temp.version('new'))::text, '(2,1)', 'it_moves');
SELECT is((SELECT string_agg(format('%s:%s', v.version, v.record_offset), ' ' ORDER BY v.version)
             FROM stream_versions v WHERE v.log_id = :log AND v.stream_key = 'k'), '1:0 2:1',
          'and_leads_to_the_record');
SELECT is(pg_temp.plain('k', 3), 'appended 5', 'and_the_stream_is_free');

SELECT is(pg_temp.event('b', 0, 'k', 4, 1), 'appended 6-6', 'another_transaction');
SELECT is(pg_temp.event('b', 0, 'new', 2, 2, 1), 'lives in 0', 'a_stream_keeps_its_partition');
SELECT is(pg_temp.finish('b', 0, false), 'aborted 1 0', 'is_aborted');
SELECT is(pg_temp.version('k'), 3::bigint, 'and_leaves_the_version');
SELECT is(pg_temp.plain('k', 4), 'appended 8', 'which_is_taken_again');
SELECT is((SELECT count(*) FROM stream_reservations), 0::bigint, 'nothing_is_reserved_any_more');

-- A large one: reserved until all of it is done.
SELECT pg_temp.init('b') \g /dev/null
SELECT pg_temp.refusal(pg_temp.begin_of('b', 1)) \g /dev/null
SELECT is(pg_temp.event('b', 1, 'p', 1, 1, 0), 'appended 9-9', 'one_partition');
SELECT is(pg_temp.event('b', 1, 'q', 1, 2, 1), 'appended 0-0', 'another_partition');
SELECT is(pg_temp.finish('b', 1, true, _batch => 1), 'more prepare_commit', 'a_first_step');
SELECT is(pg_temp.plain('p', 1), 'reserved by b', 'keeps_the_streams');
SELECT is(pg_temp.finish('b', 1, true, _batch => 1), 'committed 2 0', 'the_last');
SELECT is(pg_temp.version('p'), 1::bigint, 'gives_them_their_versions');
SELECT * FROM finish();
ROLLBACK;
