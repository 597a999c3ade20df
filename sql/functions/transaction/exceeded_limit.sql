-- exceeded_limit: the limit of one transaction that one more record would pass.
--
-- Arguments: _transaction_id; _log_id, _partition: where the record goes;
--            _sequence, _bytes  the transaction's records and bytes in this partition with the record.
-- Returns:   10000 (records) or 67108864 (bytes), or NULL when there is room.
-- Errors:    none.
-- Tables:    transaction_partitions, transaction_requests (read).
--
-- Exact for the partition; the others are added up at every sixteenth record only, as that costs a look
-- at each. Partitions that are appended to at the same moment do not see one another.
CREATE OR REPLACE FUNCTION pgcursus.exceeded_limit(
  _transaction_id bigint, _log_id bigint, _partition int, _sequence bigint, _bytes bigint)
RETURNS bigint
LANGUAGE plpgsql STABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _other_records bigint := 0::bigint;
  _other_bytes   bigint := 0::bigint;
BEGIN
  IF _sequence % 16 = 1 THEN
    SELECT coalesce(sum(r.sequence), 0)::bigint, coalesce(sum(r.byte_total), 0)::bigint
      INTO _other_records, _other_bytes
      FROM transaction_partitions p
     CROSS JOIN LATERAL (
             SELECT q.sequence, q.byte_total
               FROM transaction_requests q
              WHERE q.transaction_id = p.transaction_id AND q.log_id = p.log_id
                AND q.partition = p.partition
              ORDER BY q.sequence DESC
              LIMIT 1) r
     WHERE p.transaction_id = _transaction_id
       AND (p.log_id, p.partition) <> (_log_id, _partition);
  END IF;
  RETURN CASE WHEN _sequence + _other_records > 10000 THEN 10000::bigint
              WHEN _bytes + _other_bytes > 67108864 THEN 67108864::bigint
         END;
END
$$;
