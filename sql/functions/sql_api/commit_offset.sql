-- commit_offset: commits a consumer group's offset, within the caller's own transaction.
--
-- Arguments: "group", topic, partition;
--            next_offset  the next offset to read;
--            member, generation  of a member of the group, which then must own the partition; without
--              them the group must have no members: the caller is its only consumer.
-- Returns:   nothing. The offset counts when the caller commits.
-- Errors:    undefined_object for an unknown topic, invalid_parameter_value for a partition or an
--            offset that cannot be, a topic that the group does not consume, or an offset below the one
--            that is stored; object_in_use when the group has members and the caller is none;
--            object_not_in_prerequisite_state when the member may not commit the partition (any more);
--            lock_not_available at READ COMMITTED when the group is being rebalanced, and above it
--            serialization_failure when it just was: try the transaction again.
-- Tables:    offset_commits (written), group_definitions (written when the group is new).
--
-- A group that is not registered yet is registered for the topic. Until the caller's transaction ends
-- nobody can join or leave the group.
CREATE OR REPLACE FUNCTION pgcursus.commit_offset(
  "group" text, topic text, partition int, next_offset bigint, member text DEFAULT NULL,
  generation bigint DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _topic      topic_definitions;
  _current    group_definitions;
  _fence      commit_fence;
  _regression jsonb;
  _is_read_committed CONSTANT boolean := current_setting('transaction_isolation') = 'read committed';
BEGIN
  _topic := topic_with_partition(commit_offset.topic, coalesce(commit_offset.partition, -1));
  IF commit_offset.next_offset IS NULL OR commit_offset.next_offset < 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
      MESSAGE = 'next_offset must not be negative';
  END IF;
  IF commit_offset."group" IS NULL OR commit_offset."group" !~ '^[^[:space:][:cntrl:]]+$'
     OR octet_length(commit_offset."group") > 249 THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
      MESSAGE = 'a group''s name has 1 to 249 bytes and no blanks';
  END IF;
  IF (commit_offset.member IS NULL) <> (commit_offset.generation IS NULL) THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
      MESSAGE = 'member and generation go together';
  END IF;

  -- The row before the advisory lock, in the order of all others. Above READ COMMITTED it must be locked, as the
  -- snapshot may be older than the wait for the advisory lock.
  IF _is_read_committed THEN
    PERFORM FROM group_definitions g WHERE g.name = commit_offset."group" AND g.registered;
  ELSE
    PERFORM FROM group_definitions g
      WHERE g.name = commit_offset."group" AND (g.registered OR commit_offset.member IS NOT NULL)
        FOR SHARE;
  END IF;
  IF NOT FOUND AND commit_offset.member IS NULL THEN
    _current := lock_group(commit_offset."group");
    IF _current.registered IS NOT TRUE THEN
      PERFORM store_group(_current, commit_offset."group", 'topic', _topic.name, ARRAY[_topic.name]);
    END IF;
  END IF;
  -- Whoever has waited for the row must not be refused because a transaction that ends frees the row an instant before
  -- the advisory lock; that lock's holders have the row already, so that waiting for it cannot deadlock.
  IF NOT _is_read_committed THEN
    PERFORM pg_advisory_xact_lock_shared(group_lock_key(commit_offset."group"));
  ELSIF NOT pg_try_advisory_xact_lock_shared(group_lock_key(commit_offset."group")) THEN
    RAISE EXCEPTION USING ERRCODE = 'lock_not_available',
      MESSAGE = format('group %s is being rebalanced', commit_offset."group"),
      HINT = 'Run the transaction again.';
  END IF;

  IF commit_offset.member IS NULL THEN
    _fence := check_lone_commit(commit_offset."group", _topic.name);
  ELSE
    _fence := check_commit_fence(commit_offset."group", _topic.name, commit_offset.member,
                                 commit_offset.generation, ARRAY[commit_offset.partition]);
  END IF;
  IF _fence.code IS NOT NULL THEN
    RAISE EXCEPTION USING
      ERRCODE = CASE _fence.code WHEN 'topic_not_assigned_to_group' THEN 'invalid_parameter_value'
                                 WHEN 'group_in_use' THEN 'object_in_use'
                                 ELSE 'object_not_in_prerequisite_state' END,
      MESSAGE = format('group %s: %s', commit_offset."group", _fence.code),
      DETAIL = _fence.fields::text;
  END IF;
  _regression := apply_offset_commit(_fence, commit_offset."group", _topic.name,
                                     ARRAY[commit_offset.partition], ARRAY[commit_offset.next_offset]);
  IF _regression IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = _regression ->> 'reason';
  END IF;
END
$$;
