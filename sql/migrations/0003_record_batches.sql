-- The records: one row a batch, optional columns as arrays with one element a record.
--
-- Rows are only inserted. Compaction rewrites old ones; retention and log removal delete them.
-- Every index costs on the hot path, so there are two, and there are no foreign keys. The append
-- function checks what CHECK constraints would: PostgreSQL parses those anew at each INSERT.
--
-- Fixed-width columns that are never NULL come first: their place in the row is known without
-- walking it.
--
-- An array that is NULL means:
--   keys, timestamps, event_types, ...   absent from every record (an element may be NULL too)
--   offset_deltas                        record i (from 0) is at base_offset + i
--   producer_ids, producer_epochs        every record has producer_id, producer_epoch
--   sequences                            first_sequence + i if last_sequence - first_sequence =
--                                        record_count - 1, else first_sequence for every record

CREATE TABLE pgcursus.record_batches (
  log_id             bigint      NOT NULL,
  base_offset        bigint      NOT NULL,
  last_offset        bigint      NOT NULL,
  appended_at        timestamptz NOT NULL,
  partition          int         NOT NULL,
  record_count       int         NOT NULL,
  byte_count         int         NOT NULL,  -- payloads and keys
  kind               smallint    NOT NULL,  -- 0 data; markers: 1 commit, 2 abort
  idempotent         boolean     NOT NULL,  -- the producer columns are deduplication state
  producer_epoch     bigint,
  first_sequence     bigint,
  last_sequence      bigint,
  transaction_id     bigint,                -- transaction_states
  producer_id        text        COLLATE "C",
  payloads           bytea[]     COMPRESSION lz4 NOT NULL,
  keys               bytea[]     COMPRESSION lz4,
  timestamps         bigint[]    COMPRESSION lz4,  -- Unix milliseconds
  offset_deltas      int[]       COMPRESSION lz4,
  sequences          bigint[]    COMPRESSION lz4,
  producer_ids       text[]      COMPRESSION lz4,
  producer_epochs    bigint[]    COMPRESSION lz4,
  event_types        text[]      COMPRESSION lz4,
  schema_versions    bigint[]    COMPRESSION lz4,
  aggregate_versions bigint[]    COMPRESSION lz4,
  event_ids          text[]      COMPRESSION lz4,
  payload_digests    text[]      COMPRESSION lz4,
  metadata           text[]      COMPRESSION lz4,
  headers            jsonb[]     COMPRESSION lz4,
  PRIMARY KEY (log_id, partition, base_offset)
);

CREATE INDEX record_batches_producer
    ON pgcursus.record_batches (log_id, partition, producer_id, producer_epoch, last_sequence)
 WHERE idempotent;

-- What append() says of one batch; its header explains the fields. A type of its own, since
-- PostgreSQL would otherwise work out the function's result columns again at every call.
CREATE TYPE pgcursus.append_result AS (
  status         int,
  base_offset    bigint,
  last_offset    bigint,
  appended_count int,
  appended_at    timestamptz,
  current_value  bigint,
  expected_value bigint
);

-- A record as SQL users see it: the rows of read() and of the view records.
CREATE TYPE pgcursus.log_record AS (
  topic             text,
  partition         int,
  "offset"          bigint,
  key               bytea,
  payload           bytea,
  "timestamp"       timestamptz,  -- the record's own, else when it was appended
  appended_at       timestamptz,
  producer_id       text,
  producer_epoch    bigint,
  sequence          bigint,
  transaction_state text,         -- NULL, 'open', 'committed' or 'aborted'
  is_control        boolean,
  event_type        text,
  schema_version    int,
  aggregate_version bigint,
  metadata          text,
  headers           jsonb
);
