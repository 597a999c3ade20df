-- Short ways to call the transaction functions; helpers.sql comes first.

CREATE FUNCTION pg_temp.producer(_id text) RETURNS text LANGUAGE sql AS $$
  SELECT 'txn-' || left(encode(sha256(convert_to(_id, 'UTF8')), 'hex'), 16)
$$;

CREATE FUNCTION pg_temp.init(_id text, _batch int DEFAULT 200) RETURNS text LANGUAGE sql AS $$
  SELECT CASE WHEN a.more THEN 'more' ELSE format('%s %s', a.producer_id, a.producer_epoch) END
    FROM pgcursus.init_producer_id(_id, 100000, _batch) a
$$;

-- The statement, for pg_temp.refusal().
CREATE FUNCTION pg_temp.begin_of(_id text, _epoch bigint, _producer text DEFAULT NULL,
                                 _timeout bigint DEFAULT 60000)
RETURNS text LANGUAGE sql AS $$
  SELECT format('SELECT pgcursus.begin_transaction(%L, %L, %s, %s)', _id,
                coalesce(_producer, pg_temp.producer(_id)), _epoch, _timeout)
$$;

CREATE FUNCTION pg_temp.add(
  _id text, _epoch bigint, _topic text, _partition int, _number bigint, _payload text,
  _key text DEFAULT NULL, _requested int DEFAULT NULL, _log_id bigint DEFAULT NULL)
RETURNS text LANGUAGE sql AS $$
  SELECT CASE a.status
           WHEN 10 THEN 'not found'
           WHEN 11 THEN format('fenced, current %s', a.current_value)
           WHEN 12 THEN format('not open %s', a.current_value)
           WHEN 13 THEN 'overdue'
           WHEN 14 THEN 'other content'
           WHEN 15 THEN format('capacity %s', a.expected_value)
           ELSE pg_temp.outcome(a)
         END
    FROM pgcursus.append_transactional(
           coalesce(_log_id, (SELECT log_id FROM pgcursus.topic_definition(_topic))), NULL, _partition,
           1, _id, pg_temp.producer(_id), _epoch, coalesce(_requested, _partition), _number,
           ARRAY[convert_to(_payload, 'UTF8')],
           CASE WHEN _key IS NOT NULL THEN ARRAY[convert_to(_key, 'UTF8')] END,
           NULL, NULL, NULL, NULL) a
$$;

CREATE FUNCTION pg_temp.finish(_id text, _epoch bigint, _commit boolean,
                               _principal text DEFAULT NULL, _batch int DEFAULT 200)
RETURNS text LANGUAGE sql AS $$
  SELECT CASE WHEN a.refusal IS NOT NULL THEN format('%s %s', a.refusal, a.refusal_fields)
              WHEN a.more THEN format('more %s', a.state)
              ELSE format('%s %s %s', a.state, a.messages, a.offsets)
         END
    FROM pgcursus.end_transaction(_id, pg_temp.producer(_id), _epoch, _commit, _principal, _batch) a
$$;

CREATE FUNCTION pg_temp.status(_id text, _batch int DEFAULT 200) RETURNS text LANGUAGE sql AS $$
  SELECT CASE WHEN a.more THEN format('more %s', a.state)
              ELSE format('%s %s %s %s', a.state, a.messages, a.participants, a.offsets)
         END
    FROM pgcursus.transaction_status(_id, _batch) a
$$;

CREATE FUNCTION pg_temp.stable(_topic text, _partition int) RETURNS text LANGUAGE sql AS $$
  SELECT format('%s of %s', p.stable_offset, p.end_offset)
    FROM pgcursus.partitions p
   WHERE p.topic = _topic AND p.partition = _partition
$$;
