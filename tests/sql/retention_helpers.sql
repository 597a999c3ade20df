-- Short ways to run retention and compaction; helpers.sql comes first.

-- Steps until there is no more: 'rows records bytes' removed. Each pass begins at the first partition.
CREATE FUNCTION pg_temp.retain(
  _hours bigint DEFAULT 168, _bytes bigint DEFAULT -1, _segment_bytes bigint DEFAULT 100,
  _roll_ms bigint DEFAULT 604800000, OUT removed text, OUT steps int)
LANGUAGE plpgsql AS $$
DECLARE
  _step record;
  _sum  bigint[] := '{0,0,0}';
BEGIN
  steps := 0;
  LOOP
    SELECT * INTO _step FROM pgcursus.retain_logs(_hours, _bytes, _segment_bytes, _roll_ms);
    _sum := ARRAY[_sum[1] + _step.done, _sum[2] + _step.records, _sum[3] + _step.bytes];
    steps := steps + 1;
    EXIT WHEN NOT _step.more OR steps > 1000;
  END LOOP;
  removed := array_to_string(_sum, ' ');
END
$$;
CREATE FUNCTION pg_temp.retained(
  _hours bigint DEFAULT 168, _bytes bigint DEFAULT -1, _segment_bytes bigint DEFAULT 100,
  _roll_ms bigint DEFAULT 604800000) RETURNS text
LANGUAGE sql AS $$ SELECT r.removed FROM pg_temp.retain(_hours, _bytes, _segment_bytes, _roll_ms) r $$;

CREATE FUNCTION pg_temp.compacted(
  _ratio float8 DEFAULT 0.5, _segment_bytes bigint DEFAULT 100, _roll_ms bigint DEFAULT 604800000)
RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  _step  record;
  _sum   bigint[] := '{0,0,0}';
  _steps int := 0;
BEGIN
  LOOP
    SELECT * INTO _step FROM pgcursus.compact_logs(_ratio, _segment_bytes, _roll_ms);
    _sum := ARRAY[_sum[1] + _step.done, _sum[2] + _step.records, _sum[3] + _step.bytes];
    _steps := _steps + 1;
    EXIT WHEN NOT _step.more OR _steps > 1000;
  END LOOP;
  RETURN array_to_string(_sum, ' ');
END
$$;

-- The segments of a partition: 'base-end:bytes ... base+bytes', the last one active.
CREATE FUNCTION pg_temp.segments(_topic text, _partition int DEFAULT 0) RETURNS text
LANGUAGE sql AS $$
  SELECT concat_ws(' ', string_agg(format('%s-%s:%s', s.base_offset, s.end_offset, s.byte_count), ' '
                                   ORDER BY s.base_offset),
                   format('%s+%s', u.active_base, u.active_bytes))
    FROM pgcursus.topic_definition(_topic) t
    JOIN pgcursus.log_upkeep u ON u.log_id = t.log_id AND u.partition = _partition
    LEFT JOIN pgcursus.log_segments s ON s.log_id = t.log_id AND s.partition = _partition
   GROUP BY u.active_base, u.active_bytes
$$;

-- 'earliest-end' as clients are told.
CREATE FUNCTION pg_temp.bounds(_topic text, _partition int DEFAULT 0) RETURNS text
LANGUAGE sql AS $$
  SELECT format('%s-%s', d.earliest_offset, d.end_offset)
    FROM pgcursus.describe_topic(_topic, _partition) d
$$;

-- Makes what is stored of a topic, from one offset to another, older.
CREATE FUNCTION pg_temp.age(_topic text, _age interval, _from bigint DEFAULT 0,
                            _to bigint DEFAULT 1000000) RETURNS void
LANGUAGE sql AS $$
  UPDATE pgcursus.record_batches b
     SET appended_at = b.appended_at - _age
   WHERE b.log_id = (SELECT t.log_id FROM pgcursus.topic_definition(_topic) t)
     AND b.base_offset >= _from AND b.base_offset < _to
$$;

CREATE FUNCTION pg_temp.batches(_topic text, _partition int DEFAULT 0) RETURNS text
LANGUAGE sql AS $$
  SELECT string_agg(format('%s-%s:%s', b.base_offset, b.last_offset, b.record_count), ' '
                    ORDER BY b.base_offset)
    FROM pgcursus.record_batches b
   WHERE b.log_id = (SELECT t.log_id FROM pgcursus.topic_definition(_topic) t)
     AND b.partition = _partition
$$;
