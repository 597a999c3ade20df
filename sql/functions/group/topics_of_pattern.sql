-- topics_of_pattern: the topics whose names a pattern matches.
--
-- Arguments: _pattern  `*` is any run of characters, `?` exactly one, everything else itself.
-- Returns:   their names in bytewise order; NULL when there is none.
-- Errors:    none.
-- Tables:    topic_definitions (read).
CREATE OR REPLACE FUNCTION pgcursus.topics_of_pattern(_pattern text)
RETURNS text[]
LANGUAGE sql STABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  SELECT array_agg(t.name ORDER BY t.name)
    FROM topic_definitions t
   WHERE t.name LIKE translate(regexp_replace(_pattern, '([\\%_])', '\\\1', 'g'), '*?', '%_')
$$;
