-- append_events: the version check, calls with several events, partitions that were added, refusals.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();
SELECT count(*) FROM pg_temp.create_topic('t', 1, _event_sourcing => true, _replication_factor => 3) \g /dev/null

SELECT is(pg_temp.events_outcome(pg_temp.append_events('t', '{a}', '{1}')), 'appended 0-0',
          'the_first_event_has_version_1');
SELECT is(pg_temp.events_outcome(pg_temp.append_events('t', '{a}', '{1}')), 'conflict at 1',
          'a_version_is_given_once');
SELECT is(pg_temp.events_outcome(pg_temp.append_events('t', '{a}', '{3}')), 'conflict at 1',
          'a_version_cannot_be_skipped');
SELECT is(pg_temp.events_outcome(pg_temp.append_events('t', '{a}', '{0}')), 'conflict at 1',
          'version_0_always_conflicts');
SELECT is(pg_temp.events_outcome(pg_temp.append_events('t', '{new}', '{0}')), 'conflict at 0',
          'version_0_conflicts_with_an_empty_stream_too');
SELECT is(pg_temp.events_outcome(pg_temp.append_events('t', '{new}', '{NULL}')), 'conflict at 0',
          'no_version_is_version_0');
SELECT is(pg_temp.events_outcome(pg_temp.append_events('t', '{a}', '{2}')), 'appended 1-1',
          'the_next_version_is_appended');

SELECT is(pg_temp.events_outcome(pg_temp.append_events('t', '{b,c,d}', '{1,1,1}')), 'appended 2-4',
          'several_streams_share_a_call');
SELECT is(pg_temp.events_outcome(pg_temp.append_events('t', '{b,c,d,e}', '{2,7,2,1}')),
          'appended, conflict at 1, appended, appended', 'a_conflict_leaves_its_neighbours_alone');
SELECT is((SELECT pg_temp.stream('t', k) FROM unnest(ARRAY['b']) k), '1:b1@2 2:b2@5', 'the_first_neighbour');
SELECT is(pg_temp.stream('t', 'c'), '1:c1@3', 'the_refused_event_is_not_there');
SELECT is(pg_temp.stream('t', 'd'), '1:d1@4 2:d2@6', 'offsets_skip_the_refused_event');
SELECT is(pg_temp.contents('t'), '0:a1 1:a2 2:b1 3:c1 4:d1 5:b2 6:d2 7:e1',
          'events_are_ordinary_records');
SELECT is((SELECT (b.record_count, b.byte_count, b.aggregate_versions, b.idempotent)::text
             FROM record_batches b
            WHERE b.log_id = (SELECT log_id FROM topic_definition('t')) AND b.base_offset = 5),
          (3, 9, ARRAY[2, 2, 1], false)::text, 'a_shared_row_holds_what_was_appended');

SELECT pg_temp.append_events('t', '{f,g,h}', '{1,5,1}', _event_types => '{F,G,H}',
                             _metadata => '{mf,mg,NULL}') \g /dev/null
SELECT is((SELECT string_agg(concat_ws('/', convert_from(r.key, 'UTF8'), r.event_type, r.metadata,
                                       r.aggregate_version), ' ' ORDER BY r."offset")
             FROM records r WHERE r.topic = 't' AND r."offset" >= 8),
          'f/F/mf/1 h/H/1', 'the_other_columns_follow_the_events_that_are_kept');

-- Refusals of the whole call.
SELECT is(pg_temp.events_outcome(pg_temp.append_events('t', '{z}', '{1}', _log_id => 99999, _partition => 0)),
          'call 2 /', 'a_log_that_is_not_current_is_stale');
SELECT is(pg_temp.events_outcome(pg_temp.append_events('t', '{z}', '{9}', _log_id => 99999, _partition => 0)),
          'call 2 /', 'a_conflict_in_a_log_that_is_not_current_is_stale');
SELECT is(pg_temp.events_outcome(pg_temp.append_events('t', '{a}', '{3}', _revision => 7)), 'call 2 /',
          'another_revision_is_stale');
SELECT is(pg_temp.events_outcome(pg_temp.append_events('t', '{a}', '{9}', _revision => 7)), 'call 2 /',
          'a_conflict_under_another_revision_is_stale');
SELECT is(pg_temp.events_outcome(pg_temp.append_events('t', '{z}', '{1}', _partition => 5)), 'call 3 /',
          'a_partition_that_is_not_there_is_refused');
SELECT is(pg_temp.events_outcome(pg_temp.append_events('t', '{z}', '{1}', _require_isr => true,
                                                       _min_insync => 2)),
          'call 4 1/2', 'too_few_replicas_are_refused');
SELECT is(pg_temp.stream('t', 'z'), NULL, 'a_refused_call_leaves_nothing');
SELECT throws_ok($$SELECT append_events(1, NULL, 0, 1, false, 1, '{a,b}', '{1,1}', '{x}', NULL, NULL, NULL,
                                        NULL, NULL, NULL, NULL, NULL)$$,
                 '22023', NULL, 'arrays_that_do_not_fit_are_an_error');
SELECT throws_ok($$SELECT append_events(1, NULL, 0, 1, false, 1, '{a,b}', '{1,1}', '{x,y}', NULL, NULL, NULL,
                                        '{i,j}', '{d,e}', 'p', 0, 1)$$,
                 '22023', NULL, 'events_with_identities_come_one_by_one');
SELECT throws_ok($$SELECT append_events(1, NULL, NULL, 1, false, 1, '{a}', '{1}', '{x}', NULL, NULL, NULL,
                                        NULL, NULL, NULL, NULL, NULL)$$,
                 '22023', NULL, 'a_missing_partition_is_an_error');

-- Partitions that are added.
SELECT count(*) FROM pg_temp.create_topic('g', 1, _event_sourcing => true) \g /dev/null
SELECT pg_temp.append_events('g', '{k1}', '{1}') \g /dev/null
SELECT count(*) FROM pg_temp.create_topic('g', 8) \g /dev/null
SELECT isnt(partition_of_key('k1', 8), 0, 'the_key_now_maps_elsewhere');
SELECT is(pg_temp.events_outcome(pg_temp.append_events('g', '{k1}', '{2}')), 'in partition 0',
          'a_stream_stays_in_its_partition');
SELECT is(pg_temp.events_outcome(pg_temp.append_events('g', '{k1}', '{2}', _partition => 0)), 'appended 1-1',
          'and_goes_on_there');
SELECT is(pg_temp.events_outcome(pg_temp.append_events('g', '{k1}', '{9}')), 'in partition 0',
          'the_partition_is_told_before_a_conflict');

-- Long keys.
SELECT is(pg_temp.events_outcome(pg_temp.append_events('t', ARRAY[repeat('k', 60000)], '{1}')),
          'appended 10-10', 'a_key_may_be_longer_than_an_index_admits');
SELECT is(pg_temp.events_outcome(pg_temp.append_events('t', ARRAY[repeat('k', 59999)], '{1}')),
          'appended 11-11', 'long_keys_are_told_apart');
SELECT is(pg_temp.events_outcome(pg_temp.append_events('t', ARRAY[repeat('k', 60000)], '{2}')),
          'appended 12-12', 'a_long_key_is_found_again');
SELECT is(octet_length(short_key(convert_to(repeat('k', 999), 'UTF8'))), 999, 'a_key_below_the_limit_is_kept');
SELECT is(octet_length(short_key(convert_to(repeat('k', 1000), 'UTF8'))), 1000, 'a_longer_one_is_shortened');
SELECT isnt(short_key(convert_to(repeat('k', 1000), 'UTF8')), convert_to(repeat('k', 1000), 'UTF8'),
            'a_key_at_the_limit_is_not_mistaken_for_a_shortened_one');

SELECT ok(pg_temp.buffers($$SELECT pg_temp.append_events('t', '{q}', '{9}')$$) < 60,
          'a_version_check_does_not_scan');
SELECT * FROM finish();
ROLLBACK;
