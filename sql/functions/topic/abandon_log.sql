-- abandon_log: leaves a topic's log to housekeeping, with all that refers to it.
--
-- Arguments: _topic  the topic, locked and unused; it is about to lose its log.
-- Returns:   nothing.
-- Errors:    none.
-- Tables:    removed_logs (written), and as retire_groups().
--
-- Costs the same whatever the log holds. Producer states, event streams and staged offsets are kept
-- by log, so nobody finds them again. The nodes are told twice: to forget the definition, and to let
-- go whoever waits for the log to grow.
CREATE OR REPLACE FUNCTION pgcursus.abandon_log(_topic pgcursus.topic_definitions)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
BEGIN
  INSERT INTO removed_logs (log_id, partition_count)
  VALUES (_topic.log_id, _topic.partition_count);
  PERFORM retire_groups(_topic.name);
  PERFORM pg_notify('pgcursus_control', 'topic ' || _topic.name);
  PERFORM pg_notify('pgcursus_control', 'log ' || _topic.log_id);
END
$$;
