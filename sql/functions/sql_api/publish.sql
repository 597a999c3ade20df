-- publish: appends one record to a topic, within the caller's own transaction.
--
-- Arguments: topic, key (NULL: none), payload;
--            partition    NULL: by the topic's partitioner; without a key, or with round_robin, any;
--            event_type, metadata, "timestamp"  the record's own; NULL: none.
-- Returns:   the record's offset. It is final when the caller commits; if the caller rolls back, the
--            record never was and the offset goes to another.
-- Errors:    as a node refuses it: undefined_object for an unknown topic; invalid_parameter_value for a
--            partition that is not there, no payload, or a record too large to be read back;
--            insufficient_privilege for an auth_policy that denies writing; feature_not_supported for an
--            aggregate_replay topic; serialization_failure when a caller above READ COMMITTED has missed
--            a concurrent append: try the transaction again.
-- Tables:    topic_definitions, partition_states (locked, above READ COMMITTED), and as append().
--
-- Other writers of the partition wait until the caller ends. A caller that publishes to several
-- partitions should do so in the order of topics and partitions, as the nodes do, else two may wait for
-- each other and one fails. Durability is the caller's synchronous_commit.
CREATE OR REPLACE FUNCTION pgcursus.publish(
  topic text, key bytea, payload bytea, partition int DEFAULT NULL, event_type text DEFAULT NULL,
  metadata text DEFAULT NULL, "timestamp" timestamptz DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _topic     topic_definitions;
  _partition int;
  _bytes     int;
  _result    append_result;
BEGIN
  _topic := writable_topic(publish.topic, publish.partition);
  IF _topic.aggregate_replay THEN
    RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
      MESSAGE = format('topic %s takes events of its streams only', _topic.name);
  END IF;
  IF publish.payload IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'payload must not be NULL';
  END IF;
  _bytes := octet_length(publish.payload) + coalesce(octet_length(publish.key), 0)
            + coalesce(octet_length(publish.event_type), 0)
            + coalesce(octet_length(publish.metadata), 0);
  PERFORM check_record_size(_bytes);

  _partition := publish.partition;
  IF _partition IS NULL AND _topic.partitioner = 'hash_key' AND publish.key <> '' THEN
    _partition := partition_of_key(publish.key, _topic.partition_count);
  END IF;
  _partition := coalesce(_partition, floor(random() * _topic.partition_count)::int);

  IF current_setting('transaction_isolation') = 'read committed' THEN
    _result := append_record(_topic.log_id, _partition, publish.key, publish.payload,
                             publish.event_type, publish.metadata, publish."timestamp");
  ELSE
    -- The caller's snapshot may be older than a switch of the topic's log, which this lock notices,
    -- and than the partition's last batch, which the primary key does.
    PERFORM FROM topic_definitions t WHERE t.topic_id = _topic.topic_id FOR KEY SHARE;
    PERFORM check_snapshot(_topic.log_id, _partition);
    BEGIN
      _result := append_record(_topic.log_id, _partition, publish.key, publish.payload,
                               publish.event_type, publish.metadata, publish."timestamp");
    EXCEPTION WHEN unique_violation THEN
      _result.status := 2;
    END;
  END IF;
  IF _result.status = 2 THEN
    RAISE EXCEPTION USING ERRCODE = 'serialization_failure',
      MESSAGE = format('topic %s was changed or appended to at the same time', _topic.name),
      HINT = 'Run the transaction again.';
  END IF;
  RETURN _result.base_offset;
END
$$;
