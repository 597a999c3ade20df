-- check_sequences: walks the sequence numbers of one producer's records against its last one.
--
-- Arguments: _last_known  the producer's last sequence in this epoch, 0 when it has none yet;
--            _record_count, _first_sequence, _last_sequence, _sequences  as append() has them.
-- Returns:   status      0 some record is new; 1 every record is a duplicate; 6 a gap; 7 the first
--                        of this epoch is not 1;
--            keep        per record, whether it is new;
--            kept_count  how many are;
--            got_value, expected_value  of a gap.
-- Errors:    none.
-- Tables:    none.
--
-- The slow path of append(): used only when the numbers are not simply the next ones.
CREATE OR REPLACE FUNCTION pgcursus.check_sequences(
  _last_known bigint, _record_count int, _first_sequence bigint, _last_sequence bigint,
  _sequences bigint[],
  OUT status int, OUT keep boolean[], OUT kept_count int, OUT got_value bigint,
  OUT expected_value bigint)
LANGUAGE plpgsql IMMUTABLE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _consecutive boolean := _last_sequence - _first_sequence = _record_count - 1;
  _last     bigint := _last_known;
  _sequence bigint;
BEGIN
  status := 1;
  keep := array_fill(false, ARRAY[_record_count]);
  kept_count := 0;
  FOR _i IN 1 .. _record_count LOOP
    _sequence := CASE WHEN _sequences IS NOT NULL THEN _sequences[_i]
                      WHEN _consecutive THEN _first_sequence + _i - 1
                      ELSE _first_sequence END;
    IF _sequence = _last + 1 THEN
      status := 0;
      keep[_i] := true;
      kept_count := kept_count + 1;
      _last := _sequence;
    ELSIF _sequence > _last + 1 THEN
      status := CASE WHEN _last = 0 THEN 7 ELSE 6 END;
      got_value := _sequence;
      expected_value := _last + 1;
      RETURN;
    END IF;
  END LOOP;
END
$$;
