-- set_user, remove_user, list_users and login_users.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();

CREATE FUNCTION pg_temp.set_user(
  _principal text, _permissions text[] DEFAULT '{admin}', _replace boolean DEFAULT false,
  _fill int DEFAULT 1)
RETURNS boolean LANGUAGE sql AS $$
  SELECT pgcursus.set_user(_principal, _permissions, decode(repeat('0' || _fill, 16), 'hex'), 20000,
                           decode(repeat('0' || _fill, 32), 'hex'), _replace)
$$;

SELECT ok(pg_temp.set_user('a', '{TOPIC.READ,group,group}'), 'a_new_user_is_new');
SELECT is((SELECT (l.principal, l.permissions)::text FROM list_users() l), '(a,"{group,topic.read}")',
          'permissions_are_kept_once_and_in_lower_case');
SELECT throws_ok($$SELECT pg_temp.set_user('a')$$, '23505', 'there is a user a already',
                 'a_user_is_not_replaced_by_accident');
SELECT is(pg_temp.set_user('a', '{admin}', true, 2), false, 'a_user_can_be_replaced');
SELECT is((SELECT (l.permissions, encode(l.hash, 'hex'), l.iterations)::text FROM login_users() l),
          '(admin,' || repeat('02', 32) || ',20000)', 'replacing_takes_token_and_permissions');
SELECT is(set_user('a', '{*}', NULL, NULL, NULL, true), false, 'the_token_can_be_kept');
SELECT is((SELECT (l.permissions, encode(l.hash, 'hex'))::text FROM login_users() l),
          '(*,' || repeat('02', 32) || ')', 'keeping_the_token_changes_the_permissions');
SELECT throws_ok($$SELECT set_user('b', '{*}', NULL, NULL, NULL, true)$$, 'P0002', NULL,
                 'there_is_no_token_to_keep_of_an_unknown_user');

SELECT throws_ok(format('SELECT pg_temp.set_user(%L)', p), '22023', NULL, 'no_principal_' || coalesce(p, 'null'))
  FROM unnest(ARRAY['', ' ', 'a b', 'a,b', E'a\n', E'a\x01', '*', repeat('x', 250), NULL]) p;
SELECT ok(pg_temp.set_user(p), 'principal_' || left(p, 10))
  FROM unnest(ARRAY[repeat('x', 249), 'ä', 'A', 'user@example.com', '**']) p;
SELECT throws_ok(format('SELECT pg_temp.set_user(''c'', %L)', p), '22023', NULL,
                 'no_permissions_' || coalesce(p, 'null'))
  FROM unnest(ARRAY['{}', '{read}', '{admin,NULL}', '{""}', NULL]) p;
SELECT throws_ok($$SELECT set_user('d', '{*}', '\x00', 20000, decode(repeat('00', 32), 'hex'))$$, '23514', NULL,
                 'a_short_salt_is_refused');
SELECT throws_ok($$SELECT set_user('d', '{*}', decode(repeat('00', 16), 'hex'), 20000, '\x00')$$, '23514', NULL,
                 'a_short_hash_is_refused');
SELECT throws_ok($$SELECT set_user('d', '{*}', decode(repeat('00', 16), 'hex'), 1, decode(repeat('00', 32), 'hex'))$$,
                 '23514', NULL, 'a_fast_hash_is_refused');

SELECT is((SELECT array_agg(left(l.principal, 4)) FROM list_users() l),
          ARRAY['**', 'A', 'a', 'user', 'xxxx', 'ä'], 'users_are_listed_in_bytewise_order');
SELECT ok(remove_user('a'), 'a_user_is_removed');
SELECT is(remove_user('a'), false, 'once');
SELECT is((SELECT count(*) FROM login_users() l WHERE l.principal = 'a'), 0::bigint, 'and_is_gone');
SELECT * FROM finish();
ROLLBACK;
