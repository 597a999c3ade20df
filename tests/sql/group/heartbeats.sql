-- beat_members: what is written down, and what a node learns.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();
SELECT pg_temp.create_topic(t, n) FROM (VALUES ('t', 2)) AS v (t, n) \g /dev/null
SELECT pg_temp.join_group('g', m, 't') FROM unnest('{a,b}'::text[]) m \g /dev/null
UPDATE group_members SET last_heartbeat = '2020-01-01';
SELECT group_id AS g FROM group_definitions \gset
SELECT pg_temp.member('g', 'a') AS a, pg_temp.member('g', 'b') AS b \gset

SELECT is((SELECT array_agg(format('%s %s', b.current_generation, b.is_written))
             FROM beat_members(ARRAY[:g, :g, 999]::bigint[], ARRAY['nobody', :'a', :'a']) b),
          '{" f","2 t"," f"}', 'answers_come_in_order_with_the_current_generation');
SELECT is((SELECT string_agg(m.member_id, ' ') FROM group_members m
            WHERE m.last_heartbeat > clock_timestamp() - interval '1 min'), :'a',
          'those_who_beat_are_renewed_and_nobody_else');
SELECT is((SELECT count(*) FROM beat_members('{}', '{}')), 0::bigint, 'no_heartbeats_no_answers');
SELECT * FROM finish();
ROLLBACK;
