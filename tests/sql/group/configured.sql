-- register_configured_group: what a node registers from its configuration.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();
SELECT pg_temp.create_topic(t, n) FROM (VALUES ('a', 4), ('b', 2)) AS v (t, n) \g /dev/null
CREATE FUNCTION pg_temp.registered(_group text) RETURNS text
LANGUAGE sql AS $$
  SELECT format('%s %s %s', d.selector, d.selector_text, d.registration_epoch)
    FROM group_definitions d WHERE d.name = _group AND d.registered
$$;

SELECT lives_ok($$SELECT register_configured_group('one', '{a}', '{0}')$$, 'a_group_is_registered');
SELECT is(pg_temp.registered('one'), 'topic a 1', 'one_topic_makes_a_group_of_one_topic');
SELECT lives_ok($$SELECT register_configured_group('two', '{b,a}', '{2,0}')$$, 'the_number_of_partitions_may_be_named');
SELECT is(pg_temp.registered('two'), 'topics b,a 1', 'several_make_a_subscription');
SELECT lives_ok($$SELECT register_configured_group('two', '{b,a}', '{2,4}')$$, 'a_node_that_starts_again_is_content');
SELECT is(pg_temp.registered('two'), 'topics b,a 1', 'and_changes_nothing');

SELECT is(pg_temp.refusal($$SELECT register_configured_group('x', '{a,b}', '{4,3}')$$),
          '{"code": "register_group_failed", "reason": "topic b has 2 partitions, not 3"}', 'another_number_is_refused');
SELECT is(pg_temp.registered('x'), NULL, 'then_nothing_is_registered');
SELECT is(pg_temp.refusal($$SELECT register_configured_group('x', '{a,nope}', '{0,0}')$$),
          '{"code": "topic_not_found", "topic": "nope"}', 'a_missing_topic_is_named');
SELECT is(pg_temp.refusal($$SELECT register_configured_group('one', '{b}', '{0}')$$) ->> 'code',
          'register_group_failed', 'a_group_that_is_registered_differently_stays');
SELECT is(pg_temp.registered('one'), 'topic a 1', 'as_it_is');
SELECT * FROM finish();
ROLLBACK;
