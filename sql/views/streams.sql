-- streams: every aggregate of every topic with event streams, at its current version.
--
-- last_event_at is NULL once retention has removed the last event. To look at one aggregate, name topic
-- and aggregate in the condition: the index then finds it. A key of 1,000 bytes or more shows whole only
-- while its last event is there.
CREATE OR REPLACE VIEW pgcursus.streams AS
SELECT t.name AS topic,
       coalesce(b.keys[v.record_offset - v.base_offset + 1], v.stream_key) AS aggregate,
       v.version,
       v.partition,
       b.appended_at AS last_event_at,
       s.version AS snapshot_version,
       s.saved_at AS snapshot_at,
       t.log_id
  FROM pgcursus.topic_definitions t
  JOIN (SELECT DISTINCT ON (l.log_id, l.stream_key) l.*
          FROM pgcursus.stream_versions l
         ORDER BY l.log_id, l.stream_key, l.version DESC) v USING (log_id)
  LEFT JOIN pgcursus.record_batches b
    ON b.log_id = v.log_id AND b.partition = v.partition AND b.base_offset = v.base_offset
   AND b.record_count > 0
  LEFT JOIN pgcursus.stream_snapshots s ON s.log_id = v.log_id AND s.stream_key = v.stream_key;
