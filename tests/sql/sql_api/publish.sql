-- publish(): where a record goes, what is stored, what is refused.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();
SELECT count(*) FROM pg_temp.create_topic('t', 4) \g /dev/null
SELECT count(*) FROM pg_temp.create_topic('round', 3, _partitioner => 'round_robin') \g /dev/null

SELECT is(publish('t', 'order-123', 'v'), 0::bigint, 'the_offset_is_returned');
SELECT is(publish('t', 'order-123', 'w'), 1::bigint, 'offsets_rise');
SELECT is((SELECT string_agg(r.partition || ':' || convert_from(r.payload, 'UTF8'), ' ' ORDER BY r."offset")
             FROM records r WHERE r.topic = 't'), '2:v 2:w', 'a_key_goes_where_the_nodes_put_it');
SELECT is(publish('t', 'order-123', 'x', partition => 3), 0::bigint, 'a_partition_that_is_given_wins');
SELECT is(publish(topic => 't', key => NULL, payload => 'z', partition => 0, event_type => 'made',
                  metadata => 'm', "timestamp" => '2020-01-02 03:04:05.678+00'), 0::bigint,
          'arguments_may_be_named');
SELECT is((SELECT (r.key, r.payload, r."timestamp" = '2020-01-02 03:04:05.678+00', r.event_type,
                   r.metadata, r.producer_id)::text
             FROM records r WHERE r.topic = 't' AND r.partition = 0),
          '(,"\\x7a",t,made,m,)', 'what_was_given_is_stored');
SELECT is((SELECT (b.byte_count, b.keys IS NULL, b.timestamps IS NULL, b.event_types IS NULL)::text
             FROM record_batches b JOIN topic_definition('t') USING (log_id) WHERE b.partition = 3),
          '(10,f,t,t)', 'what_was_not_given_is_absent');
SELECT publish('round', 'same key', 'v') FROM generate_series(1, 60) \g /dev/null
SELECT cmp_ok((SELECT count(DISTINCT r.partition) FROM records r WHERE r.topic = 'round'), '>', 1::bigint,
              'round_robin_spreads_whatever_the_key');
SELECT publish('t', '', 'v') FROM generate_series(1, 60) \g /dev/null
SELECT cmp_ok((SELECT count(DISTINCT r.partition) FROM records r WHERE r.topic = 't'), '>', 2::bigint,
              'an_empty_key_is_no_key');

SELECT throws_ok($$SELECT publish('nope', 'k', 'v')$$, '42704', 'topic ''nope'' does not exist',
                 'an_unknown_topic_is_refused');
SELECT throws_ok($$SELECT publish('__consumer_offsets', 'k', 'v')$$, '42704', NULL,
                 'the_internal_topic_does_not_exist');
SELECT throws_ok($$SELECT publish('t', 'k', 'v', 4)$$, '22023', NULL, 'an_unknown_partition_is_refused');
SELECT throws_ok($$SELECT publish('t', 'k', 'v', -1)$$, '22023', NULL, 'a_negative_partition_is_refused');
SELECT throws_ok($$SELECT publish('t', 'k', NULL)$$, '22023', NULL, 'no_payload_is_refused');
SELECT lives_ok($$SELECT publish('t', 'k', '')$$, 'an_empty_payload_is_a_payload');
SELECT throws_ok($$SELECT publish('t', 'k', convert_to(repeat('x', 67000000), 'UTF8'))$$, '22023', NULL,
                 'what_no_frame_can_carry_is_refused');
SELECT count(*) FROM pg_temp.create_topic('closed', _auth_policy => 'deny_write') \g /dev/null
SELECT count(*) FROM pg_temp.create_topic('listed', _auth_policy => 'acl', _write_acl => '{*}') \g /dev/null
SELECT count(*) FROM pg_temp.create_topic('unread', _auth_policy => 'deny_read') \g /dev/null
SELECT count(*) FROM pg_temp.create_topic('replay', _event_sourcing => true, _idempotent => true,
                                          _aggregate_replay => true) \g /dev/null
SELECT throws_ok($$SELECT publish('closed', 'k', 'v')$$, '42501', NULL, 'deny_write_is_refused');
SELECT throws_ok($$SELECT publish('listed', 'k', 'v')$$, '42501', NULL,
                 'an_acl_admits_no_sql_user_not_even_with_a_star');
SELECT lives_ok($$SELECT publish('unread', 'k', 'v')$$, 'deny_read_may_be_written');
SELECT throws_ok($$SELECT publish('replay', 'k', 'v')$$, '0A000', NULL, 'a_replay_topic_is_refused');
SELECT is((SELECT count(*) FROM records r WHERE r.topic IN ('closed', 'listed', 'replay')), 0::bigint,
          'nothing_refused_is_stored');
SELECT * FROM finish();
ROLLBACK;
