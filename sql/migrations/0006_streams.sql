-- Event streams: which record is version n of a key, and the latest snapshot of a key.
--
-- The primary key of stream_versions is the optimistic-concurrency check: of two appends of the
-- same version one fails. Rows are only inserted, by append_events(); they outlive the records that
-- retention removes, so that a version never falls and a key keeps its partition.
--
-- Compaction never touches a topic with event streams, so an event stays in the row of record_batches
-- that it was appended with: base_offset leads there without a search.
--
-- stream_key and event_key are keys as short_key() makes them, which fit an index whatever a client
-- sends; the record has the whole ones.

CREATE TABLE pgcursus.stream_versions (
  log_id        bigint NOT NULL,
  version       bigint NOT NULL,
  record_offset bigint NOT NULL,
  base_offset   bigint NOT NULL,  -- of the row of record_batches that holds the record
  partition     int    NOT NULL,
  byte_count    int    NOT NULL,  -- payload, key, event type and metadata
  stream_key    bytea  NOT NULL,
  event_key     bytea,            -- of the event id, in topics with aggregate_replay
  PRIMARY KEY (log_id, stream_key, version)
);

CREATE UNIQUE INDEX stream_versions_event_key
    ON pgcursus.stream_versions (log_id, partition, event_key)
 WHERE event_key IS NOT NULL;

-- Events that open transactions have appended: until the end nobody else may append to their streams.
CREATE TABLE pgcursus.stream_reservations (
  log_id         bigint NOT NULL,
  stream_key     bytea  NOT NULL,
  version        bigint NOT NULL,
  transaction_id bigint NOT NULL,
  partition      int    NOT NULL,
  record_offset  bigint NOT NULL,  -- the record is a row of its own
  byte_count     int    NOT NULL,
  PRIMARY KEY (log_id, stream_key)
);

CREATE INDEX stream_reservations_transaction ON pgcursus.stream_reservations (transaction_id);

CREATE TABLE pgcursus.stream_snapshots (
  log_id     bigint      NOT NULL,
  stream_key bytea       NOT NULL,
  version    bigint      NOT NULL CHECK (version >= 0),
  payload    bytea       COMPRESSION lz4 NOT NULL,
  saved_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (log_id, stream_key)
);

-- What append_events() says of one call; its header explains the fields.
CREATE TYPE pgcursus.append_events_result AS (
  status         int,
  base_offset    bigint,
  last_offset    bigint,
  appended_count int,
  appended_at    timestamptz,
  current_value  bigint,
  expected_value bigint,
  event_statuses int[],
  event_values   bigint[]
);

-- Events of one stream as arrays, one element each, in order of version.
CREATE TYPE pgcursus.stream_events AS (
  event_count     int,
  versions        bigint[],
  offsets         bigint[],
  payloads        bytea[],
  producer_ids    text[],
  producer_epochs bigint[],
  sequences       bigint[],
  event_types     text[],
  schema_versions bigint[],
  metadata        text[],
  event_ids       text[],
  payload_digests text[]
);

-- What the retained log of a partition proves of one key; aggregate_proof() explains the fields.
CREATE TYPE pgcursus.stream_proof AS (
  earliest_sequence bigint,
  latest_sequence   bigint,
  first_offset      bigint,
  last_offset       bigint,
  event_count       bigint,
  first_event_id    text,
  last_event_id     text,
  is_complete       boolean,
  proof_hwm         bigint,
  status            text,
  diagnostic        text
);

-- An event as SQL users see it: the rows of read_stream().
CREATE TYPE pgcursus.stream_event AS (
  version        bigint,
  event_type     text,
  schema_version int,
  payload        bytea,
  metadata       text,
  appended_at    timestamptz,
  partition      int,
  "offset"       bigint,
  event_id       text
);
