-- save_snapshot, read_snapshot, stream_version.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();
SELECT log_id FROM pg_temp.create_topic('t', 1, _event_sourcing => true) \gset
SELECT pg_temp.append_events('t', '{a}', ARRAY[n]) FROM generate_series(1, 3) n \g /dev/null

SELECT is(stream_version(:log_id, 'a'), 3::bigint, 'the_version_is_that_of_the_last_event');
SELECT is(stream_version(:log_id, 'b'), 0::bigint, 'an_unknown_key_has_version_0');
SELECT is((SELECT count(*) FROM read_snapshot(:log_id, 'a')), 0::bigint, 'there_is_no_snapshot_at_first');
SELECT is(save_snapshot(:log_id, 'a', 2, 'two'), 0, 'a_snapshot_is_saved');
SELECT is((SELECT s::text FROM read_snapshot(:log_id, 'a') s), (2, 'two'::bytea)::text, 'and_read');
SELECT is(save_snapshot(:log_id, 'a', 2, 'again'), 0, 'the_same_version_replaces_it');
SELECT is(save_snapshot(:log_id, 'a', 3, 'three'), 0, 'so_does_a_later_one');
SELECT is(pg_temp.refusal(format('SELECT save_snapshot(%s, ''a'', 2, ''x'')', :log_id)),
          '{"code": "snapshot_save_failed", "reason": "snapshot version regression: 3 is stored, got 2"}',
          'an_earlier_one_is_refused');
SELECT is(pg_temp.refusal(format('SELECT save_snapshot(%s, ''a'', 4, ''x'')', :log_id)),
          '{"code": "snapshot_version_exceeds_stream", "version": "4", "current": "3"}',
          'a_version_that_is_not_there_yet_is_refused');
SELECT is(pg_temp.refusal(format('SELECT save_snapshot(%s, ''b'', 1, ''x'')', :log_id)),
          '{"code": "snapshot_version_exceeds_stream", "version": "1", "current": "0"}',
          'an_unknown_key_has_nothing_to_save');
SELECT is((SELECT s::text FROM read_snapshot(:log_id, 'a') s), (3, 'three'::bytea)::text,
          'a_refused_snapshot_changes_nothing');
SELECT is(pg_temp.refusal('SELECT stream_version(999, ''a'')'), '{"code": "stale_log", "log": "999"}',
          'stream_version_notices_a_stale_log');
SELECT is(pg_temp.refusal('SELECT * FROM read_snapshot(999, ''a'')'), '{"code": "stale_log", "log": "999"}',
          'read_snapshot_notices_a_stale_log');
SELECT is(pg_temp.refusal('SELECT save_snapshot(999, ''a'', 1, ''x'')'), '{"code": "stale_log", "log": "999"}',
          'save_snapshot_notices_a_stale_log');
SELECT * FROM finish();
ROLLBACK;
