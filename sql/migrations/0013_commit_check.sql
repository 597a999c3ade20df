-- check_commit() tells what is wrong instead of raising it. PostgreSQL does not replace a function by one that
-- returns something else.
DO $$
BEGIN
  IF (SELECT p.prorettype
        FROM pg_proc p
       WHERE p.oid = to_regprocedure('pgcursus.check_commit(pgcursus.transaction_states, text)')) = 'void'::regtype THEN
    DROP FUNCTION pgcursus.check_commit(pgcursus.transaction_states, text);
  END IF;
END
$$;
