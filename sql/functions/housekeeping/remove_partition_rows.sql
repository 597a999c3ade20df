-- remove_partition_rows: removes the next rows that tell of a partition of a removed log.
--
-- Arguments: _log_id, _partition.
-- Returns:   number of rows removed, about 500 at most of each kind; 0 when nothing is left.
-- Errors:    none.
-- Tables:    producer_states, latest_keys, latest_producers, log_segments, log_upkeep (written).
CREATE OR REPLACE FUNCTION pgcursus.remove_partition_rows(_log_id bigint, _partition int)
RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  WITH producers AS (
    DELETE FROM producer_states p
     WHERE p.log_id = _log_id AND p.partition = _partition
       AND p.producer_id IN (SELECT s.producer_id
                               FROM producer_states s
                              WHERE s.log_id = _log_id AND s.partition = _partition
                              ORDER BY s.producer_id
                              LIMIT 500)
    RETURNING 1
  ), keys AS (
    DELETE FROM latest_keys k
     WHERE k.log_id = _log_id AND k.partition = _partition
       AND k.record_key IN (SELECT s.record_key
                              FROM latest_keys s
                             WHERE s.log_id = _log_id AND s.partition = _partition
                             ORDER BY s.record_key
                             LIMIT 500)
    RETURNING 1
  ), anchors AS (
    DELETE FROM latest_producers l
     WHERE l.log_id = _log_id AND l.partition = _partition
       AND l.producer_key IN (SELECT s.producer_key
                                FROM latest_producers s
                               WHERE s.log_id = _log_id AND s.partition = _partition
                               ORDER BY s.producer_key
                               LIMIT 500)
    RETURNING 1
  ), segments AS (
    DELETE FROM log_segments g
     WHERE g.log_id = _log_id AND g.partition = _partition
       AND g.base_offset IN (SELECT s.base_offset
                               FROM log_segments s
                              WHERE s.log_id = _log_id AND s.partition = _partition
                              ORDER BY s.base_offset
                              LIMIT 500)
    RETURNING 1
  ), upkeep AS (
    DELETE FROM log_upkeep u
     WHERE u.log_id = _log_id AND u.partition = _partition
    RETURNING 1
  )
  SELECT (SELECT count(*) FROM producers) + (SELECT count(*) FROM keys) + (SELECT count(*) FROM anchors)
         + (SELECT count(*) FROM segments) + (SELECT count(*) FROM upkeep)
$$;
