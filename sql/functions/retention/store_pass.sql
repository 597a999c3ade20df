-- store_pass: writes down where the next step of a pass through the partitions begins.
--
-- Arguments: _pass  the row of upkeep_passes, changed;
--            _more  the pass goes on there; else the next one begins at the first partition.
-- Returns:   nothing.
-- Errors:    none.
-- Tables:    upkeep_passes (written).
CREATE OR REPLACE FUNCTION pgcursus.store_pass(_pass pgcursus.upkeep_passes, _more boolean)
RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  UPDATE upkeep_passes p
     SET (log_id, partition) = (n.log_id, n.partition)
    FROM (SELECT CASE WHEN _more THEN _pass.log_id ELSE 0 END,
                 CASE WHEN _more THEN _pass.partition ELSE 0 END) AS n (log_id, partition)
   WHERE p.task = _pass.task AND (p.log_id, p.partition) <> (n.log_id, n.partition)
$$;
