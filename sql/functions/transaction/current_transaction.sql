-- current_transaction: the transaction of a transactional id's current epoch, locked.
--
-- Arguments: _transactional_id.
-- Returns:   its row; all NULL when none was begun in this epoch.
-- Errors:    none.
-- Tables:    producers (read), transaction_states (locked).
CREATE OR REPLACE FUNCTION pgcursus.current_transaction(_transactional_id text)
RETURNS pgcursus.transaction_states
LANGUAGE plpgsql VOLATILE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _transaction transaction_states;
BEGIN
  SELECT t.* INTO _transaction
    FROM producers p
    JOIN transaction_states t USING (transactional_id, producer_epoch)
   WHERE p.transactional_id = _transactional_id
     FOR NO KEY UPDATE OF t;
  RETURN _transaction;
END
$$;
