-- fail_append_stream: raises what append_stream() says of a refused event.
--
-- Arguments: _result            of append_events(), for one event;
--            _expected_version  what the caller asked for;
--            _topic             its name.
-- Returns:   never.
-- Errors:    as append_stream() documents them.
-- Tables:    none.
CREATE OR REPLACE FUNCTION pgcursus.fail_append_stream(
  _result pgcursus.append_events_result, _expected_version bigint, _topic text)
RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
BEGIN
  CASE coalesce(_result.event_statuses[1], _result.status)
    WHEN 9 THEN
      RAISE EXCEPTION USING ERRCODE = 'serialization_failure',
        MESSAGE = format('version_conflict: the stream is at version %s, so the next is not %s',
                         _result.event_values[1], _expected_version),
        DETAIL = jsonb_build_object('current', _result.event_values[1],
                                    'expected', _expected_version)::text,
        HINT = 'Read the stream and decide again.';
    WHEN 11 THEN
      RAISE EXCEPTION USING ERRCODE = 'unique_violation',
        MESSAGE = format('another event has version %s', _expected_version);
    WHEN 12 THEN
      RAISE EXCEPTION USING ERRCODE = 'unique_violation',
        MESSAGE = 'another event of the partition has this event id';
    WHEN 13 THEN
      RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
        MESSAGE = format('the event with version %s can no longer be read, so nobody knows whether this'
                         ' is a repeat', _expected_version);
    WHEN 14 THEN
      RAISE EXCEPTION USING ERRCODE = 'serialization_failure',
        MESSAGE = 'an open transaction has appended to the stream',
        HINT = 'Run the transaction again when that one has ended.';
    WHEN 5 THEN
      RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
        MESSAGE = format('the producer has a later epoch, %s', _result.current_value);
    WHEN 6, 7 THEN
      RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
        MESSAGE = format('the producer''s next sequence is %s, got %s', _result.expected_value,
                         _result.current_value);
    WHEN 8 THEN
      RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
        MESSAGE = 'the producer has used this sequence for another event';
    ELSE
      RAISE EXCEPTION USING ERRCODE = 'serialization_failure',
        MESSAGE = format('topic %s was changed or appended to at the same time', _topic),
        HINT = 'Run the transaction again.';
  END CASE;
END
$$;
