-- partition_of_key: where the partitioner hash_key puts a key: FNV-1a, 64 bit, modulo the count.
--
-- Arguments: _key, _partition_count.
-- Returns:   the partition, the same that a node computes.
-- Errors:    none.
-- Tables:    none.
--
-- The hash is kept as two unsigned halves of 32 bits, since bigint is signed and refuses to overflow.
-- Multiplying by the prime 2^40 + 435 modulo 2^64: the low half times 435 carries into the high half,
-- to which the low half shifted by 8 (that is 40 - 32) is added.
CREATE OR REPLACE FUNCTION pgcursus.partition_of_key(_key bytea, _partition_count int)
RETURNS int
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pgcursus, pg_catalog, pg_temp
AS $$
DECLARE
  _high    bigint := x'cbf29ce4'::bigint;  -- of the offset basis 14695981039346656037
  _low     bigint := x'84222325'::bigint;
  _product bigint;
BEGIN
  FOR _i IN 0 .. octet_length(_key) - 1 LOOP
    _low := _low # get_byte(_key, _i);
    _product := _low * 435;
    _high := (_high * 435 + (_product >> 32) + (_low << 8)) & x'ffffffff'::bigint;
    _low := _product & x'ffffffff'::bigint;
  END LOOP;
  RETURN (((_high % _partition_count) * (4294967296 % _partition_count) + _low) % _partition_count)::int;
END
$$;
