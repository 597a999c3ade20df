-- read_stream_page: a snapshot of a stream, when one helps, and the events that follow.
--
-- Arguments: _log_id, _key;
--            _from_version  the first version wanted, at least 1;
--            _to_version    the last one wanted; NULL: the current one;
--            _use_snapshot  begin with the snapshot, if it is of _from_version or later;
--            _max_events, _max_bytes  the size of a page; an event counts _event_overhead bytes more
--                           than payload, key, event type and metadata have.
-- Returns:   a row for each 512 events, and one at least. In each the same:
--            head_version (0: unknown key), partition (NULL: unknown key);
--            snapshot_version, snapshot_payload  NULL when there is none or it was not used; the payload
--                           is in the first row only;
--            first_version  after the snapshot;
--            last_version   the last version of this page; first_version - 1 when there is none: no
--                           event is left, or the next one alone is larger than _max_bytes;
--            next_bytes, next_offset   what the event first_version counts in the latter case, and where
--                           it is;
--            and of the events first_version to last_version that are still there, in order:
--            event_count    how many are in this row;
--            versions, offsets  of each, or of the first alone when the others follow it directly;
--            payloads, ...  one element each; NULL: no event has any.
-- Errors:    PC001 stale_log.
-- Tables:    stream_versions, stream_snapshots, record_batches, partition_states (read).
--
-- STABLE: everything is of the caller's one snapshot. Open transactions do not matter: an event
-- that is in stream_versions counts. Nothing before first_version is looked at. The rows are small because
-- one with 10,000 events takes nearly twice the time, most of it for fresh memory.
CREATE OR REPLACE FUNCTION pgcursus.read_stream_page(
  _log_id bigint, _key bytea, _from_version bigint, _to_version bigint, _use_snapshot boolean,
  _max_events bigint, _max_bytes bigint, _event_overhead int)
RETURNS TABLE (
  head_version bigint, partition int, snapshot_version bigint, snapshot_payload bytea,
  first_version bigint, last_version bigint, next_bytes bigint, next_offset bigint,
  event_count int, versions bigint[],
  offsets bigint[], payloads bytea[], producer_ids text[], producer_epochs bigint[],
  sequences bigint[], event_types text[], schema_versions bigint[], metadata text[],
  event_ids text[], payload_digests text[])
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 1
SET search_path = pgcursus, pg_catalog, pg_temp
-- However small the planner believes the tables to be.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $$
#variable_conflict use_column
DECLARE
  _short      bytea := short_key(_key);
  _earliest   bigint;
  _bytes      bigint;
  _first      bigint;
  _last       bigint;
  _events     stream_events;
BEGIN
  PERFORM check_current_log(_log_id);
  SELECT v.version, v.partition, p.earliest_offset
    INTO head_version, partition, _earliest
    FROM stream_versions v
    JOIN partition_states p ON p.log_id = v.log_id AND p.partition = v.partition
   WHERE v.log_id = _log_id AND v.stream_key = _short
   ORDER BY v.version DESC
   LIMIT 1;
  head_version := coalesce(head_version, 0);
  first_version := _from_version;
  IF _use_snapshot THEN
    SELECT s.version, s.payload, s.version + 1
      INTO snapshot_version, snapshot_payload, first_version
      FROM stream_snapshots s
     WHERE s.log_id = _log_id AND s.stream_key = _short AND s.version >= _from_version;
    first_version := coalesce(first_version, _from_version);
  END IF;
  _to_version := least(coalesce(_to_version, head_version), head_version,
                       first_version + _max_events - 1,
                       first_version + _max_bytes / _event_overhead);
  last_version := first_version - 1;

  IF _to_version >= first_version THEN
    SELECT sum(v.byte_count + _event_overhead) INTO _bytes
      FROM stream_versions v
     WHERE v.log_id = _log_id AND v.stream_key = _short
       AND v.version BETWEEN first_version AND _to_version;
    IF _bytes > _max_bytes THEN
      SELECT max(t.version) FILTER (WHERE t.total <= _max_bytes),
             min(t.total), min(t.record_offset)
        INTO _to_version, _bytes, next_offset
        FROM (SELECT v.version, v.record_offset,
                     sum(v.byte_count + _event_overhead) OVER (ORDER BY v.version) AS total
                FROM stream_versions v
               WHERE v.log_id = _log_id AND v.stream_key = _short
                 AND v.version BETWEEN first_version AND _to_version) t;
    END IF;
    IF _to_version IS NULL THEN
      next_bytes := _bytes;
    ELSE
      next_offset := NULL;
      last_version := _to_version;
    END IF;
  END IF;

  _first := first_version;
  LOOP
    _last := least(last_version, _first + 511);
    IF _first <= _last THEN
      _events := find_stream_events(_log_id, partition, _short, _first, _last, _earliest);
    END IF;
    _events.event_count := coalesce(_events.event_count, 0);
    RETURN QUERY SELECT head_version, partition, snapshot_version, snapshot_payload, first_version,
                        last_version, next_bytes, next_offset, _events.*;
    snapshot_payload := NULL;
    _first := _last + 1;
    EXIT WHEN _first > last_version;
  END LOOP;
END
$$;
