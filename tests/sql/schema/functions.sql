-- Every function: checked by plpgsql_check, owned by the owner, pinned, closed to the public.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();

CREATE VIEW pg_temp.ours AS
SELECT p.oid, p.oid::regprocedure AS name, p.proname, l.lanname, p.prosecdef, p.proconfig, p.proowner,
       p.proacl
  FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
 WHERE p.pronamespace = 'pgcursus'::regnamespace;

SELECT is((SELECT string_agg(o.proname || ' line ' || c.lineno || ': ' || c.message, E'\n')
             FROM pg_temp.ours o, plpgsql_check_function_tb(o.oid, all_warnings => true) c
            WHERE o.lanname = 'plpgsql'), NULL, 'plpgsql_check_finds_nothing');
SELECT is((SELECT array_agg(o.name) FROM pg_temp.ours o
            WHERE o.proowner <> 'pgcursus_owner'::regrole), NULL, 'the_owner_owns_every_function');
SELECT is((SELECT array_agg(o.name) FROM pg_temp.ours o
            WHERE o.prosecdef
              AND NOT 'search_path=pgcursus, pg_catalog, pg_temp' = ANY (o.proconfig)), NULL,
          'security_definer_functions_pin_the_search_path');
SELECT is((SELECT array_agg(o.name) FROM pg_temp.ours o, aclexplode(o.proacl) a
            WHERE a.grantee = 0), NULL, 'no_function_is_open_to_the_public');
SELECT is((SELECT array_agg(o.name) FROM pg_temp.ours o WHERE o.proacl IS NULL), NULL,
          'no_function_has_the_default_privileges');
SELECT is((SELECT array_agg(o.name) FROM pg_temp.ours o, aclexplode(o.proacl) a
            WHERE NOT o.prosecdef AND a.grantee <> o.proowner), NULL,
          'only_security_definer_functions_are_granted');
SELECT is((SELECT array_agg(c.relname::text ORDER BY c.relname) FROM pg_class c
            WHERE c.relnamespace = 'pgcursus'::regnamespace AND c.relkind IN ('r', 'v', 'S')
              AND c.relowner <> 'pgcursus_owner'::regrole), NULL, 'the_owner_owns_every_relation');
SELECT is((SELECT array_agg(c.relname::text) FROM pg_class c, aclexplode(c.relacl) a
            WHERE c.relnamespace = 'pgcursus'::regnamespace AND a.grantee = 0), NULL,
          'no_relation_is_open_to_the_public');
SELECT is((SELECT count(*) FROM pg_index i WHERE i.indrelid = 'record_batches'::regclass), 2::bigint,
          'record_batches_has_two_indexes');
SELECT is((SELECT array_agg(a.attname::text) FROM pg_attribute a
            WHERE a.attrelid = 'record_batches'::regclass AND a.attnum > 0 AND a.attndims > 0
              AND a.attcompression <> 'l'), NULL, 'array_columns_are_compressed_with_lz4');
SELECT * FROM finish();
ROLLBACK;
