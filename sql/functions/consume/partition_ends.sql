-- partition_ends: the next offsets of several partitions, of one snapshot.
--
-- Arguments: _log_ids, _partitions   two arrays of one length.
-- Returns:   a row for each pair; end_offset is NULL when no topic has that log (any more).
-- Errors:    none.
-- Tables:    topic_definitions, partition_states, record_batches (read).
--
-- The broker's slow look at what its long polls wait for: one query for all of them.
CREATE OR REPLACE FUNCTION pgcursus.partition_ends(_log_ids bigint[], _partitions int[])
RETURNS TABLE (log_id bigint, partition int, end_offset bigint)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 100
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  SELECT w.log_id, w.partition,
         CASE WHEN EXISTS (SELECT FROM topic_definitions t WHERE t.log_id = w.log_id)
              THEN coalesce((SELECT b.last_offset + 1
                               FROM record_batches b
                              WHERE b.log_id = w.log_id AND b.partition = w.partition
                              ORDER BY b.base_offset DESC
                              LIMIT 1), p.end_offset)
          END
    FROM unnest(_log_ids, _partitions) AS w (log_id, partition)
    LEFT JOIN partition_states p ON p.log_id = w.log_id AND p.partition = w.partition
$$;
