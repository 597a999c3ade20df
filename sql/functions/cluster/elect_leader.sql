-- elect_leader: makes a node the preferred one of a partition.
--
-- Arguments: _topic, _partition;
--            _broker        the node's id;
--            _leader        the node that leads while none is elected, as the caller computes it;
--            _leader_epoch  the partition's epoch as the caller has read it.
-- Returns:   one row: previous_leader, leader, leader_epoch, changed. The epoch rises by one when the
--            leader changes; a node that leads already is only pinned.
-- Errors:    PC001 partition_not_found {topic, partition};
--            PC001 leader_election_rejected {topic, partition, broker, reason}: the node is unknown or
--            not alive, or the epoch has moved since.
-- Tables:    topic_definitions, node_registrations (read), partition_states (written).
CREATE OR REPLACE FUNCTION pgcursus.elect_leader(
  _topic text, _partition int, _broker text, _leader text, _leader_epoch bigint)
RETURNS TABLE (previous_leader text, leader text, leader_epoch bigint, changed boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER ROWS 1
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _state    record;
  _is_alive boolean;
  _reason   text;
BEGIN
  SELECT p.log_id, p.leader_epoch, n.node_id AS elected INTO _state
    FROM topic_definitions t
    JOIN partition_states p ON p.log_id = t.log_id AND p.partition = _partition
    LEFT JOIN node_registrations n
      ON n.node_id = p.preferred_node AND n.lock_key = ANY (live_node_keys())
   WHERE t.name = _topic
     FOR UPDATE OF p;
  IF NOT FOUND THEN
    PERFORM refuse('partition_not_found', jsonb_build_object('topic', _topic, 'partition', _partition::text));
  END IF;
  SELECT n.lock_key = ANY (live_node_keys()) INTO _is_alive
    FROM node_registrations n WHERE n.node_id = _broker;
  IF _is_alive IS NULL THEN
    _reason := 'no such broker is registered';
  ELSIF NOT _is_alive THEN
    _reason := 'the broker is inactive';
  ELSIF _state.leader_epoch <> _leader_epoch THEN
    _reason := 'the leader epoch has changed meanwhile';
  END IF;
  IF _reason IS NOT NULL THEN
    PERFORM refuse('leader_election_rejected',
                   jsonb_build_object('topic', _topic, 'partition', _partition::text, 'broker', _broker,
                                      'reason', _reason));
  END IF;

  previous_leader := coalesce(_state.elected, _leader, '');
  leader := _broker;
  changed := previous_leader <> _broker;
  leader_epoch := _state.leader_epoch + changed::int;
  UPDATE partition_states p
     SET preferred_node = _broker, leader_epoch = elect_leader.leader_epoch
   WHERE p.log_id = _state.log_id AND p.partition = _partition;
  RETURN NEXT;
END
$$;
