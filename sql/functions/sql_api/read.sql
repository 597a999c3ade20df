-- read: the records of one partition from an offset on.
--
-- Arguments: topic, partition;
--            from_offset  the first offset wanted; one below the earliest starts at the earliest;
--            max_records  at most this many records;
--            isolation    'read_committed': stop at the first record of an undecided transaction, and
--                         leave out aborted records and markers; 'read_uncommitted': everything.
-- Returns:   the columns of the view records, in offset order; nothing at or beyond the end.
-- Errors:    undefined_object for an unknown topic; invalid_parameter_value for a partition that the
--            topic does not have, and for any other bad argument.
-- Tables:    topic_definitions, partition_states, record_batches, transaction_states,
--            transaction_partitions (read).
--
-- The start is found by the index, so the cost depends on what is returned and not on the offset.
CREATE OR REPLACE FUNCTION pgcursus.read(
  topic text, partition int, from_offset bigint DEFAULT 0, max_records int DEFAULT 1000,
  isolation text DEFAULT 'read_committed')
RETURNS SETOF pgcursus.log_record
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
-- However small the planner believes the table to be: the index gives the order, batch by batch, so
-- that reading stops when there is enough.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $$
#variable_conflict use_column
DECLARE
  _log_id     bigint;
  _earliest   bigint;
  _from       bigint;
  _first_base bigint;
  _stable     bigint;
  _committed  boolean;
BEGIN
  _committed := lower(read.isolation) = 'read_committed';
  IF lower(read.isolation) IS DISTINCT FROM 'read_uncommitted' AND _committed IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
      MESSAGE = format('unknown isolation %L', read.isolation),
      HINT = 'It is read_committed or read_uncommitted.';
  END IF;
  IF read.partition IS NULL OR coalesce(read.from_offset, -1) < 0
     OR coalesce(read.max_records, -1) < 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
      MESSAGE = 'partition must be given, and from_offset and max_records must be 0 or more';
  END IF;
  _log_id := (topic_with_partition(read.topic, read.partition)).log_id;

  SELECT greatest(read.from_offset, p.earliest_offset), p.earliest_offset INTO _from, _earliest
    FROM partition_states p
   WHERE p.log_id = _log_id AND p.partition = read.partition;
  -- The batch that holds the first offset starts at or before it.
  SELECT b.base_offset INTO _first_base
    FROM record_batches b
   WHERE b.log_id = _log_id AND b.partition = read.partition
     AND b.base_offset BETWEEN _earliest AND _from
   ORDER BY b.base_offset DESC
   LIMIT 1;
  IF _committed THEN
    SELECT x.first_offset INTO _stable
      FROM transaction_partitions x
     WHERE x.log_id = _log_id AND x.partition = read.partition AND NOT x.resolved
     ORDER BY x.first_offset
     LIMIT 1;
  END IF;
  _stable := coalesce(_stable, 9223372036854775807);

  RETURN QUERY
  SELECT read.topic, r.partition, r."offset", r.key, r.payload, r."timestamp", r.appended_at,
         r.producer_id, r.producer_epoch, r.sequence, r.transaction_state, r.is_control,
         r.event_type, r.schema_version, r.aggregate_version, r.metadata, r.headers
    FROM record_rows r
   WHERE r.log_id = _log_id AND r.partition = read.partition
     AND r.base_offset >= coalesce(_first_base, _from) AND r.base_offset < _stable
     AND r."offset" >= _from AND r."offset" < _stable
     AND (NOT _committed
          OR (NOT r.is_control AND coalesce(r.transaction_state, 'committed') = 'committed'))
   ORDER BY r.base_offset, r."offset"
   LIMIT read.max_records;
END
$$;
