-- Event streams: which record is version n of a key, and the latest snapshot of a key.
--
-- The primary key of stream_versions is the optimistic-concurrency check: of two appends of the
-- same version one fails.

CREATE TABLE pgcursus.stream_versions (
  log_id        bigint NOT NULL,
  stream_key    bytea  NOT NULL,
  version       bigint NOT NULL CHECK (version >= 1),
  partition     int    NOT NULL,
  record_offset bigint NOT NULL,
  event_id      text   COLLATE "C",
  PRIMARY KEY (log_id, stream_key, version)
);

CREATE UNIQUE INDEX stream_versions_event_id
    ON pgcursus.stream_versions (log_id, partition, event_id)
 WHERE event_id IS NOT NULL;

CREATE TABLE pgcursus.stream_snapshots (
  log_id     bigint      NOT NULL,
  stream_key bytea       NOT NULL,
  version    bigint      NOT NULL CHECK (version >= 1),
  payload    bytea       COMPRESSION lz4 NOT NULL,
  saved_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (log_id, stream_key)
);
