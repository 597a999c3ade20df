-- group_status and the view group_lag.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();
SELECT pg_temp.create_topic(t, n) FROM (VALUES ('t', 3), ('u', 1)) AS v (t, n) \g /dev/null
SELECT register_group('g', 'topics', 'u,t') \g /dev/null
SELECT is((SELECT (s.selector, s.selector_text, s.topics, s.generation, s.member_count, s.partition_count,
                   s.last_rebalance, s.member_id)::text FROM group_status('g') s),
          '(topics,"u,t","t,u",0,0,4,,)', 'a_group_without_members_has_one_row');
SELECT pg_temp.join_group('g', m) FROM unnest('{a,b,c,d,e}'::text[]) m \g /dev/null
SELECT is(pg_temp.assignments('g'), 'a: t:P0; b: t:P1; c: t:P2; d: u:P0; e:', 'members_come_in_order');
SELECT ok((SELECT bool_and(s.last_heartbeat ~ '^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$'
                           AND s.last_rebalance LIKE '%Z') FROM group_status('g') s), 'times_are_rfc_3339');
SELECT is(pg_temp.refusal($$SELECT * FROM group_status('nope')$$),
          '{"code": "group_not_found", "group": "nope"}', 'an_unknown_group_is_refused');

SELECT pg_temp.append('t', '{1,2,3,4,5}', p) FROM unnest('{0,1,2}'::int[]) p \g /dev/null
SELECT is(pg_temp.commit_offsets('g', 't', pg_temp.member('g', 'b'), 5, '{1}', '{3}'), 'committed', 'b_commits');
SELECT is(pg_temp.commit_offsets('g', 't', pg_temp.member('g', 'c'), 5, '{2}', '{2}'), 'committed', 'c_commits');
UPDATE partition_states SET earliest_offset = 5, end_offset = 5
 WHERE partition = 2 AND log_id = (SELECT log_id FROM topic_definition('t'));
SELECT is((SELECT array_agg(format('%s:%s %s %s %s', l.topic, l.partition, left(l.member, 1),
                                   coalesce(l.committed::text, 'none'), l.lag) ORDER BY l.topic, l.partition)
             FROM group_lag l WHERE l."group" = 'g'),
          '{"t:0 a none 5","t:1 b 3 2","t:2 c 2 0","u:0 d none 0"}',
          'lag_counts_what_is_retained_and_unknown_is_not_0');
SELECT * FROM finish();
ROLLBACK;
