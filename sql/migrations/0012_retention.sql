-- Retention and compaction: virtual segments, and how far their upkeep has come (docs/topics.md).
--
-- A segment is a stretch of a partition's log that begins and ends between two rows of record_batches.
-- Nothing is noted while records are appended: housekeeping walks behind, once over each row, and
-- closes segments where a file would have been closed. What lies behind the last closed one is active.
--
-- Whoever changes these rows holds the lock of the partition's row in partition_states, which nobody
-- waits for. They go after it when a log is removed, so none is left behind.

CREATE TABLE pgcursus.log_segments (
  log_id           bigint      NOT NULL,
  partition        int         NOT NULL,
  base_offset      bigint      NOT NULL,
  end_offset       bigint      NOT NULL,  -- the next segment begins there
  byte_count       bigint      NOT NULL,  -- payloads and keys that are stored
  keyed_bytes      bigint      NOT NULL DEFAULT 0,  -- of these, what compaction may ever remove
  last_appended_at timestamptz NOT NULL,
  PRIMARY KEY (log_id, partition, base_offset),
  CHECK (base_offset < end_offset)
);

CREATE TABLE pgcursus.log_upkeep (
  log_id           bigint      NOT NULL,
  partition        int         NOT NULL,
  -- The active segment as far as it has been measured.
  active_base      bigint      NOT NULL,
  measured_offset  bigint      NOT NULL,  -- the rows below are in a segment
  active_bytes     bigint      NOT NULL DEFAULT 0,
  active_since     timestamptz,           -- when its first row was appended; NULL: it is empty
  last_appended_at timestamptz,
  closed_bytes     bigint      NOT NULL DEFAULT 0,  -- the sum of log_segments.byte_count
  removed_offset   bigint      NOT NULL,  -- there is no row below
  -- Compaction. NULL: it has not looked yet; no pass is under way.
  indexed_offset   bigint,                -- latest_keys and latest_producers know the rows below
  keyed_bytes      bigint      NOT NULL DEFAULT 0,  -- the sum of log_segments.keyed_bytes
  latest_bytes     bigint      NOT NULL DEFAULT 0,  -- the sum of latest_keys.byte_count
  pass_offset      bigint,                -- the pass has done the rows below
  pass_end         bigint,
  PRIMARY KEY (log_id, partition),
  CHECK (active_base <= measured_offset),
  CHECK ((pass_offset IS NULL) = (pass_end IS NULL))
) WITH (fillfactor = 50);

-- For compaction: the newest ordinary record of each key, and the newest record of each producer, among
-- the closed segments. Keys and producer ids are as short_key() makes them.
CREATE TABLE pgcursus.latest_keys (
  log_id        bigint NOT NULL,
  partition     int    NOT NULL,
  byte_count    int    NOT NULL,
  record_offset bigint NOT NULL,
  record_key    bytea  NOT NULL,
  PRIMARY KEY (log_id, partition, record_key)
) WITH (fillfactor = 80);

CREATE TABLE pgcursus.latest_producers (
  log_id        bigint NOT NULL,
  partition     int    NOT NULL,
  byte_count    int    NOT NULL,
  record_offset bigint NOT NULL,
  producer_key  bytea  NOT NULL,
  record_key    bytea,            -- NULL: the record is not ordinary, or has no key
  PRIMARY KEY (log_id, partition, producer_key)
) WITH (fillfactor = 80);

-- Which partition the next step of a task looks at.
CREATE TABLE pgcursus.upkeep_passes (
  task      text   NOT NULL PRIMARY KEY,
  log_id    bigint NOT NULL DEFAULT 0,
  partition int    NOT NULL DEFAULT 0
);
INSERT INTO pgcursus.upkeep_passes (task) VALUES ('retention'), ('compaction');
