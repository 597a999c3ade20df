-- What the tests share: short ways to call the functions of the protocol, gone with the session.

SET search_path = pgcursus, public;

-- create_topic() with every field absent unless it is named.
CREATE FUNCTION pg_temp.create_topic(
  _topic text, _partitions int DEFAULT NULL, _replication_factor int DEFAULT NULL,
  _idempotent boolean DEFAULT NULL, _event_sourcing boolean DEFAULT NULL,
  _aggregate_replay boolean DEFAULT NULL, _min_in_sync_replicas bigint DEFAULT NULL,
  _cleanup_policy text DEFAULT NULL, _retention_hours bigint DEFAULT NULL,
  _retention_bytes bigint DEFAULT NULL, _partitioner text DEFAULT NULL,
  _auth_policy text DEFAULT NULL, _read_acl text[] DEFAULT NULL, _write_acl text[] DEFAULT NULL,
  _max_topics bigint DEFAULT 10000, _max_partitions_per_topic bigint DEFAULT 1024,
  _max_partitions bigint DEFAULT 100000)
RETURNS TABLE (
  topic text, log_id bigint, partition_count int, replication_factor int, idempotent boolean,
  event_sourcing boolean, aggregate_replay boolean, min_in_sync_replicas int, cleanup_policy text,
  retention_hours bigint, retention_bytes bigint, partitioner text, auth_policy text,
  read_acl text, write_acl text, revision bigint, lifecycle_epoch bigint)
LANGUAGE sql AS $$
  SELECT * FROM pgcursus.create_topic(
    _topic, _partitions, _replication_factor, _idempotent, _event_sourcing, _aggregate_replay,
    _min_in_sync_replicas, _cleanup_policy, _retention_hours, _retention_bytes, _partitioner,
    _auth_policy, _read_acl, _write_acl, 3, 'delete', _max_topics, _max_partitions_per_topic,
    _max_partitions)
$$;

-- append() of text payloads to a topic by name. A producer makes it idempotent; sequences may be given
-- as first and last or one by one.
CREATE FUNCTION pg_temp.append(
  _topic text, _payloads text[], _partition int DEFAULT 0, _producer text DEFAULT NULL,
  _epoch bigint DEFAULT NULL, _first bigint DEFAULT NULL, _last bigint DEFAULT NULL,
  _sequences bigint[] DEFAULT NULL, _keys text[] DEFAULT NULL, _timestamps bigint[] DEFAULT NULL,
  _metadata text[] DEFAULT NULL, _strict boolean DEFAULT false, _revision bigint DEFAULT NULL,
  _require_isr boolean DEFAULT false, _min_insync int DEFAULT 1, _idempotent boolean DEFAULT NULL,
  _schema_versions bigint[] DEFAULT NULL, _log_id bigint DEFAULT NULL,
  _producer_ids text[] DEFAULT NULL, _producer_epochs bigint[] DEFAULT NULL,
  _event_ids text[] DEFAULT NULL, _payload_digests text[] DEFAULT NULL)
RETURNS pgcursus.append_result
LANGUAGE sql AS $$
  SELECT a.*
    FROM pgcursus.append(
           coalesce(_log_id, (SELECT t.log_id FROM pgcursus.topic_definition(_topic) t)), _revision,
           _partition, cardinality(_payloads),
           (SELECT sum(octet_length(p))::int FROM unnest(_payloads || _keys) p),
           coalesce(_idempotent, _producer IS NOT NULL), _require_isr, _min_insync, _strict,
           _producer, _epoch, coalesce(_first, _sequences[1]),
           coalesce(_last, _sequences[cardinality(_sequences)], _first + cardinality(_payloads) - 1),
           (SELECT array_agg(convert_to(p, 'UTF8') ORDER BY n)
              FROM unnest(_payloads) WITH ORDINALITY u(p, n)),
           (SELECT array_agg(convert_to(k, 'UTF8') ORDER BY n)
              FROM unnest(_keys) WITH ORDINALITY u(k, n)),
           _timestamps, _sequences, _producer_ids, _producer_epochs, NULL, _schema_versions, NULL,
           _metadata, _event_ids, _payload_digests) a
$$;

-- What append() said, as 'status base-last' or 'status current/expected'.
CREATE FUNCTION pg_temp.outcome(_result pgcursus.append_result) RETURNS text
LANGUAGE sql AS $$
  SELECT CASE (_result).status
           WHEN 0 THEN format('appended %s-%s', (_result).base_offset, (_result).last_offset)
           WHEN 1 THEN format('duplicate of %s', (_result).last_offset)
           WHEN 2 THEN 'stale'
           WHEN 3 THEN 'no partition'
           WHEN 4 THEN format('%s of %s replicas', (_result).current_value, (_result).expected_value)
           WHEN 5 THEN format('stale epoch, current %s', (_result).current_value)
           WHEN 6 THEN format('gap, expected %s got %s', (_result).expected_value, (_result).current_value)
           WHEN 7 THEN format('wrong first, expected %s got %s', (_result).expected_value,
                              (_result).current_value)
           WHEN 8 THEN 'duplicate of an unknown offset'
         END
$$;

-- The refusal of a statement as JSON: {"code": ..., fields}, or NULL when it was not refused.
CREATE FUNCTION pg_temp.refusal(_statement text) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  _detail text;
BEGIN
  EXECUTE _statement;
  RETURN NULL;
EXCEPTION WHEN SQLSTATE 'PC001' OR SQLSTATE 'PC002' THEN
  GET STACKED DIAGNOSTICS _detail = PG_EXCEPTION_DETAIL;
  RETURN jsonb_build_object('code', SQLERRM) || _detail::jsonb;
END
$$;

-- The payloads of a partition in order, as text, with their offsets: '0:a 1:b'.
CREATE FUNCTION pg_temp.contents(_topic text, _partition int DEFAULT 0) RETURNS text
LANGUAGE sql AS $$
  SELECT string_agg(format('%s:%s', r."offset", convert_from(r.payload, 'UTF8')), ' '
                    ORDER BY r."offset")
    FROM pgcursus.records r
   WHERE r.topic = _topic AND r.partition = _partition
$$;

-- How many buffers a query touches.
CREATE FUNCTION pg_temp.buffers(_query text) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
  _plan json;
BEGIN
  EXECUTE _query;  -- once before, so that planning does not count
  EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ' || _query INTO _plan;
  RETURN (_plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::int
       + (_plan -> 0 -> 'Plan' ->> 'Shared Read Blocks')::int;
END
$$;

-- A member's assignment as 'generation member: topic:Pn ...', the member without its digits.
CREATE FUNCTION pg_temp.assigned(_rows pgcursus.member_assignment[]) RETURNS text
LANGUAGE sql AS $$
  SELECT format('%s %s:%s', min(r.generation), regexp_replace(min(r.member_id), '-[0-9]{4}$', ''),
                coalesce(' ' || string_agg(r.topic || ':P' || r.partition, ' ' ORDER BY n), ''))
    FROM unnest(_rows) WITH ORDINALITY AS r (group_id, generation, member_id, is_subscription, topic,
                                             partition, n)
$$;
CREATE FUNCTION pg_temp.join_group(_group text, _member text, _topic text DEFAULT NULL,
                                   _session_timeout_ms bigint DEFAULT 30000) RETURNS text
LANGUAGE sql AS $$
  SELECT pg_temp.assigned(array_agg(j)) FROM pgcursus.join_group(_group, _member, _topic, _session_timeout_ms) j
$$;

-- The whole id of the only member whose id begins like this.
CREATE FUNCTION pg_temp.member(_group text, _base text) RETURNS text
LANGUAGE sql AS $$
  SELECT m.member_id FROM pgcursus.group_members m
    JOIN pgcursus.group_definitions g USING (group_id)
   WHERE g.name = _group AND m.member_id LIKE _base || '-____'
$$;

-- What every member has: 'a-: t:P0 t:P1; b-: t:P2'.
CREATE FUNCTION pg_temp.assignments(_group text) RETURNS text
LANGUAGE sql AS $$
  SELECT string_agg(s.line, '; ' ORDER BY s.member_id COLLATE "C")
    FROM (SELECT s.member_id, regexp_replace(s.member_id, '-[0-9]{4}$', '') || ':' ||
                 coalesce(' ' || string_agg(s.topic || ':P' || s.partition, ' '
                                            ORDER BY s.topic COLLATE "C", s.partition), '') AS line
            FROM pgcursus.group_status(_group) s WHERE s.member_id IS NOT NULL GROUP BY s.member_id) s
$$;
CREATE FUNCTION pg_temp.generation(_group text) RETURNS bigint
LANGUAGE sql AS $$ SELECT g.generation FROM pgcursus.group_definitions g WHERE g.name = _group $$;

-- commit_offsets(): 'committed', 'busy', or the refusal as JSON.
CREATE FUNCTION pg_temp.commit_offsets(_group text, _topic text, _member text, _generation bigint,
  _partitions int[], _offsets bigint[], _epoch bigint DEFAULT NULL) RETURNS text
LANGUAGE sql AS $$
  SELECT CASE c.status WHEN 0 THEN 'committed' WHEN 2 THEN 'busy'
                       ELSE (jsonb_build_object('code', c.code) || c.fields::jsonb)::text END
    FROM pgcursus.commit_offsets(_group, _topic, _member, _generation, _epoch, _partitions, _offsets) c
$$;
CREATE FUNCTION pg_temp.committed(_group text, _topic text, _partition int DEFAULT 0) RETURNS bigint
LANGUAGE sql AS $$ SELECT f.next_offset FROM pgcursus.fetch_offset(_group, _topic, _partition) f $$;

-- append_events() to a topic by name: texts, one event each; the partition of the first key unless it is
-- given. With event ids it is a topic with aggregate_replay, and digests are right unless given.
CREATE FUNCTION pg_temp.append_events(
  _topic text, _keys text[], _versions bigint[], _payloads text[] DEFAULT NULL,
  _partition int DEFAULT NULL, _event_id text DEFAULT NULL, _producer text DEFAULT NULL,
  _sequence bigint DEFAULT NULL, _epoch bigint DEFAULT 0, _revision bigint DEFAULT NULL,
  _require_isr boolean DEFAULT false, _min_insync int DEFAULT 1, _event_types text[] DEFAULT NULL,
  _metadata text[] DEFAULT NULL, _log_id bigint DEFAULT NULL)
RETURNS pgcursus.append_events_result
LANGUAGE sql AS $$
  SELECT a.*
    FROM (SELECT t.log_id, t.partition_count FROM pgcursus.topic_definition(_topic) t) t,
         LATERAL (SELECT array_agg(convert_to(k, 'UTF8') ORDER BY n) AS keys,
                         array_agg(convert_to(coalesce(_payloads[n], k || _versions[n]), 'UTF8')
                                   ORDER BY n) AS payloads
                    FROM unnest(_keys) WITH ORDINALITY u(k, n)) e,
         LATERAL pgcursus.append_events(
           coalesce(_log_id, t.log_id), _revision,
           coalesce(_partition, pgcursus.partition_of_key(e.keys[1], t.partition_count)),
           pgcursus.byte_count_of(e.payloads, e.keys), _require_isr, _min_insync, e.keys, _versions,
           e.payloads, _event_types, NULL, _metadata,
           CASE WHEN _event_id IS NOT NULL THEN ARRAY[_event_id] END,
           CASE WHEN _event_id IS NOT NULL THEN ARRAY[encode(sha256(e.payloads[1]), 'hex')] END,
           _producer, CASE WHEN _event_id IS NOT NULL THEN _epoch END, _sequence) a
$$;

-- What append_events() said, as 'appended base-last', or 'status value' of each event, or of the call.
CREATE FUNCTION pg_temp.events_outcome(_result pgcursus.append_events_result) RETURNS text
LANGUAGE sql AS $$
  SELECT CASE WHEN (_result).status <> 0
              THEN format('call %s %s/%s', (_result).status, (_result).current_value,
                          (_result).expected_value)
              WHEN (_result).event_statuses IS NULL
              THEN format('appended %s-%s', (_result).base_offset, (_result).last_offset)
              ELSE (SELECT string_agg(CASE s WHEN 0 THEN 'appended'
                                             WHEN 1 THEN 'repeat of ' || v
                                             WHEN 9 THEN 'conflict at ' || v
                                             WHEN 10 THEN 'in partition ' || v
                                             WHEN 11 THEN 'version taken'
                                             WHEN 12 THEN 'event id taken'
                                             WHEN 13 THEN 'original gone' END, ', ' ORDER BY n)
                      FROM unnest((_result).event_statuses, (_result).event_values)
                           WITH ORDINALITY e(s, v, n))
         END
$$;

-- A stream as its events say it: '1:a1@0 2:a2@3', version, payload and offset.
CREATE FUNCTION pg_temp.stream(_topic text, _key text) RETURNS text
LANGUAGE sql AS $$
  SELECT string_agg(format('%s:%s@%s', e.version, convert_from(e.payload, 'UTF8'), e."offset"), ' '
                    ORDER BY e.version)
    FROM pgcursus.read_stream(_topic, convert_to(_key, 'UTF8')) e
$$;
