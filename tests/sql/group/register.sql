-- register_group: what is registered, and what is refused.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();
SELECT pg_temp.create_topic(t, n) FROM (VALUES ('orders', 4), ('audit', 2), ('order_s', 1)) AS v (t, n) \g /dev/null

SELECT is(register_group('one', 'topic', 'orders'), 'orders', 'a_single_topic_is_registered');
SELECT is((SELECT (g.state, g.generation, g.members, g.registration_epoch, g.topics, g.partitions)::text
             FROM groups g WHERE g."group" = 'one'), '(Dead,0,0,1,{orders},4)',
          'a_new_group_has_generation_0_and_no_member');
SELECT is(register_group('one', 'topic', 'orders'), 'orders', 'registering_alike_is_idempotent');
SELECT is((SELECT g.registration_epoch FROM groups g WHERE g."group" = 'one'), 1::bigint,
          'registering_alike_changes_nothing');
SELECT is(register_group('both', 'topics', 'orders,audit'), 'audit,orders', 'topics_are_kept_sorted');
SELECT is(register_group('both', 'topics', 'audit,orders'), 'audit,orders',
          'the_order_of_topics_does_not_matter');
SELECT is(register_group('glob', 'pattern', 'o?der*'), 'order_s,orders', 'a_pattern_stands_for_its_topics');
SELECT is(register_group('glob', 'pattern', 'o?der*'), 'order_s,orders', 'a_pattern_is_idempotent');
SELECT is(register_group('under', 'pattern', '*_*'), 'order_s', 'an_underscore_means_itself');
SELECT is(register_group('all', 'pattern', '*'), 'audit,order_s,orders', 'a_star_matches_every_topic');

SELECT is(pg_temp.refusal($$SELECT register_group('x', 'topic', 'nope')$$),
          '{"code": "topic_not_found", "topic": "nope"}', 'an_unknown_topic_is_refused');
SELECT is(pg_temp.refusal($$SELECT register_group('x', 'topics', 'orders,nope,none')$$),
          '{"code": "topic_not_found", "topic": "nope"}', 'the_first_unknown_topic_is_named');
SELECT is(pg_temp.refusal($$SELECT register_group('x', 'topics', 'orders,')$$),
          '{"code": "topic_not_found", "topic": ""}', 'an_empty_element_is_an_unknown_topic');
SELECT is(pg_temp.refusal($$SELECT register_group('x', 'topics', 'orders,audit,orders')$$) ->> 'code',
          'register_group_failed', 'a_topic_twice_is_refused');
SELECT is(pg_temp.refusal($$SELECT register_group('x', 'pattern', 'z*')$$) ->> 'code',
          'invalid_subscription', 'a_pattern_that_matches_nothing_is_refused');
SELECT is(pg_temp.refusal($$SELECT register_group('x', 'pattern', '%')$$) ->> 'code',
          'invalid_subscription', 'a_percent_sign_matches_itself_only');
SELECT is(pg_temp.refusal(format('SELECT register_group(%L, %L, %L)', n.name, n.selector, n.text)) ->> 'code',
          'register_group_failed', 'another_subscription_is_refused: ' || n.name || ' ' || n.text)
  FROM (VALUES ('one', 'topic', 'audit'), ('one', 'topics', 'orders'), ('both', 'topics', 'audit'),
               ('glob', 'pattern', 'order*'), ('glob', 'topics', 'orders,order_s'))
         AS n (name, selector, text);
SELECT is((SELECT string_agg(l.name, ' ') FROM list_groups() l), 'all both glob one under',
          'groups_are_listed_in_order');

-- A topic that comes later is not added to a pattern, whose group is then another.
SELECT pg_temp.create_topic(t, n) FROM (VALUES ('orderly', 1)) AS v (t, n) \g /dev/null
SELECT is((SELECT g.topics FROM groups g WHERE g."group" = 'glob'), '{order_s,orders}',
          'a_pattern_is_fixed_at_registration');
SELECT is(pg_temp.refusal($$SELECT register_group('glob', 'pattern', 'o?der*')$$) ->> 'code',
          'register_group_failed', 'a_pattern_that_now_means_more_is_another_subscription');

-- A topic's end is that of its groups.
SELECT is(group_in_use('audit'), NULL, 'a_group_without_members_is_not_in_use');
SELECT is(pg_temp.join_group('both', 'm'), '1 m: audit:P0 audit:P1 orders:P0 orders:P1 orders:P2 orders:P3',
          'a_subscription_needs_no_topic_to_join');
SELECT is(group_in_use('audit'), 'both', 'a_group_with_a_member_is_in_use');
SELECT leave_group('both', pg_temp.member('both', 'm'), NULL, NULL) \g /dev/null
SELECT retire_groups('audit') \g /dev/null
SELECT is((SELECT string_agg(l.name, ' ') FROM list_groups() l), 'glob one under',
          'groups_of_the_topic_are_gone_others_stay');
SELECT is(pg_temp.refusal($$SELECT * FROM group_status('both')$$),
          '{"code": "group_not_found", "group": "both"}', 'a_tombstone_is_not_found');
SELECT is(register_group('both', 'topic', 'orders'), 'orders', 'a_name_may_be_registered_again');
SELECT is((SELECT (g.registration_epoch, g.generation)::text FROM groups g WHERE g."group" = 'both'), '(3,0)',
          'the_registration_epoch_never_goes_back');
SELECT * FROM finish();
ROLLBACK;
