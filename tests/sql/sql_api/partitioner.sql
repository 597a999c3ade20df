-- partition_of_key(): FNV-1a, 64 bit, exactly.
BEGIN;
\ir ../helpers.sql
SELECT no_plan();

-- The hash itself, put together from its remainders: 65536 shows its low 16 bits, and 65521 and 65519
-- are primes, so that a wrong bit anywhere else shows too.
CREATE FUNCTION pg_temp.matches(_key text, _hash numeric) RETURNS boolean LANGUAGE sql AS $$
  SELECT bool_and(partition_of_key(convert_to(_key, 'UTF8'), n) = _hash % n)
    FROM unnest(ARRAY[1, 2, 3, 4, 7, 1024, 65536, 65521, 65519]) n
$$;
SELECT ok(pg_temp.matches('', 14695981039346656037), 'no_byte_hashes_to_the_offset_basis');
SELECT ok(pg_temp.matches('a', 12638187200555641996), 'hash_of_a');
SELECT ok(pg_temp.matches('foobar', 9625390261332436968), 'hash_of_foobar');
SELECT ok(pg_temp.matches('user-1', 17891572797655370708), 'hash_of_user_1');
SELECT ok(pg_temp.matches('order-123', 1988050899487775418), 'hash_of_order_123');
SELECT ok(pg_temp.matches('naïve', 2199317677881897643), 'hash_of_a_key_beyond_ascii');
SELECT is((SELECT array_agg(partition_of_key(convert_to(k, 'UTF8'), 3) || '/' ||
                            partition_of_key(convert_to(k, 'UTF8'), 4))
             FROM unnest('{a,user-1,order-123,foobar,naïve}'::text[]) k),
          ARRAY['1/0', '2/0', '0/2', '0/0', '1/3'], 'the_published_examples');
SELECT is((SELECT array_agg(partition_of_key(convert_to(k, 'UTF8'), 4))
             FROM unnest('{order-1,match-1,match-42}'::text[]) k),
          ARRAY[1, 0, 3], 'the_published_examples_of_event_streams');
SELECT ok(partition_of_key('\x00ff80', 65536) BETWEEN 0 AND 65535, 'any_byte_is_a_byte');
SELECT * FROM finish();
ROLLBACK;
