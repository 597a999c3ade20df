-- Joining, synchronizing, leaving and expiring; the assignment of every generation.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();
SELECT pg_temp.create_topic(t, n) FROM (VALUES ('t', 5), ('a', 3), ('b', 2), ('two', 2)) AS v (t, n) \g /dev/null

SELECT is(pg_temp.join_group('g', 'c', 't'), '1 c: t:P0 t:P1 t:P2 t:P3 t:P4',
          'joining_registers_the_group_and_takes_everything');
SELECT ok(pg_temp.member('g', 'c') ~ '^c-[0-9]{4}$', 'a_member_s_id_has_four_digits');
SELECT is(pg_temp.join_group('g', 'a', 't'), '2 a: t:P0 t:P1 t:P2', 'the_first_members_take_one_more');
SELECT is(pg_temp.assignments('g'), 'a: t:P0 t:P1 t:P2; c: t:P3 t:P4', 'members_are_sorted_by_their_ids');
SELECT ok((SELECT g.last_rebalance IS NOT NULL FROM groups g WHERE g."group" = 'g'), 'the_time_is_kept');
SELECT is((SELECT pg_temp.assigned(array_agg(s))
             FROM sync_group('SYNC_GROUP', 'g', pg_temp.member('g', 'c'), 't', 2) s), '2 c: t:P3 t:P4',
          'an_older_member_learns_its_part_by_synchronizing');
SELECT is(pg_temp.generation('g'), 2::bigint, 'synchronizing_changes_nothing');
SELECT is((SELECT pg_temp.assigned(array_agg(s))
             FROM sync_group('HEARTBEAT', 'g', pg_temp.member('g', 'c'), 't', NULL) s), '2 c: t:P3 t:P4',
          'a_heartbeat_needs_no_generation');

SELECT is(pg_temp.refusal(format('SELECT * FROM sync_group(%L, %L, %L, %L, %L)', 'SYNC_GROUP', r.name, r.member,
                                 r.topic, r.generation)), r.refusal::jsonb, r.code)
  FROM (VALUES
    ('g', 'nobody', 't', 2, '{"code": "member_not_found", "member": "nobody", "group": "g"}',
     'an_unknown_member_is_refused'),
    ('nope', 'm', 't', 2, '{"code": "group_not_found", "group": "nope"}', 'an_unknown_group_is_refused'),
    ('nope', 'm', NULL, 2, '{"code": "missing_topic", "command": "SYNC_GROUP"}',
     'without_a_group_a_topic_is_needed'),
    ('g', 'm', NULL, 2, '{"code": "missing_topic", "command": "SYNC_GROUP"}',
     'a_single_topic_group_needs_its_topic'),
    ('g', 'm', 'a', 2, '{"code": "topic_not_assigned_to_group", "expected": "t", "actual": "a"}',
     'another_topic_is_refused')) AS r (name, member, topic, generation, refusal, code);
SELECT is(pg_temp.refusal(format('SELECT * FROM sync_group(%L, %L, %L, %L, 1)', 'JOIN_GROUP', 'g',
                                 pg_temp.member('g', 'c'), 't')),
          jsonb_build_object('code', 'GEN_MISMATCH', 'current', '2', 'requested', '1', 'group', 'g', 'member',
                             pg_temp.member('g', 'c')), 'an_old_generation_is_told_the_current_one');
SELECT is(pg_temp.refusal($$SELECT * FROM join_group('x', 'm', 'nope', NULL)$$),
          '{"code": "topic_not_found", "topic": "nope"}', 'joining_needs_an_existing_topic');
SELECT is(pg_temp.refusal($$SELECT * FROM join_group('x', 'm', NULL, NULL)$$),
          '{"code": "missing_topic", "command": "JOIN_GROUP"}', 'joining_an_unknown_group_needs_a_topic');
SELECT is((SELECT count(*) FROM list_groups()), 1::bigint, 'a_refused_join_registers_nothing');

SELECT leave_group('g', pg_temp.member('g', 'a'), 't', 2) \g /dev/null
SELECT is(pg_temp.assignments('g'), 'c: t:P0 t:P1 t:P2 t:P3 t:P4', 'those_who_stay_get_what_was_left');
SELECT is(pg_temp.generation('g'), 3::bigint, 'leaving_is_a_step');
SELECT is(pg_temp.refusal($$SELECT leave_group('g', 'a-0000', 't', NULL)$$) ->> 'code', 'member_not_found',
          'nobody_leaves_twice');
SELECT is(pg_temp.refusal(format('SELECT leave_group(%L, %L, %L, 2)', 'g', pg_temp.member('g', 'c'), 't'))
          ->> 'code', 'GEN_MISMATCH', 'leaving_is_fenced_when_a_generation_is_given');
SELECT leave_group('g', pg_temp.member('g', 'c'), 't', NULL) \g /dev/null
SELECT is((SELECT (g.state, g.generation, g.members)::text FROM groups g WHERE g."group" = 'g'), '(Dead,4,0)',
          'the_last_one_leaves_a_dead_group');

-- The examples of the specification.
SELECT register_group('s', 'topics', 'b,a') \g /dev/null
SELECT pg_temp.join_group('s', m) FROM unnest('{m1,m2,m3}'::text[]) m \g /dev/null
SELECT is(pg_temp.assignments('s'), 'm1: a:P0 a:P1; m2: a:P2 b:P0; m3: b:P1',
          'the_partitions_of_a_subscription_are_shared_out_in_order');
SELECT is((SELECT pg_temp.assigned(array_agg(s))
             FROM sync_group('SYNC_GROUP', 's', pg_temp.member('s', 'm2'), 'b', 3) s), '3 m2: b:P0',
          'a_topic_given_shows_that_topic_only');
SELECT is(pg_temp.refusal($$SELECT * FROM join_group('s', 'm', 't', NULL)$$),
          '{"code": "topic_not_assigned_to_group", "actual": "t"}', 'a_subscription_refuses_other_topics');
SELECT pg_temp.join_group('w', m, 'two') FROM unnest('{b,c,z}'::text[]) m \g /dev/null
SELECT is(pg_temp.assignments('w'), 'b: two:P0; c: two:P1; z:', 'members_beyond_the_partitions_get_nothing');

-- Every size of group: disjoint, complete, and as the formula has it.
CREATE FUNCTION pg_temp.check_shares(_members int) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  _name text := 'n' || _members;
BEGIN
  PERFORM pg_temp.join_group(_name, 'm' || lpad(i::text, 2, '0'), 't') FROM generate_series(1, _members) i;
  RETURN (SELECT array_agg(m.position_count ORDER BY m.member_id) =
                 (SELECT array_agg(5 / _members + (i < 5 % _members)::int ORDER BY i)
                    FROM generate_series(0, _members - 1) i)
                 AND sum(m.position_count) = 5
                 AND bool_and(m.first_position = m.before)
            FROM (SELECT o.*, coalesce(sum(o.position_count) OVER (ORDER BY o.member_id ROWS BETWEEN
                                UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
                    FROM group_members o JOIN group_definitions g USING (group_id) WHERE g.name = _name) m);
END $$;
SELECT ok(pg_temp.check_shares(n), 'the_formula_holds_for_members: ' || n) FROM generate_series(1, 7) n;

-- Expiry: once a sweep, whatever the number; on touch as well.
UPDATE group_members SET last_heartbeat = clock_timestamp() - interval '33 s' WHERE member_id LIKE 'm2-%'
   OR member_id LIKE 'm3-%' OR member_id LIKE 'z-%';
SELECT is(expire_group_members(40000)::text, '(0,f)', 'nobody_is_removed_before_the_time');
SELECT set_config('pgcursus.contact_since', (clock_timestamp() - interval '20 s')::text, true) \g /dev/null
SELECT is(expire_group_members(30000)::text, '(0,f)', 'nobody_is_removed_soon_after_an_outage');
SELECT set_config('pgcursus.contact_since', (clock_timestamp() - interval '31 s')::text, true) \g /dev/null
SELECT is(expire_group_members(30000)::text, '(2,f)', 'a_sweep_counts_the_groups_that_lost_members');
SELECT is(pg_temp.generation('s'), 4::bigint, 'a_sweep_is_one_step');
SELECT is(pg_temp.assignments('s'), 'm1: a:P0 a:P1 a:P2 b:P0 b:P1', 'those_alive_get_everything');
SELECT is(expire_group_members(30000)::text, '(0,f)', 'a_second_sweep_finds_nothing');
UPDATE group_members SET last_heartbeat = clock_timestamp() - interval '33 s' WHERE member_id LIKE 'm1-%';
SELECT is(pg_temp.join_group('s', 'm9', 'a', 30000), '6 m9: a:P0 a:P1 a:P2',
          'joining_removes_the_overdue_first_a_step_each');
SELECT is(pg_temp.assignments('w'), 'b: two:P0; c: two:P1', 'idle_members_expire_too');

-- Partitions that are added.
SELECT pg_temp.create_topic(t, n) FROM (VALUES ('b', 4), ('two', 3)) AS v (t, n) \g /dev/null
SELECT is(pg_temp.assignments('s'), 'm9: a:P0 a:P1 a:P2 b:P0 b:P1 b:P2 b:P3', 'new_partitions_are_shared_out');
SELECT is(pg_temp.generation('s'), 7::bigint, 'growth_is_a_step');
SELECT is(pg_temp.assignments('w'), 'b: two:P0 two:P1; c: two:P2', 'every_group_of_the_topic_grows');
SELECT is(register_group('s', 'topics', 'a,b'), 'a,b', 'a_group_that_has_grown_is_still_the_same');
SELECT pg_temp.create_topic(t, n) FROM (VALUES ('t', 6)) AS v (t, n) \g /dev/null
SELECT is((SELECT (g.generation, g.partitions)::text FROM groups g WHERE g."group" = 'g'), '(4,6)',
          'without_members_only_the_expansion_grows');
SELECT is(pg_temp.join_group('g', 'late', 't'), '5 late: t:P0 t:P1 t:P2 t:P3 t:P4 t:P5',
          'whoever_joins_then_gets_them_all');

-- Who is gone does not come back under its id: a base name has 10000 of them, and they are used in turn.
CREATE FUNCTION pg_temp.come_and_go(_times int) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  _member text;
BEGIN
  FOR _turn IN 1.._times LOOP
    SELECT j.member_id INTO STRICT _member FROM join_group('v', 'm', 'two', NULL) j LIMIT 1;
    RETURN NEXT _member;
    PERFORM leave_group('v', _member, 'two', NULL);
  END LOOP;
END
$$;
SELECT is((SELECT count(DISTINCT m) FROM pg_temp.come_and_go(500) m), 500::bigint, 'no_id_comes_back_soon');
SELECT pg_temp.join_group('v', 'x', 'two') \g /dev/null
INSERT INTO group_members (group_id, member_id)
SELECT g.group_id, new_member_id(g.group_id, g.generation, 'm') FROM group_definitions g WHERE g.name = 'v';
SELECT is((SELECT count(*) FROM group_members m JOIN group_definitions g USING (group_id)
            WHERE g.name = 'v' AND m.member_id = new_member_id(g.group_id, g.generation, 'm')), 0::bigint,
          'an_id_that_a_member_has_is_passed_over');

-- Ids run out after a while, and never collide.
INSERT INTO group_members (group_id, member_id)
SELECT g.group_id, 'full-' || lpad(i::text, 4, '0') FROM group_definitions g, generate_series(0, 9999) i
 WHERE g.name = 'g';
SELECT is(pg_temp.refusal($$SELECT * FROM join_group('g', 'full', 't', NULL)$$) ->> 'code', 'join_group_failed',
          'no_free_id_is_a_refusal');
SELECT * FROM finish();
ROLLBACK;
