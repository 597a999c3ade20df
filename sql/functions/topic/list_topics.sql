-- list_topics: every topic, with what a node needs to decide who may see it.
--
-- Arguments: none.
-- Returns:   a row a topic, in bytewise order of names.
-- Errors:    none.
-- Tables:    topic_definitions (read).
CREATE OR REPLACE FUNCTION pgcursus.list_topics()
RETURNS TABLE (
  topic text, auth_policy text, read_acl text, log_id bigint, partition_count int,
  revision bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  SELECT t.name, t.auth_policy, array_to_string(t.read_acl, ','), t.log_id, t.partition_count,
         t.revision
    FROM topic_definitions t
   ORDER BY t.name
$$;
