-- append_stream, read_stream and the view streams, for SQL users.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();
SELECT count(*) FROM pg_temp.create_topic('t', 4, _event_sourcing => true) \g /dev/null
SELECT count(*) FROM pg_temp.create_topic('plain') \g /dev/null
SELECT count(*) FROM pg_temp.create_topic('closed', _event_sourcing => true, _auth_policy => 'deny_write') \g /dev/null
SELECT count(*) FROM pg_temp.create_topic('r', 1, _event_sourcing => true, _aggregate_replay => true,
                                          _idempotent => true) \g /dev/null

SELECT is(append_stream('t', 'order-123', 1, 'Created', 'one', metadata => 'm', schema_version => 2), 0::bigint,
          'an_event_is_appended');
SELECT is(append_stream('t', 'order-123', 2, NULL, 'two'), 1::bigint, 'and_the_next');
SELECT is((SELECT e::text FROM read_stream('t', 'order-123') e WHERE e.version = 1),
          (SELECT (1::bigint, 'Created', 2, 'one'::bytea, 'm', r.appended_at, 2, 0::bigint, NULL)::text
             FROM records r WHERE r.topic = 't' AND r."offset" = 0),
          'read_stream_shows_all_of_an_event');
SELECT is((SELECT array_agg(e.version) FROM read_stream('t', 'order-123', 2) e), '{2}', 'from_a_version_on');
SELECT is((SELECT count(*) FROM read_stream('t', 'nobody')), 0::bigint, 'an_unknown_key_has_none');
SELECT throws_ok($$SELECT * FROM read_stream('nowhere', 'k')$$, '42704', NULL, 'an_unknown_topic_is_an_error');

SELECT throws_matching($$SELECT append_stream('t', 'order-123', 2, NULL, 'x')$$,
                       'version_conflict: the stream is at version 2', 'a_conflict_is_an_error');
SELECT throws_ok($$SELECT append_stream('t', 'order-123', 9, NULL, 'x')$$, '40001', NULL,
                 'a_conflict_can_be_tried_again');
SELECT throws_ok($$SELECT append_stream('plain', 'k', 1, NULL, 'x')$$, '55000', NULL,
                 'a_topic_without_streams_takes_no_events');
SELECT throws_ok($$SELECT append_stream('closed', 'k', 1, NULL, 'x')$$, '42501', NULL, 'a_denied_write_is_denied');
SELECT throws_ok($$SELECT append_stream('nowhere', 'k', 1, NULL, 'x')$$, '42704', NULL, 'a_topic_must_be_there');
SELECT throws_ok($$SELECT append_stream('t', '', 1, NULL, 'x')$$, '22023', NULL, 'a_key_must_not_be_empty');
SELECT throws_ok($$SELECT append_stream('t', NULL, 1, NULL, 'x')$$, '22023', NULL, 'nor_be_null');
SELECT throws_ok($$SELECT append_stream('t', 'k', 1, NULL, '')$$, '22023', NULL, 'a_payload_must_not_be_empty');
SELECT throws_ok($$SELECT append_stream('t', 'k', NULL, NULL, 'x')$$, '22023', NULL, 'a_version_must_be_given');
SELECT throws_ok($$SELECT append_stream('t', 'k', 1, NULL, 'x', schema_version => -1)$$, '22023', NULL,
                 'a_schema_version_is_not_negative');
SELECT throws_ok($$SELECT append_stream('t', convert_to(repeat('k', 65536), 'UTF8'), 1, NULL, 'x')$$, '22023',
                 NULL, 'a_key_has_at_most_65535_bytes');

SELECT is(append_stream('r', 'm', 1, 'Started', 'one', event_id => 'e1', producer_id => 'p', sequence => 1),
          0::bigint, 'an_event_with_an_identity_is_appended');
SELECT is(append_stream('r', 'm', 1, 'Started', 'one', event_id => 'e1', producer_id => 'p', sequence => 1),
          0::bigint, 'an_exact_repeat_gives_the_original_offset');
SELECT throws_ok($$SELECT append_stream('r', 'm', 2, NULL, 'x')$$, '22023', NULL, 'an_identity_must_be_given');
SELECT throws_ok($$SELECT append_stream('r', 'm', 1, NULL, 'x', event_id => 'e2', producer_id => 'p', sequence => 2)$$,
                 '23505', NULL, 'a_version_has_one_event');
SELECT throws_ok($$SELECT append_stream('r', 'm', 2, NULL, 'x', event_id => 'e1', producer_id => 'p', sequence => 2)$$,
                 '23505', NULL, 'an_event_id_has_one_event');
SELECT throws_ok($$SELECT append_stream('r', 'm', 2, NULL, 'x', event_id => 'e2', producer_id => 'p', sequence => 3)$$,
                 '55000', NULL, 'a_sequence_must_follow');
SELECT throws_ok($$SELECT append_stream('r', 'm', 2, NULL, 'x', event_id => 'e2', producer_id => 'p', sequence => 1)$$,
                 '55000', NULL, 'a_sequence_is_used_once');
SELECT is(append_stream('r', 'm', 2, NULL, 'x', event_id => 'e2', producer_id => 'p', sequence => 1,
                        producer_epoch => 2), 1::bigint, 'a_new_epoch_begins_again');
SELECT throws_ok($$SELECT append_stream('r', 'm', 3, NULL, 'x', event_id => 'e3', producer_id => 'p', sequence => 2)$$,
                 '55000', NULL, 'an_older_epoch_is_refused');
SELECT is((SELECT status FROM aggregate_proof((SELECT log_id FROM topic_definition('r')), 0, 'm', 2)), 'complete',
          'what_sql_appends_can_be_proved');

SELECT count(*) FROM pg_temp.create_topic('t', 9) \g /dev/null
SELECT is(append_stream('t', 'order-123', 3, NULL, 'three'), 2::bigint, 'a_stream_keeps_its_partition');
SELECT save_snapshot((SELECT log_id FROM topic_definition('t')), 'order-123', 2, 's') \g /dev/null
SELECT is((SELECT (s.topic, s.aggregate, s.version, s.partition, s.last_event_at = r.appended_at,
                   s.snapshot_version)::text
             FROM streams s JOIN records r ON r.topic = 't' AND r.aggregate_version = 3
            WHERE s.topic = 't'),
          '(t,"\\x6f726465722d313233",3,2,t,2)', 'streams_shows_an_aggregate');
SELECT append_stream('t', convert_to(repeat('k', 5000), 'UTF8'), 1, NULL, 'x') \g /dev/null
SELECT is((SELECT octet_length(s.aggregate) FROM streams s WHERE s.topic = 't' AND s.aggregate <> 'order-123'),
          5000, 'streams_shows_a_long_key_whole');
SELECT is((SELECT array_agg(s.topic ORDER BY s.topic COLLATE "C") FROM streams s), '{r,t,t}', 'of_every_topic');

SELECT pg_temp.append_events('t', ARRAY['n' || n], '{1}') FROM generate_series(1, 500) n \g /dev/null
ANALYZE stream_versions, record_batches, topic_definitions;
SELECT ok(pg_temp.buffers($$SELECT * FROM read_stream('t', 'n7')$$) < 60, 'read_stream_uses_the_index');
SELECT * FROM finish();
ROLLBACK;
