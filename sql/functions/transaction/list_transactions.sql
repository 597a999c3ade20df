-- list_transactions: transactions that are not finished, the oldest first.
--
-- Arguments: _limit.
-- Returns:   a row each, of the view transactions; age_ms is how long ago it was begun.
-- Errors:    none.
-- Tables:    the view transactions.
CREATE OR REPLACE FUNCTION pgcursus.list_transactions(_limit bigint)
RETURNS TABLE (
  transactional_id text, producer_id text, producer_epoch bigint, state text, age_ms bigint,
  messages bigint, offsets bigint, holds_back bigint, touched text[])
LANGUAGE sql STABLE SECURITY DEFINER ROWS 10
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
  SELECT x.transactional_id, x.producer_id, x.producer_epoch, x.state,
         floor(extract(epoch FROM x.age) * 1000)::bigint, x.messages, x.offsets, x.holds_back,
         x.touched
    FROM transactions x
   WHERE x.state IN ('open', 'prepare_commit', 'prepare_abort')
   ORDER BY x.begun_at
   LIMIT _limit
$$;
