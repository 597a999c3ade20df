-- What each role may do, tried out.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();
SELECT count(*) FROM pg_temp.create_topic('t', 1) \g /dev/null
CREATE ROLE some_stranger;
GRANT USAGE ON SCHEMA public TO some_stranger, pgcursus_broker, pgcursus_reader, pgcursus_writer;

CREATE FUNCTION pg_temp.may(_role text, _statement text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('SET LOCAL ROLE %I', _role);
  EXECUTE _statement;
  RESET ROLE;
  RETURN true;
EXCEPTION WHEN insufficient_privilege THEN
  RESET ROLE;
  RETURN false;
END
$$;
CREATE FUNCTION pg_temp.who_may(_statement text) RETURNS text LANGUAGE sql AS $$
  SELECT string_agg(replace(r, 'pgcursus_', ''), ' ' ORDER BY n)
    FROM unnest('{pgcursus_broker,pgcursus_reader,pgcursus_writer,some_stranger}'::text[])
           WITH ORDINALITY AS u(r, n)
   WHERE pg_temp.may(r, _statement)
$$;

SELECT is(pg_temp.who_may($$SELECT * FROM pgcursus.topic_definition('t')$$), 'broker',
          'only_brokers_call_the_protocol_s_functions');
SELECT is(pg_temp.who_may($$SELECT * FROM pgcursus.fetch_batches(1, 0, 0, 1, 1)$$), 'broker',
          'only_brokers_fetch');
SELECT is(pg_temp.who_may($$SELECT pgcursus.append(1, NULL, 0, 1, 1, false, false, 1, false, NULL, NULL,
  NULL, NULL, '{a}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)$$), 'broker',
          'only_brokers_append');
SELECT is(pg_temp.who_may($$SELECT pgcursus.note_standbys()$$), 'broker', 'only_brokers_look_at_standbys');
SELECT is(pg_temp.who_may($$SELECT pgcursus.create_topic('u', 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
  NULL, NULL, NULL, NULL, NULL, 3, 'delete', 10, 10, 10)$$), 'broker', 'only_brokers_create_topics');
SELECT is(pg_temp.who_may($$SELECT * FROM pgcursus.records$$), 'reader', 'only_readers_see_records');
SELECT is(pg_temp.who_may($$SELECT * FROM pgcursus.topics, pgcursus.partitions$$), 'reader',
          'only_readers_see_topics_and_partitions');
SELECT is(pg_temp.who_may($$SELECT * FROM pgcursus.read('t', 0)$$), 'reader', 'only_readers_read');
SELECT is(pg_temp.who_may($$SELECT * FROM pgcursus.groups, pgcursus.group_lag$$), 'reader',
          'only_readers_see_groups_and_lag');
SELECT is(pg_temp.who_may($$SELECT pgcursus.register_group('g', 'topic', 't')$$), 'broker',
          'only_brokers_register_groups');
SELECT is(pg_temp.who_may($$SELECT pgcursus.commit_offset('g', 't', 0, 1)$$), 'writer',
          'only_writers_commit_offsets');
SELECT is(pg_temp.who_may($$SELECT pgcursus.publish('t', 'k', 'v')$$), 'writer', 'only_writers_publish');
SELECT is(pg_temp.who_may($$SELECT * FROM pgcursus.schema_migrations, pgcursus.schema_files$$), 'broker',
          'brokers_see_the_schema_s_history');
SELECT is(pg_temp.who_may($$DELETE FROM pgcursus.schema_migrations$$), NULL, 'nobody_rewrites_history');
SELECT is(pg_temp.who_may(format('SELECT FROM pgcursus.%I', c.relname)), NULL,
          'nobody_reads_the_table_' || c.relname)
  FROM pg_class c
 WHERE c.relnamespace = 'pgcursus'::regnamespace AND c.relkind = 'r'
   AND c.relname NOT IN ('schema_migrations', 'schema_files');
SELECT is(pg_temp.who_may(format('DELETE FROM pgcursus.%I', c.relname)), NULL,
          'nobody_deletes_from_the_table_' || c.relname)
  FROM pg_class c
 WHERE c.relnamespace = 'pgcursus'::regnamespace AND c.relkind = 'r';
SELECT is(pg_temp.who_may($$SELECT * FROM pgcursus.login_users()$$), 'broker',
          'only_brokers_see_hashes');
SELECT is(pg_temp.who_may($$SELECT * FROM pgcursus.list_users()$$), NULL,
          'only_administrators_list_users');
SELECT is(pg_temp.who_may($$SELECT pgcursus.remove_user('a')$$), NULL,
          'only_administrators_remove_users');
SELECT is(pg_temp.who_may($$SELECT pgcursus.set_user('a', '{*}', NULL, NULL, NULL)$$), NULL,
          'only_administrators_set_users');
SELECT is(pg_temp.who_may($$SELECT nextval('pgcursus.log_ids')$$), NULL, 'nobody_draws_log_ids');
SELECT is(pg_temp.who_may($$CREATE TABLE pgcursus.mine (a int)$$), NULL, 'nobody_creates_in_the_schema');
SELECT * FROM finish();
ROLLBACK;
