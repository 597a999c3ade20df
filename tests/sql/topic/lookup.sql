-- topic_definition, describe_topic and list_topics.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();
SELECT count(*) FROM pg_temp.create_topic('b', 2) \g /dev/null
SELECT count(*) FROM pg_temp.create_topic('B', 1, _auth_policy => 'acl', _read_acl => '{x,y}') \g /dev/null
SELECT count(*) FROM pg_temp.create_topic('a-1', 1) \g /dev/null
SELECT pg_temp.append('b', '{one,two}', 1) \g /dev/null

SELECT is((SELECT array_agg(l.topic) FROM list_topics() l), ARRAY['B', 'a-1', 'b'],
          'topics_are_listed_in_bytewise_order');
SELECT is((SELECT (l.auth_policy, l.read_acl)::text FROM list_topics() l WHERE l.topic = 'B'),
          '(acl,"x,y")', 'the_list_says_who_may_read');
SELECT is((SELECT count(*) FROM topic_definition('__consumer_offsets')), 0::bigint,
          'the_internal_topic_does_not_exist');
SELECT is((SELECT count(*) FROM topic_definition('nope')), 0::bigint, 'an_unknown_topic_has_no_row');
SELECT is((SELECT count(*) FROM describe_topic('nope')), 0::bigint,
          'an_unknown_topic_is_not_described');
SELECT is((SELECT array_agg(d.partition || ':' || d.end_offset) FROM describe_topic('b') d),
          ARRAY['0:0', '1:2'], 'a_topic_is_described_partition_by_partition');
SELECT is((SELECT array_agg(d.partition || ':' || d.end_offset) FROM describe_topic('b', 1) d),
          ARRAY['1:2'], 'one_partition_may_be_asked_for');
SELECT is((SELECT (count(*), max(d.topic), max(d.partition))::text FROM describe_topic('b', 7) d),
          '(1,b,)', 'an_unknown_partition_of_a_known_topic_is_a_row_without_it');

SELECT is((SELECT (t.partitions, t.records_bound, t.read_acl)::text FROM topics t WHERE t.topic = 'b'),
          '(2,2,{})', 'the_view_topics_counts');
SELECT is((SELECT array_agg((p.partition, p.earliest_offset, p.end_offset, p.stable_offset)::text
                            ORDER BY p.partition)
             FROM partitions p WHERE p.topic = 'b'),
          ARRAY['(0,0,0,0)', '(1,0,2,2)'], 'the_view_partitions_has_the_bounds');
UPDATE partition_states SET earliest_offset = 9, end_offset = 9
 WHERE log_id = (SELECT log_id FROM topic_definition('b')) AND partition = 0;
SELECT is((SELECT (d.earliest_offset, d.end_offset)::text FROM describe_topic('b', 0) d), '(9,9)',
          'an_emptied_partition_keeps_its_end');
SELECT * FROM finish();
ROLLBACK;
