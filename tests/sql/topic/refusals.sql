-- create_topic: what is refused, with which fields, and in which order.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();
SELECT count(*) FROM pg_temp.create_topic('old', _partitions => 4) \g /dev/null
SELECT count(*) FROM pg_temp.create_topic('matches', 2, _event_sourcing => true, _idempotent => true,
                                          _aggregate_replay => true) \g /dev/null

CREATE FUNCTION pg_temp.refused(_arguments text) RETURNS jsonb LANGUAGE sql AS
  $$ SELECT pg_temp.refusal('SELECT pg_temp.create_topic(' || _arguments || ')') $$;
CREATE FUNCTION pg_temp.code(_arguments text) RETURNS text LANGUAGE sql AS
  $$ SELECT pg_temp.refused(_arguments) ->> 'code' $$;
CREATE FUNCTION pg_temp.reason(_arguments text) RETURNS text LANGUAGE sql AS
  $$ SELECT pg_temp.refused(_arguments) ->> 'reason' $$;

SELECT is(pg_temp.refused($$'z', _replication_factor => 1, _min_in_sync_replicas => 2$$),
          '{"code": "invalid_min_in_sync_replicas", "value": "2", "replication_factor": "1"}',
          'a_minimum_above_the_given_replication_factor_is_refused');
SELECT is(pg_temp.refused($$'old', _min_in_sync_replicas => 4$$),
          '{"code": "invalid_min_in_sync_replicas", "value": "4", "replication_factor": "3"}',
          'a_minimum_above_the_existing_replication_factor_is_refused');
SELECT is(pg_temp.refused($$'z', _min_in_sync_replicas => 9$$) ->> 'replication_factor', '3',
          'a_minimum_above_the_default_replication_factor_is_refused');

SELECT is(pg_temp.refused($$'old', _partitions => 1$$) - 'reason',
          '{"code": "create_topic_failed", "topic": "old"}', 'fewer_partitions_are_refused');
SELECT is(pg_temp.code($$'old', _replication_factor => 2$$), 'create_topic_failed',
          'another_replication_factor_is_refused');
SELECT alike(pg_temp.reason($$'old', _replication_factor => 2$$), '%replication_factor%',
             'the_reason_names_replication_factor');
SELECT alike(pg_temp.reason($$'old', _idempotent => true$$), '%idempotent%',
             'the_reason_names_idempotent');
SELECT alike(pg_temp.reason($$'old', _event_sourcing => true$$), '%event_sourcing%',
             'the_reason_names_event_sourcing');
SELECT alike(pg_temp.reason($$'old', _aggregate_replay => true$$), '%aggregate_replay%',
             'the_reason_names_aggregate_replay');
SELECT is(pg_temp.code($$'matches', _partitions => 3$$), 'create_topic_failed',
          'partitions_of_a_replay_topic_are_fixed');

SELECT is(pg_temp.code($$'z', _retention_hours => -1$$), 'invalid_topic_policy',
          'negative_retention_hours_are_refused');
SELECT alike(pg_temp.reason($$'z', _retention_hours => -1$$), '%retention_hours%',
             'the_reason_names_retention_hours');
SELECT alike(pg_temp.reason($$'z', _retention_bytes => -1$$), '%retention_bytes%',
             'the_reason_names_retention_bytes');
SELECT is(pg_temp.refused($$'z', _event_sourcing => true, _cleanup_policy => 'compact'$$) - 'reason',
          '{"code": "invalid_topic_policy", "field": "cleanup_policy"}',
          'an_event_sourced_topic_cannot_be_compacted');
SELECT is(pg_temp.code($$'matches', _cleanup_policy => 'delete,compact'$$), 'invalid_topic_policy',
          'the_existing_flag_counts_for_compaction');
SELECT is(pg_temp.code($$'z', _aggregate_replay => true$$), 'create_topic_failed',
          'replay_without_its_flags_is_refused');
SELECT is(pg_temp.code($$'__consumer_offsets'$$), 'create_topic_failed', 'the_internal_name_is_reserved');

SELECT alike(pg_temp.reason($$'z', _partitions => 5, _max_partitions_per_topic => 4$$),
             '%max_partitions_per_topic%', 'the_limit_of_partitions_per_topic_holds');
SELECT alike(pg_temp.reason($$'z', _partitions => 5, _max_partitions => 10$$),
             '%max_partitions %', 'the_limit_of_all_partitions_holds');
SELECT alike(pg_temp.reason($$'z', _max_topics => 2$$), '%max_topics%', 'the_limit_of_topics_holds');
SELECT is(pg_temp.code($$'old', _retention_hours => 1, _max_topics => 1, _max_partitions => 1$$), NULL,
          'a_patch_that_adds_nothing_ignores_the_limits');
SELECT is(pg_temp.code($$'z', _partitions => 70000, _max_partitions_per_topic => 100000$$),
          'create_topic_failed', 'no_topic_has_more_partitions_than_lock_keys_can_tell_apart');

SELECT is(pg_temp.code($$'old', _partitions => 1, _min_in_sync_replicas => 9$$),
          'invalid_min_in_sync_replicas', 'the_minimum_is_checked_before_partitions');
SELECT alike(pg_temp.reason($$'old', _partitions => 1, _idempotent => true$$), '%partitions%',
             'partitions_are_checked_before_immutable_fields');
SELECT is(pg_temp.code($$'old', _idempotent => true, _retention_hours => -1$$), 'create_topic_failed',
          'immutable_fields_are_checked_before_retention');

SELECT is((SELECT count(*) FROM topic_definition('z')), 0::bigint, 'a_refused_topic_is_not_created');
SELECT is((SELECT t.revision FROM topic_definition('matches') t), 1::bigint,
          'a_refused_patch_changes_nothing');
SELECT * FROM finish();
ROLLBACK;
