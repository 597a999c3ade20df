-- Compaction: what stays and what goes, when a pass runs, and what readers and producers see afterwards.
BEGIN;
\ir ../helpers.sql
\ir ../retention_helpers.sql
\ir ../transaction_helpers.sql
SELECT no_plan();

SELECT is(pg_temp.compacted(), '0 0 0', 'without_topics_there_is_nothing_to_do');
SELECT count(*) FROM pg_temp.create_topic('d', 1) \g /dev/null
SELECT count(pg_temp.append('d', ARRAY[repeat('x', 99)], _keys => '{k}')) FROM generate_series(1, 9) \g /dev/null
SELECT is(pg_temp.compacted(0.01), '0 0 0', 'without_the_policy_compact_nothing_goes');

-- The rules, in rows of one record; the last record closes the segments before it.
CREATE FUNCTION pg_temp.keyed(_topic text, _records text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  _record text;
BEGIN
  FOREACH _record IN ARRAY _records LOOP
    PERFORM pg_temp.append(_topic, ARRAY[split_part(_record, '=', 2)],
                           _keys => ARRAY[nullif(split_part(_record, '=', 1), '-')]);
  END LOOP;
END
$$;
CREATE FUNCTION pg_temp.close(_topic text) RETURNS void LANGUAGE sql AS $$
  SELECT pg_temp.append(_topic, ARRAY[repeat('.', 1000)])
$$;
CREATE FUNCTION pg_temp.shown(_topic text, _partition int DEFAULT 0) RETURNS text LANGUAGE sql AS $$
  SELECT string_agg(format('%s:%s=%s', r."offset", coalesce(convert_from(r.key, 'UTF8'), '-'),
                           convert_from(r.payload, 'UTF8')), ' ' ORDER BY r."offset")
    FROM pgcursus.records r WHERE r.topic = _topic AND r.partition = _partition AND octet_length(r.payload) < 1000
$$;
SELECT count(*) FROM pg_temp.create_topic('t', 1, _cleanup_policy => 'compact') \g /dev/null
SELECT pg_temp.keyed('t', '{a=1,b=1,-=1,a=2,=x,=y,-=2,b=,c=1}') \g /dev/null
SELECT is(pg_temp.compacted(0.01, 1000), '0 0 0', 'the_active_segment_is_never_compacted');
SELECT pg_temp.close('t') \g /dev/null
SELECT pg_temp.append('t', '{late}', _keys => '{c}') \g /dev/null
SELECT is(pg_temp.compacted(0.001, 900), '2 2 4', 'superseded_records_go');
SELECT is(pg_temp.shown('t'), '2:-=1 3:a=2 4:=x 5:=y 6:-=2 7:b= 8:c=1 10:c=late',
          'keyless_ones_stay_and_an_empty_payload_is_a_value_and_what_is_active_supersedes_nothing');
SELECT is(pg_temp.bounds('t'), '0-11', 'the_bounds_do_not_move');
SELECT is(pg_temp.batches('t'), '2-2:1 3-3:1 4-4:1 5-5:1 6-6:1 7-7:1 8-8:1 9-9:1 10-10:1', 'empty_rows_go');
SELECT is(pg_temp.compacted(0.01, 900), '0 0 0', 'nothing_is_left_to_do');
SELECT is((SELECT array_agg(r."offset") FROM read('t', 0, 0, 2) r), '{2,3}',
          'a_read_at_a_removed_offset_returns_the_next');
SELECT is((SELECT f.base_offset FROM fetch_batches((SELECT log_id FROM topic_definition('t')), 0, 1, 1, 1) f),
          2::bigint, 'also_for_clients');
SELECT is((SELECT array_agg(s.byte_count ORDER BY s.base_offset) FROM log_segments s
            WHERE s.log_id = (SELECT log_id FROM topic_definition('t'))), '{9,1000}', 'sizes_are_what_is_stored');
SELECT pg_temp.close('t') \g /dev/null
SELECT is(pg_temp.compacted(0.001, 900), '1 1 2', 'once_closed_it_does');
SELECT is(pg_temp.shown('t'), '2:-=1 3:a=2 4:=x 5:=y 6:-=2 7:b= 10:c=late', 'across_segments');

-- Producers: the newest record of each is kept as an anchor.
SELECT count(*) FROM pg_temp.create_topic('p', 1, _cleanup_policy => 'compact') \g /dev/null
SELECT pg_temp.append('p', '{1,2,3}', 0, 'idem', 1, 1, _keys => '{a,b,c}') \g /dev/null
SELECT pg_temp.append('p', '{4}', 0, 'free', 0, 7, _idempotent => false, _keys => '{a}') \g /dev/null
SELECT pg_temp.append('p', '{5,6}', _producer_ids => '{free,other}', _producer_epochs => '{0,0}',
                      _keys => '{b,a}') \g /dev/null
SELECT pg_temp.append('p', '{7}', _keys => '{c}') \g /dev/null
SELECT pg_temp.append('p', '{8}', _keys => '{b}') \g /dev/null
SELECT pg_temp.close('p') \g /dev/null
SELECT is(pg_temp.compacted(0.01, 900), '2 3 6', 'what_neither_key_nor_producer_needs_goes');
SELECT is(pg_temp.shown('p'), '2:c=3 4:b=5 5:a=6 6:c=7 7:b=8', 'the_newest_of_a_producer_stays');
SELECT is(pg_temp.batches('p'), '0-2:1 4-5:2 6-6:1 7-7:1 8-8:1', 'a_row_keeps_its_place');
SELECT is((SELECT r.sequence FROM read('p', 0, 0) r WHERE r."offset" = 2), 3::bigint, 'and_its_sequences');
SELECT is((SELECT (b.first_sequence, b.last_sequence, b.offset_deltas, b.sequences)::text FROM record_batches b
            WHERE b.producer_id = 'idem'), '(1,3,{2},{3})', 'and_their_range');
SELECT is(pg_temp.outcome(pg_temp.append('p', '{x}', 0, 'idem', 1, 1)), 'duplicate of 0',
          'a_duplicate_of_a_removed_record_gets_its_original_offset');
SELECT is(pg_temp.outcome(pg_temp.append('p', '{x}', 0, 'idem', 1, 5)), 'gap, expected 4 got 5', 'gaps_are_refused');
SELECT is(pg_temp.outcome(pg_temp.append('p', '{x}', 0, 'idem', 1, 4, _keys => '{c}')), 'appended 9-9',
          'the_next_is_appended');
SELECT pg_temp.append('p', '{y}', 0, 'idem', 1, 1, _idempotent => false, _keys => '{y}') \g /dev/null
SELECT pg_temp.append('p', '{z}', 0, NULL, _keys => '{c}') \g /dev/null
SELECT pg_temp.close('p') \g /dev/null
SELECT is(pg_temp.compacted(0.001, 900), '3 3 6', 'a_newer_record_that_is_not_idempotent_takes_the_anchor');
SELECT is(pg_temp.outcome(pg_temp.append('p', '{x}', 0, 'idem', 1, 4)), 'duplicate of 9', 'the_state_is_kept_all_the_same');
SELECT is(pg_temp.outcome(pg_temp.append('p', '{x}', 0, 'idem', 1, 2)), 'duplicate of 9', 'also_of_what_was_before');
SELECT is(pg_temp.outcome(pg_temp.append('p', '{x}', 0, 'idem', 1, 5)), 'appended 13-13', 'and_goes_on');

-- Transactions neither go nor supersede anything.
SELECT count(*) FROM pg_temp.create_topic('x', 1, _cleanup_policy => 'compact') \g /dev/null
SELECT pg_temp.append('x', '{1}', _keys => '{k}') \g /dev/null
SELECT pg_temp.init('id') \g /dev/null
SELECT begin_transaction('id', pg_temp.producer('id'), 0, 60000) \g /dev/null
SELECT pg_temp.add('id', 0, 'x', 0, 1, '2', 'k'), pg_temp.add('id', 0, 'x', 0, 2, '3', 'k') \g /dev/null
SELECT pg_temp.finish('id', 0, true) \g /dev/null
SELECT pg_temp.append('x', '{4}', _keys => '{l}') \g /dev/null
SELECT pg_temp.close('x') \g /dev/null
SELECT is(pg_temp.compacted(0.001, 900), '0 0 0', 'transactional_records_and_markers_stay_and_do_not_supersede');
SELECT pg_temp.append('x', '{5}', _keys => '{k}') \g /dev/null
SELECT pg_temp.close('x') \g /dev/null
SELECT is(pg_temp.compacted(0.001, 900), '1 1 2', 'but_ordinary_ones_go_around_them');
SELECT is((SELECT array_agg(r."offset") FROM read('x', 0) r WHERE r.key = 'k'), '{1,2,6}', 'these_stay');

-- The dirty ratio: of 10 keyed bytes in 20 closed ones 8 can go.
SELECT count(*) FROM pg_temp.create_topic('r', 1, _cleanup_policy => 'compact') \g /dev/null
SELECT pg_temp.keyed('r', '{k=1,k=2,k=3,k=4,k=5,-=0123456789}') \g /dev/null
SELECT pg_temp.close('r') \g /dev/null
SELECT is(pg_temp.compacted(0.41, 900), '0 0 0', 'below_the_ratio_nothing_goes');
SELECT is(pg_temp.compacted(0.4, 900), '4 4 8', 'at_the_ratio_it_does');
SELECT count(*) FROM pg_temp.create_topic('ra', 1, _cleanup_policy => 'compact') \g /dev/null
SELECT pg_temp.append('ra', '{1}', 0, 'p', 1, 1, _keys => '{k}') \g /dev/null
SELECT pg_temp.append('ra', '{2}', _keys => '{k}') \g /dev/null
SELECT pg_temp.close('ra') \g /dev/null
SELECT is(pg_temp.compacted(0.5, 900), '0 0 0', 'an_anchor_does_not_count');
SELECT pg_temp.append('ra', '{3}', 0, 'p', 1, 2) \g /dev/null
SELECT pg_temp.close('ra') \g /dev/null
SELECT is(pg_temp.compacted(0.001, 900), '1 1 2', 'until_there_is_a_newer_one');

-- Wide rows with every column.
SELECT count(*) FROM pg_temp.create_topic('w', 1, _cleanup_policy => 'compact') \g /dev/null
SELECT pg_temp.append('w', '{1,2,3,4}', _keys => '{a,b,NULL,a}', _timestamps => '{10,20,30,40}',
                      _metadata => '{m,n,o,p}', _schema_versions => '{1,2,3,4}', _producer_ids => '{NULL,q,q,NULL}',
                      _producer_epochs => '{0,1,2,3}', _sequences => '{9,8,7,6}', _event_ids => '{e,f,g,h}',
                      _payload_digests => '{d,d,d,d}') \g /dev/null
UPDATE record_batches SET headers = ARRAY['1', '2', '3', '4']::jsonb[] WHERE metadata IS NOT NULL;
SELECT pg_temp.append('w', '{5}', _keys => '{b}') \g /dev/null
SELECT pg_temp.close('w') \g /dev/null
SELECT is(pg_temp.compacted(0.01, 900), '1 2 4', 'of_a_wide_row_some_records_go');
SELECT is((SELECT array_agg((r."offset", convert_from(r.payload, 'UTF8'), convert_from(r.key, 'UTF8'),
                             (extract(epoch FROM r."timestamp") * 1000)::int, r.producer_id, r.producer_epoch,
                             r.sequence, r.schema_version, r.metadata, r.headers)::text ORDER BY r."offset")
             FROM records r WHERE r.topic = 'w' AND r."offset" < 4),
          ARRAY['(2,3,,30,q,2,7,3,o,3)', '(3,4,a,40,,3,6,4,p,4)'], 'all_of_the_others_stays');
SELECT is((SELECT (b.event_ids, b.payload_digests, b.byte_count)::text FROM record_batches b
            WHERE b.metadata IS NOT NULL), '("{g,h}","{d,d}",3)', 'in_every_column');
SELECT pg_temp.append('w', '{6}', _keys => '{a}') \g /dev/null
SELECT pg_temp.close('w') \g /dev/null
SELECT is(pg_temp.compacted(0.001, 900), '1 1 2', 'a_row_may_be_compacted_again');
SELECT is(pg_temp.shown('w'), '2:-=3 4:b=5 6:a=6', 'and_keeps_its_offsets');

-- Both policies.
SELECT count(*) FROM pg_temp.create_topic('b', 1, _cleanup_policy => 'delete,compact') \g /dev/null
SELECT pg_temp.keyed('b', '{a=1,a=2,b=1}') \g /dev/null
SELECT pg_temp.close('b') \g /dev/null
SELECT is(pg_temp.compacted(0.01, 900), '1 1 2', 'with_both_policies_it_is_compacted');
SELECT is(pg_temp.retained(_bytes => 1000, _segment_bytes => 900), '2 2 4', 'and_trimmed');
SELECT is((SELECT count(*) FROM latest_keys k WHERE k.log_id = (SELECT log_id FROM topic_definition('b'))),
          0::bigint, 'what_is_gone_is_forgotten');
SELECT pg_temp.keyed('b', '{a=3,a=4}') \g /dev/null
SELECT pg_temp.close('b') \g /dev/null
SELECT is(pg_temp.compacted(0.0001, 900), '1 1 2', 'and_it_goes_on');
SELECT is(pg_temp.shown('b') || ' ' || pg_temp.bounds('b'), '5:a=4 3-7', 'with_what_is_there');
SELECT is((SELECT (u.keyed_bytes, u.latest_bytes, u.closed_bytes)::text FROM log_upkeep u
            WHERE u.log_id = (SELECT log_id FROM topic_definition('b'))), '(2,2,1002)', 'the_sums_are_right');
SELECT pg_temp.age('b', '9 days') \g /dev/null
UPDATE log_segments SET last_appended_at = last_appended_at - interval '9 days';
SELECT pg_temp.retain(_roll_ms => 1) \g /dev/null
SELECT pg_temp.compacted(0.0001, 900) \g /dev/null
SELECT is((SELECT (u.keyed_bytes, u.latest_bytes)::text FROM log_upkeep u
            WHERE u.log_id = (SELECT log_id FROM topic_definition('b'))), '(0,0)', 'down_to_nothing');

-- Long keys.
SELECT count(*) FROM pg_temp.create_topic('l', 1, _cleanup_policy => 'compact') \g /dev/null
SELECT pg_temp.append('l', '{1,2,3}', _keys => ARRAY[repeat('k', 65000), repeat('k', 64999), repeat('k', 65000)]) \g /dev/null
SELECT pg_temp.close('l') \g /dev/null
SELECT is(pg_temp.compacted(0.01, 900), '1 1 65001', 'keys_of_any_length_are_told_apart');

-- The rules once more, by window functions over a random log of many rows and segments.
SELECT setseed(0.29);
SELECT count(*) FROM pg_temp.create_topic('any', 3, _cleanup_policy => 'compact') \g /dev/null
SELECT count(pg_temp.append(
         'any', r.payloads, n % 3, _keys => r.keys, _producer_ids => r.producers,
         _producer_epochs => array_fill(0, ARRAY[cardinality(r.keys)]), _idempotent => false))
  FROM generate_series(1, 400) n,
       LATERAL (SELECT array_agg('v' || n || '.' || i) AS payloads,
                       array_agg(CASE WHEN random() < 0.9 THEN 'k' || floor(random() * 40)::int END) AS keys,
                       array_agg(CASE WHEN random() < 0.5 THEN 'p' || floor(random() * 20)::int END) AS producers
                  FROM generate_series(1, 1 + (n * 7) % 11) i) r \g /dev/null
UPDATE record_batches b SET transaction_id = -1
 WHERE b.log_id = (SELECT log_id FROM topic_definition('any')) AND b.base_offset % 7 = 0;
SELECT pg_temp.retain(_segment_bytes => 200) \g /dev/null
CREATE TEMPORARY TABLE expected AS
SELECT c.partition, c."offset", c.payload
  FROM (SELECT r.partition, r."offset", r.payload, r.key, r.transaction_state,
               r."offset" < u.active_base AS is_closed,
               count(*) FILTER (WHERE r.transaction_state IS NULL AND r."offset" < u.active_base)
                 OVER (PARTITION BY r.partition, r.key ORDER BY r."offset" DESC) AS newer_of_key,
               count(*) FILTER (WHERE r."offset" < u.active_base)
                 OVER (PARTITION BY r.partition, r.producer_id ORDER BY r."offset" DESC) AS newer_of_producer,
               r.producer_id
          FROM records r
          JOIN topic_definition('any') t ON t.topic = r.topic
          JOIN log_upkeep u ON u.log_id = t.log_id AND u.partition = r.partition) c
 WHERE (c.is_closed AND c.key <> '' AND c.transaction_state IS NULL AND c.newer_of_key > 1
            AND (c.producer_id IS NULL OR c.newer_of_producer > 1)) IS NOT TRUE;
SELECT cmp_ok((SELECT count(*) FROM expected), '<', (SELECT count(*) / 2 FROM records WHERE topic = 'any'),
              'much_can_go');
CREATE TEMPORARY TABLE before AS
SELECT (SELECT count(*) FROM records r WHERE r.topic = 'any') AS records;
SELECT is(split_part(pg_temp.compacted(0.3, 200), ' ', 2)::bigint,
          (SELECT b.records FROM before b) - (SELECT count(*) FROM expected), 'so_much_goes');
SELECT is((SELECT count(*) FROM (SELECT partition, "offset", payload FROM records WHERE topic = 'any'
                                 EXCEPT ALL TABLE expected) e), 0::bigint, 'nothing_stays_that_should_go');
SELECT is((SELECT count(*) FROM (TABLE expected
                                 EXCEPT ALL SELECT partition, "offset", payload FROM records WHERE topic = 'any') e),
          0::bigint, 'nothing_goes_that_should_stay');

-- What is written down of segments, keys and producers is what is there.
CREATE FUNCTION pg_temp.faults() RETURNS text LANGUAGE sql AS $$
  SELECT concat_ws(', ',
    (SELECT 'segment at ' || min(s.base_offset)
       FROM log_segments s
      CROSS JOIN LATERAL (SELECT coalesce(sum(b.byte_count), 0) AS stored,
                                 coalesce(sum(byte_count_of(b.payloads, b.keys)), 0) AS real
                            FROM record_batches b
                           WHERE b.log_id = s.log_id AND b.partition = s.partition
                             AND b.base_offset >= s.base_offset AND b.base_offset < s.end_offset) b
      WHERE s.byte_count <> b.stored OR b.stored <> b.real),
    (SELECT 'sums of ' || min(u.log_id)
       FROM log_upkeep u
      WHERE (u.closed_bytes, u.keyed_bytes, u.latest_bytes) <>
            ((SELECT coalesce(sum(s.byte_count), 0) FROM log_segments s
               WHERE s.log_id = u.log_id AND s.partition = u.partition),
             (SELECT coalesce(sum(s.keyed_bytes), 0) FROM log_segments s
               WHERE s.log_id = u.log_id AND s.partition = u.partition),
             (SELECT coalesce(sum(k.byte_count), 0) FROM latest_keys k
               WHERE k.log_id = u.log_id AND k.partition = u.partition))),
    (SELECT 'keyed bytes of ' || min(u.log_id)
       FROM log_upkeep u
      WHERE u.keyed_bytes <>
            (SELECT coalesce(sum(octet_length(r.payload) + octet_length(r.key)), 0)
               FROM record_rows r
               JOIN partition_states p USING (log_id, partition)
              WHERE r.log_id = u.log_id AND r.partition = u.partition AND r."offset" >= p.earliest_offset
                AND r."offset" < u.indexed_offset AND r.key <> '' AND r.transaction_state IS NULL)),
    (SELECT 'keys: ' || count(*)
       FROM (SELECT log_id, partition, record_key, record_offset FROM latest_keys) k
       FULL JOIN (SELECT r.log_id, r.partition, short_key(r.key) AS record_key, max(r."offset") AS record_offset
                    FROM record_rows r
                    JOIN partition_states p USING (log_id, partition)
                    JOIN log_upkeep u USING (log_id, partition)
                   WHERE r."offset" >= p.earliest_offset AND r."offset" < u.indexed_offset AND r.key <> ''
                     AND r.transaction_state IS NULL
                   GROUP BY 1, 2, 3) n USING (log_id, partition, record_key, record_offset)
      WHERE k.record_key IS NULL OR n.record_key IS NULL
     HAVING count(*) > 0),
    (SELECT 'producers: ' || count(*)
       FROM (SELECT log_id, partition, producer_key, record_offset FROM latest_producers) k
       FULL JOIN (SELECT r.log_id, r.partition, short_key(convert_to(r.producer_id, 'UTF8')) AS producer_key,
                         max(r."offset") AS record_offset
                    FROM record_rows r
                    JOIN partition_states p USING (log_id, partition)
                    JOIN log_upkeep u USING (log_id, partition)
                   WHERE r."offset" >= p.earliest_offset AND r."offset" < u.indexed_offset
                     AND r.producer_id IS NOT NULL AND NOT r.is_control
                   GROUP BY 1, 2, 3) n USING (log_id, partition, producer_key, record_offset)
      WHERE k.producer_key IS NULL OR n.producer_key IS NULL
     HAVING count(*) > 0))
$$;
SELECT is(pg_temp.faults(), '', 'what_is_written_down_is_what_is_there');

-- Both policies, in turn and in single steps, while it grows.
SELECT count(*) FROM pg_temp.create_topic('any', _cleanup_policy => 'delete,compact', _retention_bytes => 2000) \g /dev/null
CREATE FUNCTION pg_temp.churn(_rounds int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  _found text;
BEGIN
  FOR _n IN 1 .. _rounds LOOP
    PERFORM pg_temp.append('any', ARRAY['w' || _n, repeat('w', _n % 30)], _n % 3,
                           _keys => ARRAY['k' || floor(random() * 40)::int, 'n' || _n % 9],
                           _producer_ids => ARRAY['p' || floor(random() * 20)::int, NULL],
                           _producer_epochs => '{0,0}', _idempotent => false);
    CASE floor(random() * 4)::int
      WHEN 0 THEN PERFORM pgcursus.retain_logs(168, -1, 200, 604800000);
      WHEN 1 THEN PERFORM pgcursus.compact_logs(0.2, 200, 604800000);
      ELSE NULL;
    END CASE;
    IF _n % 20 = 0 THEN
      PERFORM pg_temp.retain(_segment_bytes => 200);
      _found := pg_temp.faults();
      IF _found <> '' THEN
        RETURN format('after %s rounds: %s', _n, _found);
      END IF;
    END IF;
  END LOOP;
  RETURN '';
END
$$;
SELECT is(pg_temp.churn(300), '', 'it_stays_so_with_both_policies');
SELECT cmp_ok((SELECT min(p.earliest_offset) FROM partitions p WHERE p.topic = 'any'), '>', 0::bigint, 'much_went');
SELECT * FROM finish();
ROLLBACK;
