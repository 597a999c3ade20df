-- The view records: the columns of the contract, and what each shows.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();
SELECT count(*) FROM pg_temp.create_topic('t', 2) \g /dev/null
SELECT log_id AS log FROM topic_definition('t') \gset

CREATE FUNCTION pg_temp.columns_of(_relation text) RETURNS text LANGUAGE sql AS $$
  SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attnum)
    FROM pg_attribute a
   WHERE a.attrelid = to_regclass('pgcursus.' || _relation) AND a.attnum > 0 AND NOT a.attisdropped
$$;
SELECT is(pg_temp.columns_of('records'),
  'topic text, partition integer, offset bigint, key bytea, payload bytea, '
  'timestamp timestamp with time zone, appended_at timestamp with time zone, producer_id text, '
  'producer_epoch bigint, sequence bigint, transaction_state text, is_control boolean, '
  'event_type text, schema_version integer, aggregate_version bigint, metadata text, headers jsonb',
  'the_columns_are_those_of_the_contract');
SELECT is(pg_temp.columns_of('log_record'), pg_temp.columns_of('records'),
          'read_returns_the_same_columns');

SELECT pg_temp.append('t', '{a,b}', _keys => '{k,NULL}', _timestamps => '{1700000000123,NULL}') \g /dev/null
SELECT is((SELECT (r."offset", r.key, r.payload, r."timestamp" = '2023-11-14 22:13:20.123+00',
                   r.producer_id, r.transaction_state, r.is_control)::text
             FROM records r WHERE r.topic = 't' AND r."offset" = 0),
          '(0,"\\x6b","\\x61",t,,,f)', 'a_record_shows_its_own_time_and_no_producer');
SELECT is((SELECT (r.key, r."timestamp" = r.appended_at)::text
             FROM records r WHERE r.topic = 't' AND r."offset" = 1),
          '(,t)', 'a_record_without_a_time_shows_when_it_was_appended');
SELECT pg_temp.append('t', '{x,y,z}', _timestamps => '{9223372036854775807,-9223372036854775808,0}',
                      _schema_versions => '{1,4294967295,NULL}') \g /dev/null
SELECT is((SELECT array_agg((r.schema_version, r."timestamp" = r.appended_at)::text ORDER BY r."offset")
             FROM records r WHERE r.topic = 't' AND r."offset" >= 2),
          ARRAY['(1,t)', '(,t)', '(,f)'], 'odd_numbers_do_not_break_the_view');

SELECT pg_temp.append('t', '{a,b}', 1, 'p', 3, 1) \g /dev/null
SELECT pg_temp.append('t', '{c,d}', 1, 'q', 1, 7, 7, _idempotent => false) \g /dev/null
SELECT pg_temp.append('t', '{e,f}', 1, _first => 5, _sequences => '{5,9}', _producer_ids => '{r,""}',
                      _producer_epochs => '{1,2}') \g /dev/null
SELECT is((SELECT array_agg((r.producer_id, r.producer_epoch, r.sequence)::text ORDER BY r."offset")
             FROM records r WHERE r.topic = 't' AND r.partition = 1),
          ARRAY['(p,3,1)', '(p,3,2)', '(q,1,7)', '(q,1,7)', '(r,1,5)', '(,2,9)'],
          'producers_and_sequences_come_from_the_row_or_from_the_record');

UPDATE record_batches SET offset_deltas = '{0,3}', last_offset = 3
 WHERE log_id = :log AND partition = 0 AND base_offset = 0;
SELECT ok((SELECT bool_and(r."offset" IN (0, 3)) FROM records r
            WHERE r.topic = 't' AND r.partition = 0 AND r.payload IN ('a', 'b')),
          'compacted_offsets_keep_their_holes');
UPDATE record_batches SET kind = 1 WHERE log_id = :log AND partition = 1 AND base_offset = 0;
SELECT is((SELECT count(*) FROM records r WHERE r.topic = 't' AND r.is_control), 2::bigint,
          'markers_are_shown_as_control_records');
UPDATE record_batches SET transaction_id = 77 WHERE log_id = :log AND partition = 1 AND base_offset = 0;
SELECT is((SELECT min(r.transaction_state) FROM records r WHERE r.topic = 't'), 'open',
          'a_transaction_that_is_not_there_counts_as_open');
SELECT is((SELECT count(*) FROM records r WHERE r.topic = 'nope'), 0::bigint,
          'an_unknown_topic_has_no_records');
SELECT * FROM finish();
ROLLBACK;
