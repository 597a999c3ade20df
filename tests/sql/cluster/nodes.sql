-- The registry of nodes: who is alive, who is forgotten, which node leads.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();

SELECT is(pgcursus.live_node_keys(), '{}', 'without_nodes_none_is_alive');
SELECT ok(pgcursus.register_node('b', 'host:2'), 'a_node_registers');
SELECT ok(pgcursus.register_node('b', 'host:2'), 'registering_again_is_harmless');
SELECT is((SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory' AND classid = 1885823844
             AND pid = pg_backend_pid()), 1, 'one_lock_is_held');
INSERT INTO pgcursus.node_registrations (node_id, address) VALUES ('a', 'host:1');
SELECT results_eq('SELECT node_id, address, is_alive FROM pgcursus.registered_nodes()',
                  $$VALUES ('a', 'host:1', false), ('b', 'host:2', true)$$,
                  'nodes_are_listed_by_id_with_whether_they_live');
SELECT results_eq('SELECT node_id, alive FROM pgcursus.nodes ORDER BY 1', $$VALUES ('a', false), ('b', true)$$,
                  'the_view_shows_the_same');

-- Housekeeping.
SELECT results_eq('SELECT done, more FROM pgcursus.note_lost_nodes(60000)', 'VALUES (1::bigint, false)',
                  'a_dead_node_is_noted');
SELECT results_eq('SELECT done, more FROM pgcursus.note_lost_nodes(60000)', 'VALUES (0::bigint, false)',
                  'once');
SELECT ok((SELECT lost_at IS NULL FROM pgcursus.node_registrations WHERE node_id = 'b'),
          'a_living_node_is_not_noted');
UPDATE pgcursus.node_registrations SET lost_at = clock_timestamp() - interval '30 s' WHERE node_id = 'a';
SELECT ok((SELECT last_seen < clock_timestamp() - interval '29 s' FROM pgcursus.registered_nodes()
            WHERE node_id = 'a'), 'a_dead_node_was_last_seen_when_it_was_noted');
SELECT results_eq('SELECT done FROM pgcursus.note_lost_nodes(60000)', 'VALUES (0::bigint)', 'it_is_kept_for_a_while');
UPDATE pgcursus.node_registrations SET lost_at = clock_timestamp() - interval '61 s';
SELECT results_eq('SELECT done FROM pgcursus.note_lost_nodes(60000)', 'VALUES (1::bigint)', 'and_then_forgotten');
SELECT results_eq('SELECT node_id FROM pgcursus.registered_nodes()', $$VALUES ('b')$$, 'a_living_node_never_is');

-- Electing.
SELECT count(*) FROM pg_temp.create_topic('t', 2) \g /dev/null
SELECT results_eq($$SELECT * FROM pgcursus.elect_leader('t', 1, 'b', 'a', 0)$$, $$VALUES ('a', 'b', 1::bigint, true)$$,
                  'a_leader_is_elected_and_the_epoch_rises');
SELECT results_eq($$SELECT * FROM pgcursus.elect_leader('t', 1, 'b', 'b', 1)$$, $$VALUES ('b', 'b', 1::bigint, false)$$,
                  'electing_the_leader_changes_nothing');
SELECT results_eq($$SELECT * FROM pgcursus.elect_leader('t', 0, 'b', 'b', 0)$$, $$VALUES ('b', 'b', 0::bigint, false)$$,
                  'a_node_that_leads_by_itself_is_pinned_without_an_epoch');
SELECT results_eq($$SELECT partition, leader_epoch, preferred_node FROM pgcursus.describe_topic('t')$$,
                  $$VALUES (0, 0::bigint, 'b'), (1, 1::bigint, 'b')$$, 'the_partition_remembers_it');
SELECT results_eq($$SELECT topic, partition, leader_epoch, preferred_node, end_offset FROM pgcursus.cluster_partitions()$$,
                  $$VALUES ('t', 0, 0::bigint, 'b', 0::bigint), ('t', 1, 1::bigint, 'b', 0::bigint)$$,
                  'the_cluster_shows_it');
SELECT throws_ok($$SELECT pgcursus.elect_leader('t', 2, 'b', 'b', 0)$$, 'PC001', 'partition_not_found',
                 'no_such_partition');
SELECT throws_ok($$SELECT pgcursus.elect_leader('u', 0, 'b', 'b', 0)$$, 'PC001', 'partition_not_found',
                 'no_such_topic');
SELECT throws_ok($$SELECT pgcursus.elect_leader('t', 1, 'x', 'b', 1)$$, 'PC001', 'leader_election_rejected',
                 'an_unknown_node_is_not_elected');
INSERT INTO pgcursus.node_registrations (node_id, address) VALUES ('dead', 'host:3');
SELECT throws_ok($$SELECT pgcursus.elect_leader('t', 1, 'dead', 'b', 1)$$, 'PC001', 'leader_election_rejected',
                 'a_dead_node_is_not_elected');
SELECT throws_ok($$SELECT pgcursus.elect_leader('t', 1, 'b', 'b', 0)$$, 'PC001', 'leader_election_rejected',
                 'an_epoch_that_has_moved_is_refused');
SELECT ok((SELECT wal_position > 0 FROM pgcursus.cluster_state()), 'the_wal_has_a_position');
SELECT is((SELECT leader FROM pgcursus.cluster_state()), NULL, 'nobody_keeps_house');

-- Leaving.
SELECT lives_ok($$SELECT pgcursus.unregister_node('b')$$, 'a_node_leaves');
SELECT is((SELECT count(*)::int FROM pgcursus.registered_nodes() WHERE is_alive), 0, 'and_is_gone');

-- A log that is gone has no end.
SELECT results_eq($$SELECT w.end_offset FROM pgcursus.partition_ends('{999999}', '{0}') w$$, 'VALUES (NULL::bigint)',
                  'the_end_of_a_log_that_is_gone_is_null');

SELECT finish();
ROLLBACK;
