-- remove_old_logs: everything of a removed log goes, in steps, and nothing of another.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();

SELECT is((SELECT (r.done, r.more)::text FROM remove_old_logs() r), '(0,f)',
          'with_nothing_removed_there_is_nothing_to_do');

SELECT count(*) FROM pg_temp.create_topic('old', 3) \g /dev/null
SELECT count(*) FROM pg_temp.create_topic('kept', 1) \g /dev/null
SELECT t.log_id AS old FROM topic_definition('old') t \gset
SELECT t.log_id AS kept FROM topic_definition('kept') t \gset
SELECT count(pg_temp.append('old', '{a,b}', p)) FROM generate_series(0, 2) p,
       generate_series(1, 700) \g /dev/null
SELECT pg_temp.append('kept', '{a,b}') \g /dev/null
INSERT INTO producer_states SELECT l, p, 'p' || n, 1, 1, 1
  FROM unnest(ARRAY[:old, :kept]) l, generate_series(0, 2) p, generate_series(1, 600) n;
INSERT INTO stream_versions
      (log_id, stream_key, version, record_offset, base_offset, partition, byte_count)
SELECT l, convert_to('k' || n % 7, 'UTF8'), n, n, n, 0, 1
  FROM unnest(ARRAY[:old, :kept]) l, generate_series(1, 1200) n;
INSERT INTO stream_versions
      (log_id, stream_key, version, record_offset, base_offset, partition, byte_count)
VALUES (:old, '', 1, 0, 0, 0, 1), (:old, '\xff', 1, 0, 0, 0, 1);
INSERT INTO latest_keys
SELECT l, p, 1, n, convert_to('k' || n, 'UTF8')
  FROM unnest(ARRAY[:old, :kept]) l, generate_series(0, 1) p, generate_series(1, 600) n;
INSERT INTO latest_producers
SELECT l, 2, 1, n, convert_to('p' || n, 'UTF8') FROM unnest(ARRAY[:old, :kept]) l, generate_series(1, 600) n;
INSERT INTO log_segments (log_id, partition, base_offset, end_offset, byte_count, last_appended_at)
SELECT l, p, n, n + 1, 1, now() FROM unnest(ARRAY[:old, :kept]) l, generate_series(0, 2) p, generate_series(1, 600) n;
INSERT INTO log_upkeep (log_id, partition, active_base, measured_offset, removed_offset)
SELECT l, p, 0, 0, 0 FROM unnest(ARRAY[:old, :kept]) l, generate_series(0, 2) p;
INSERT INTO stream_snapshots
SELECT l, convert_to('k' || n, 'UTF8'), n, decode(repeat('00', 300000), 'hex')
  FROM unnest(ARRAY[:old, :kept]) l, generate_series(1, 30) n;
INSERT INTO stream_snapshots VALUES (:old, '', 1, ''), (:old, '\x00', 1, '');

CREATE FUNCTION pg_temp.rows_of(_log_id bigint) RETURNS text LANGUAGE sql AS $$
  SELECT concat_ws(' ',
    (SELECT count(*) FROM record_batches b WHERE b.log_id = _log_id),
    (SELECT count(*) FROM producer_states p WHERE p.log_id = _log_id),
    (SELECT count(*) FROM stream_versions v WHERE v.log_id = _log_id),
    (SELECT count(*) FROM stream_snapshots s WHERE s.log_id = _log_id),
    (SELECT count(*) FROM partition_states p WHERE p.log_id = _log_id),
    (SELECT count(*) FROM latest_keys k WHERE k.log_id = _log_id),
    (SELECT count(*) FROM latest_producers l WHERE l.log_id = _log_id),
    (SELECT count(*) FROM log_segments s WHERE s.log_id = _log_id),
    (SELECT count(*) FROM log_upkeep u WHERE u.log_id = _log_id))
$$;
SELECT is(pg_temp.rows_of(:old), '2100 1800 1202 32 3 1200 600 1800 3', 'the_old_log_has_rows_everywhere');

INSERT INTO removed_logs (log_id, partition_count) VALUES (:old, 3);
SELECT throws_like('SELECT * FROM remove_old_logs()', '%but a topic has it',
                   'the_log_of_a_topic_is_never_removed');
DELETE FROM topic_definitions t WHERE t.name = 'old';

SELECT is((SELECT c.removed FROM removed_logs r, remove_log_chunk(r) c), 500::bigint,
          'a_chunk_has_a_limit');

-- All steps until there is no more, and what they removed in all.
CREATE FUNCTION pg_temp.remove_everything(OUT removed bigint, OUT steps int) LANGUAGE plpgsql AS $$
DECLARE
  _step record;
BEGIN
  removed := 0;
  steps := 0;
  LOOP
    SELECT * INTO _step FROM pgcursus.remove_old_logs();
    removed := removed + _step.done;
    steps := steps + 1;
    EXIT WHEN NOT _step.more OR steps > 1000;
  END LOOP;
END
$$;
SELECT is((SELECT r.removed FROM pg_temp.remove_everything() r), (2100 - 500 + 1800 + 1202 + 32 + 3 + 1200 + 600 + 1800 + 3)::bigint,
          'steps_remove_and_count_everything_else');
SELECT is(pg_temp.rows_of(:old), '0 0 0 0 0 0 0 0 0', 'nothing_of_the_removed_log_is_left');
SELECT is(pg_temp.rows_of(:kept), '1 1800 1200 30 1 1200 600 1800 3', 'another_log_keeps_all_it_has');
SELECT is((SELECT count(*) FROM removed_logs), 0::bigint, 'the_log_is_then_forgotten');

INSERT INTO removed_logs (log_id, partition_count) VALUES (999999, 2), (999998, 0);
SELECT is((SELECT r.removed FROM pg_temp.remove_everything() r), 0::bigint, 'a_log_without_rows_is_no_trouble');
SELECT is((SELECT count(*) FROM removed_logs), 0::bigint, 'and_is_forgotten_too');
SELECT * FROM finish();
ROLLBACK;
