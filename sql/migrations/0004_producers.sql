-- Producers: sessions of transactional producers, and deduplication state that outlives records.
--
-- The live state of an idempotent producer is the index record_batches_producer. producer_states
-- keeps the last of it when retention or compaction removes the rows that held it.

-- A row is never deleted while its transactional id may come back: its epoch must keep rising.
CREATE TABLE pgcursus.producers (
  transactional_id text        COLLATE "C" NOT NULL PRIMARY KEY,
  producer_id      text        COLLATE "C" NOT NULL,
  producer_epoch   bigint      NOT NULL CHECK (producer_epoch >= 0),
  changed_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  expired          boolean     NOT NULL DEFAULT false  -- only id and epoch still count
);

CREATE TABLE pgcursus.producer_states (
  log_id         bigint NOT NULL,
  partition      int    NOT NULL,
  producer_id    text   COLLATE "C" NOT NULL,
  producer_epoch bigint NOT NULL,
  last_sequence  bigint NOT NULL,
  last_offset    bigint NOT NULL,
  PRIMARY KEY (log_id, partition, producer_id)
);
