-- check_reservation: whether an event may be appended to its stream in a transaction.
--
-- Arguments: _log_id, _partition, _key; _version: that the event shall have.
-- Returns:   status 0 it may; 16, 17, 18 as append_transactional() says, with value.
-- Errors:    none.
-- Tables:    stream_versions, stream_reservations (read).
--
-- Under the partition's lock, as everything that appends to a stream.
CREATE OR REPLACE FUNCTION pgcursus.check_reservation(
  _log_id bigint, _partition int, _key bytea, _version bigint, OUT status int, OUT value bigint)
LANGUAGE plpgsql STABLE
AS $$
DECLARE
  _last record;
BEGIN
  status := 0;
  SELECT v.version, v.partition INTO _last
    FROM stream_versions v
   WHERE v.log_id = _log_id AND v.stream_key = short_key(_key)
   ORDER BY v.version DESC
   LIMIT 1;
  IF _last.partition <> _partition THEN
    status := 17;
    value := _last.partition::bigint;
  ELSIF _version <> coalesce(_last.version, 0) + 1 THEN
    status := 18;
    value := coalesce(_last.version, 0);
  ELSIF EXISTS (SELECT
                  FROM stream_reservations r
                 WHERE r.log_id = _log_id AND r.stream_key = short_key(_key)) THEN
    status := 16;
  END IF;
END
$$;
