-- Committed offsets: fencing, monotonic, all or nothing.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();
SELECT pg_temp.create_topic(t, n) FROM (VALUES ('t', 4), ('u', 2)) AS v (t, n) \g /dev/null
SELECT pg_temp.join_group('g', m, 't') FROM unnest('{a,b}'::text[]) m \g /dev/null
SELECT pg_temp.member('g', 'a') AS a, pg_temp.member('g', 'b') AS b \gset

SELECT is(pg_temp.committed('g', 't'), NULL, 'nothing_committed_is_unknown');
SELECT is(pg_temp.commit_offsets('g', 't', :'a', 2, '{0}', '{5}'), 'committed', 'the_owner_commits');
SELECT is(pg_temp.committed('g', 't'), 5::bigint, 'what_was_committed_is_fetched');
SELECT is(pg_temp.commit_offsets('g', 't', :'a', 2, '{0}', '{5}'), 'committed', 'the_same_again_is_accepted');
SELECT is((SELECT count(*) FROM offset_commits), 1::bigint, 'the_same_again_writes_nothing');
SELECT is(pg_temp.commit_offsets('g', 't', :'a', 2, '{0}', '{7}'), 'committed', 'a_larger_one_replaces');
SELECT matches(pg_temp.commit_offsets('g', 't', :'a', 2, '{0}', '{6}'),
               'offset_regression.*group=g topic=t partition=0 current=7 got=6', 'commit_below_stored_offset_is_refused');
SELECT is(pg_temp.committed('g', 't'), 7::bigint, 'a_refused_commit_changes_nothing');
SELECT is(pg_temp.commit_offsets('g', 't', :'a', 2, '{1}', '{0}'), 'committed', 'zero_may_be_committed');
SELECT is(pg_temp.committed('g', 't', 1), 0::bigint, 'a_committed_zero_is_not_unknown');
SELECT is(pg_temp.commit_offsets('g', 't', :'a', 2, '{0}', '{9223372036854775807}'), 'committed',
          'there_is_no_check_against_the_end');

SELECT is(pg_temp.commit_offsets(r.name, r.topic, r.member, r.generation, r.partitions, '{9,9,9}', r.epoch)::jsonb,
          r.refusal::jsonb, r.code)
  FROM (VALUES
    ('nope', 't', :'a', 2, '{2,3,0}'::int[], NULL::bigint, '{"code": "group_not_found", "group": "nope"}',
     'an_unknown_group_is_refused'),
    ('g', 'u', 'x', 9, '{0}', NULL, '{"code": "topic_not_assigned_to_group", "expected": "t", "actual": "u"}',
     'another_topic_is_refused_before_the_member'),
    ('g', 't', 'x', 9, '{0}', NULL, '{"code": "member_not_found", "member": "x", "group": "g"}',
     'an_unknown_member_is_refused_before_the_generation'),
    ('g', 't', 'x', 9, '{0}', 2, '{"code": "group_epoch_mismatch", "group": "g"}',
     'another_incarnation_is_refused'),
    ('g', 't', :'b', 1, '{0}', 1, '{"code": "GEN_MISMATCH", "current": "2", "requested": "1", "group": "g",
      "member": "' || :'b' || '"}', 'an_old_generation_is_refused_before_the_owner'),
    ('g', 't', :'b', 2, '{2,1,0}', NULL, '{"code": "NOT_OWNER", "partition": "1", "group": "g", "generation": "2",
      "member": "' || :'b' || '"}', 'the_first_partition_of_another_is_named'),
    ('g', 't', :'b', 2, '{4}', NULL, '{"code": "NOT_OWNER", "partition": "4", "group": "g", "generation": "2",
      "member": "' || :'b' || '"}', 'a_partition_that_is_not_there_has_no_owner'))
  AS r (name, topic, member, generation, partitions, epoch, refusal, code);

SELECT is(pg_temp.commit_offsets('g', 't', :'b', 2, '{3,2}', '{4,8}'), 'committed', 'several_at_once');
SELECT matches(pg_temp.commit_offsets('g', 't', :'b', 2, '{3,2}', '{9,7}'), 'partition=2 current=8 got=7',
               'one_regression_refuses_all');
SELECT is(ARRAY[pg_temp.committed('g', 't', 2), pg_temp.committed('g', 't', 3)], '{8,4}',
          'of_a_refused_batch_nothing_is_stored');
SELECT is(pg_temp.commit_offsets('g', 't', :'b', 2, '{3,2}', '{9,8}'), 'committed', 'equal_and_larger_mix');
SELECT is(ARRAY[pg_temp.committed('g', 't', 2), pg_temp.committed('g', 't', 3)], '{8,9}', 'both_are_stored');

-- Subscriptions: the position in the whole expansion decides.
SELECT register_group('s', 'topics', 't,u') \g /dev/null
SELECT pg_temp.join_group('s', m) FROM unnest('{m,n}'::text[]) m \g /dev/null
SELECT is(pg_temp.commit_offsets('s', 'u', pg_temp.member('s', 'n'), 2, '{0,1}', '{1,1}'), 'committed',
          'the_owner_of_a_later_topic_commits');
SELECT is(pg_temp.commit_offsets('s', 't', pg_temp.member('s', 'n'), 2, '{3}', '{1}'), 'committed',
          'and_of_its_part_of_the_first');
SELECT is(pg_temp.commit_offsets('s', 'u', pg_temp.member('s', 'm'), 2, '{1}', '{1}')::jsonb ->> 'topic', 'u',
          'a_subscription_s_refusal_names_the_topic');
SELECT is(pg_temp.commit_offsets('s', 't', pg_temp.member('s', 'n'), 2, '{2}', '{1}')::jsonb ->> 'code',
          'NOT_OWNER', 'the_other_one_s_partition_is_refused');

-- Fetching.
SELECT is(pg_temp.committed('g', 't', 99), NULL, 'a_partition_that_is_not_there_is_unknown');
SELECT is(pg_temp.refusal($$SELECT fetch_offset('nope', 't', 0)$$), '{"code": "group_not_found", "group": "nope"}',
          'fetching_needs_a_group');
SELECT is(pg_temp.refusal($$SELECT fetch_offset('g', 'u', 0)$$),
          '{"code": "topic_not_assigned_to_group", "expected": "t", "actual": "u"}', 'and_its_topic');
SELECT is((SELECT array_agg(c) FROM committed_offsets(
             '{g,nope,g,s}', ARRAY[l.log_id, l.log_id, 999, l.log_id], '{2,2,2,3}') c), '{8,NULL,NULL,1}',
          'many_are_looked_up_in_order')
  FROM topic_definition('t') l;

-- Trimming keeps the current ones.
SELECT is(trim_offset_commits()::text, '(3,f)', 'the_superseded_go');
SELECT is(trim_offset_commits()::text, '(0,f)', 'and_only_they');
SELECT is(pg_temp.committed('g', 't', 3), 9::bigint, 'what_counts_stays');

-- A new incarnation begins without offsets, and the old one's rows go.
SELECT leave_group('g', m, 't', NULL) FROM unnest(ARRAY[:'a', :'b']) m \g /dev/null
SELECT retire_groups('t') \g /dev/null
SELECT is(pg_temp.commit_offsets('g', 't', :'a', 2, '{0}', '{5}')::jsonb ->> 'code', 'group_not_found',
          'a_tombstone_takes_no_commits');
SELECT pg_temp.join_group('g', 'a', 't') \g /dev/null
SELECT is(pg_temp.committed('g', 't', 3), NULL, 'a_group_registered_again_has_no_offsets');
SELECT ok((SELECT done > 0 FROM trim_offset_commits()), 'the_offsets_of_what_is_no_more_go');
SELECT is((SELECT count(*) FROM offset_commits), 0::bigint, 'all_of_them');
-- More than one step looks at.
INSERT INTO offset_commits (group_id, log_id, partition, next_offset)
SELECT g.group_id, 1, p, o FROM group_definitions g, generate_series(0, 2) p, generate_series(1, 3000) o
 WHERE g.name = 'g';
SELECT is(trim_offset_commits()::text, r, 'a_pass_takes_several_steps_and_remembers_where_it_is')
  FROM unnest('{"(3998,t)","(3998,t)","(1001,f)"}'::text[]) r;
SELECT is((SELECT array_agg(o.next_offset) FROM offset_commits o), '{3000,3000,3000}', 'the_current_ones_stay');
SELECT * FROM finish();
ROLLBACK;
