-- Topics and their partitions.
--
-- The public views own the names `topics` and `partitions`; the tables behind them are
-- topic_definitions and partition_states.
--
-- A topic's records live under its log_id. Truncating a topic, or deleting and re-creating it,
-- takes a new log_id, so emptying a topic costs the same whatever its size; housekeeping removes
-- the rows of the old log later.
--
-- Advisory locks of this schema (one key space per database):
--   (log_id << 16) | partition   appending to a partition; all of a topic's to switch its log.
--                                log_id starts at 1, so these keys are 65536 and above.
--   1                            creating and patching topics
--   negative                     a consumer group, by the hash of its name (group_lock_key): shared by
--                                commits of offsets, exclusive for whatever moves its generation;
--                                or a transactional id, likewise (transaction_lock_key): shared by appends
--                                to its transaction, exclusive for what changes its epoch or state.
--   Taken in the order: transactional ids, groups, partitions; several of a kind by their keys.
-- The two-integer key space is separate: (1885823843, 1) migrating, (1885823843, 2) housekeeping,
-- (1885823844, lock_key) a node that is alive (node_registrations).

CREATE SEQUENCE pgcursus.log_ids AS bigint MAXVALUE 140737488355327;  -- 47 bits: see the lock key

CREATE TABLE pgcursus.topic_definitions (
  topic_id             bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name                 text        COLLATE "C" NOT NULL UNIQUE
                                   CHECK (octet_length(name) BETWEEN 1 AND 249
                                          AND name ~ '^[A-Za-z0-9._=-]+$'
                                          AND name NOT IN ('.', '..', '__consumer_offsets')),
  log_id               bigint      NOT NULL UNIQUE,
  partition_count      int         NOT NULL CHECK (partition_count BETWEEN 1 AND 65536),
  replication_factor   int         NOT NULL CHECK (replication_factor >= 1),
  idempotent           boolean     NOT NULL,
  event_sourcing       boolean     NOT NULL,
  aggregate_replay     boolean     NOT NULL,
  min_in_sync_replicas int         CHECK (min_in_sync_replicas BETWEEN 1 AND replication_factor),
  cleanup_policy       text        NOT NULL
                                   CHECK (cleanup_policy IN ('delete', 'compact', 'delete,compact')),
  retention_hours      bigint      NOT NULL CHECK (retention_hours >= 0),  -- 0: the broker's default
  retention_bytes      bigint      NOT NULL CHECK (retention_bytes >= 0),  -- 0: the broker's default
  partitioner          text        NOT NULL CHECK (partitioner IN ('hash_key', 'round_robin')),
  auth_policy          text        NOT NULL
                                   CHECK (auth_policy IN ('open', 'deny_write', 'deny_read', 'acl')),
  read_acl             text[]      NOT NULL DEFAULT '{}',
  write_acl            text[]      NOT NULL DEFAULT '{}',
  revision             bigint      NOT NULL DEFAULT 1 CHECK (revision >= 1),
  lifecycle_epoch      bigint      NOT NULL DEFAULT 1 CHECK (lifecycle_epoch >= 1),
  created_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
  CHECK (NOT aggregate_replay OR (event_sourcing AND idempotent)),
  CHECK (NOT event_sourcing OR cleanup_policy = 'delete')
);

-- Written by administration and retention only, never by an append. end_offset is the end as of
-- the last time housekeeping removed a partition's last batch; otherwise the last batch knows.
CREATE TABLE pgcursus.partition_states (
  log_id          bigint NOT NULL,
  partition       int    NOT NULL CHECK (partition BETWEEN 0 AND 65535),
  leader_epoch    bigint NOT NULL DEFAULT 0 CHECK (leader_epoch >= 0),
  preferred_node  text   COLLATE "C",
  earliest_offset bigint NOT NULL DEFAULT 0 CHECK (earliest_offset >= 0),
  end_offset      bigint NOT NULL DEFAULT 0 CHECK (end_offset >= 0),
  PRIMARY KEY (log_id, partition)
);

-- Logs that no topic has any more, until housekeeping has removed all their rows. The other
-- columns say how far it came, so that no step reads again what an earlier one deleted.
CREATE TABLE pgcursus.removed_logs (
  log_id          bigint      NOT NULL PRIMARY KEY,
  removed_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  stage           text        NOT NULL DEFAULT 'records'
                              CHECK (stage IN ('records', 'versions', 'snapshots', 'states')),
  partition_count int         NOT NULL CHECK (partition_count >= 0),
  partition       int         NOT NULL DEFAULT 0,
  position        bigint      NOT NULL DEFAULT 0,  -- an offset, or a version
  stream_key      bytea       NOT NULL DEFAULT ''
);
