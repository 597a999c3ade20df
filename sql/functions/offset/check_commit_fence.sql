-- check_commit_fence: may this member commit offsets of these partitions now?
--
-- Arguments: _group, _topic, _member, _generation  as the member says;
--            _partitions          the partitions of the topic;
--            _registration_epoch  the incarnation that the client means; NULL: do not compare.
-- Returns:   a refusal (code, fields), or with a NULL code what the offsets are stored under.
-- Errors:    serialization_failure above READ COMMITTED when the group has just changed.
-- Tables:    group_definitions, group_members, topic_definitions (read).
--
-- The refusals in their order: topic_not_assigned_to_group, group_not_found, group_epoch_mismatch,
-- member_not_found, GEN_MISMATCH, NOT_OWNER for the first partition that is not the member's.
--
-- What it finds stays true until the caller's transaction ends: the caller holds the group's advisory
-- lock, shared (group_lock_key). Above READ COMMITTED the snapshot may be older than the lock, hence
-- the row lock there; such a caller should have taken it before the advisory lock, or it may deadlock
-- with whoever changes the group.
CREATE OR REPLACE FUNCTION pgcursus.check_commit_fence(
  _group text, _topic text, _member text, _generation bigint, _partitions int[],
  _registration_epoch bigint DEFAULT NULL)
RETURNS pgcursus.commit_fence
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _fence      commit_fence;
  _selector   text;
  _topics     text[];
  _counts     int[];
  _current    bigint;
  _member_id  text;
  _first      int;
  _count      int;
  _place      int;
  _partition  int;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM FROM group_definitions g WHERE g.name = _group FOR SHARE;
  END IF;
  SELECT g.group_id, g.registration_epoch, g.generation, g.selector, g.topics, g.partition_counts,
         m.member_id, m.first_position, m.position_count,
         (SELECT t.log_id FROM topic_definitions t WHERE t.name = _topic)
    INTO _fence.group_id, _fence.registration_epoch, _current, _selector, _topics, _counts,
         _member_id, _first, _count, _fence.log_id
    FROM group_definitions g
    LEFT JOIN group_members m ON m.group_id = g.group_id AND m.member_id = _member
   WHERE g.name = _group AND g.registered;

  _place := array_position(_topics, _topic);
  IF _fence.group_id IS NULL THEN
    _fence.code := 'group_not_found';
    _fence.fields := jsonb_build_object('group', _group);
  ELSIF _place IS NULL THEN
    _fence.code := 'topic_not_assigned_to_group';
    _fence.fields := wrong_topic_fields(_selector, _topics, _topic);
  ELSIF _registration_epoch <> _fence.registration_epoch THEN
    _fence.code := 'group_epoch_mismatch';
    _fence.fields := jsonb_build_object('group', _group);
  ELSIF _member_id IS NULL THEN
    _fence.code := 'member_not_found';
    _fence.fields := jsonb_build_object('member', _member, 'group', _group);
  ELSIF _generation <> _current THEN
    _fence.code := 'GEN_MISMATCH';
    _fence.fields := jsonb_build_object('current', _current::text, 'requested', _generation::text,
                                        'group', _group, 'member', _member);
  END IF;
  IF _fence.code IS NOT NULL THEN
    RETURN _fence;
  END IF;

  IF _place > 1 THEN
    _first := _first - (SELECT sum(c.n)::int FROM unnest(_counts[:_place - 1]) AS c (n));
  END IF;
  FOREACH _partition IN ARRAY _partitions LOOP
    IF _partition < _first OR _partition >= _first + _count OR _partition >= _counts[_place] THEN
      _fence.code := 'NOT_OWNER';
      _fence.fields := jsonb_build_object('partition', _partition::text, 'member', _member,
                                          'group', _group, 'generation', _generation::text);
      IF _selector <> 'topic' THEN
        _fence.fields := _fence.fields || jsonb_build_object('topic', _topic);
      END IF;
      EXIT;
    END IF;
  END LOOP;
  RETURN _fence;
END
$$;
