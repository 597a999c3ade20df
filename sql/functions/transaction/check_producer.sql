-- check_producer: refuses unless a producer session is the current one of its transactional id.
--
-- Arguments: _transactional_id, _producer_id, _producer_epoch: what the request says;
--            _unknown_code  the refusal when the id was never initialised, or has expired.
-- Returns:   nothing.
-- Errors:    PC001: _unknown_code {reason}; producer_fenced {transactional_id, current_epoch,
--            requested_epoch} for another producer id or epoch.
-- Tables:    producers (read).
--
-- Under the lock of the transactional id: the session then stays current until the end of the database
-- transaction.
CREATE OR REPLACE FUNCTION pgcursus.check_producer(
  _transactional_id text, _producer_id text, _producer_epoch bigint, _unknown_code text)
RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _session producers;
BEGIN
  SELECT p.* INTO _session
    FROM producers p
   WHERE p.transactional_id = _transactional_id AND NOT p.expired;
  IF NOT FOUND THEN
    PERFORM refuse(_unknown_code, unknown_transaction(_transactional_id));
  END IF;
  IF _session.producer_id <> _producer_id OR _session.producer_epoch <> _producer_epoch THEN
    PERFORM refuse('producer_fenced', jsonb_build_object(
      'transactional_id', _transactional_id,
      'current_epoch', _session.producer_epoch::text,
      'requested_epoch', _producer_epoch::text));
  END IF;
END
$$;
