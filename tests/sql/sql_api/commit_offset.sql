-- commit_offset(): what SQL users may commit.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();
SELECT pg_temp.create_topic(t, n) FROM (VALUES ('t', 2), ('u', 1)) AS v (t, n) \g /dev/null

SELECT lives_ok($$SELECT commit_offset('g', 't', 0, 5)$$, 'a_new_group_is_registered');
SELECT is(pg_temp.committed('g', 't'), 5::bigint, 'and_has_the_offset');
SELECT lives_ok($$SELECT commit_offset('g', 't', 0, 5)$$, 'again_is_accepted');
SELECT throws_like($$SELECT commit_offset('g', 't', 0, 4)$$, '%current=5 got=4%', 'it_never_falls');
SELECT throws_ok(r.statement, r.state::char(5), NULL, r.name)
  FROM (VALUES ($$SELECT commit_offset('g', 'nope', 0, 5)$$, '42704', 'an_unknown_topic_is_refused'),
               ($$SELECT commit_offset('g', 't', 2, 5)$$, '22023', 'a_partition_that_is_not_there_is_refused'),
               ($$SELECT commit_offset('g', 't', NULL, 5)$$, '22023', 'no_partition_is_refused'),
               ($$SELECT commit_offset('g', 't', 0, -1)$$, '22023', 'a_negative_offset_is_refused'),
               ($$SELECT commit_offset('g', 't', 0, NULL)$$, '22023', 'no_offset_is_refused'),
               ($$SELECT commit_offset('a b', 't', 0, 1)$$, '22023', 'a_blank_in_the_name_is_refused'),
               ($$SELECT commit_offset(NULL, 't', 0, 1)$$, '22023', 'no_name_is_refused'),
               ($$SELECT commit_offset('g', 'u', 0, 1)$$, '22023', 'another_topic_is_refused'),
               ($$SELECT commit_offset('g', 't', 0, 9, 'm')$$, '22023', 'a_member_needs_its_generation'))
       AS r (statement, state, name);
SELECT pg_temp.join_group('g', 'm', 't') \g /dev/null
SELECT throws_ok($$SELECT commit_offset('g', 't', 0, 9)$$, '55006', NULL, 'a_group_with_members_is_theirs');
SELECT lives_ok(format('SELECT commit_offset(%L, %L, 1, 9, %L, 1)', 'g', 't', pg_temp.member('g', 'm')),
                'a_member_commits_what_it_owns');
SELECT throws_like(format('SELECT commit_offset(%L, %L, 1, 10, %L, 0)', 'g', 't', pg_temp.member('g', 'm')),
                   '%GEN_MISMATCH%', 'an_old_generation_is_refused');
SELECT * FROM finish();
ROLLBACK;
