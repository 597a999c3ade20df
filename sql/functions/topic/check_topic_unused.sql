-- check_topic_unused: refuses to remove what a topic has while somebody works with it.
--
-- Arguments: _topic    its name; it and its groups are locked (lock_topic);
--            _log_id   its log, whose partitions are locked (lock_log); NULL: look at groups only;
--            _refusal  the error code.
-- Returns:   nothing.
-- Errors:    PC001 _refusal {topic, reason}.
-- Tables:    as group_in_use() and unfinished_transaction().
CREATE OR REPLACE FUNCTION pgcursus.check_topic_unused(_topic text, _log_id bigint, _refusal text)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _group          text := group_in_use(_topic);
  _transaction_id text;
BEGIN
  IF _group IS NOT NULL THEN
    PERFORM refuse(_refusal, jsonb_build_object(
      'topic', _topic, 'reason', format('consumer group %s has active members', _group)));
  END IF;
  _transaction_id := unfinished_transaction(_log_id);
  IF _transaction_id IS NOT NULL THEN
    PERFORM refuse(_refusal, jsonb_build_object(
      'topic', _topic, 'reason', format('transaction %s is not finished', _transaction_id)));
  END IF;
END
$$;
