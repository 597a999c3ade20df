-- Consumer groups and their committed offsets. The public view owns the name `groups`; the table
-- is group_definitions.
--
-- A group name may be registered, lost with its topic, and registered again: registration_epoch
-- counts that and never goes back, and each incarnation has its own group_id, so nothing of an
-- earlier one can be mistaken for its own.

CREATE SEQUENCE pgcursus.group_ids AS bigint;

CREATE TABLE pgcursus.group_definitions (
  name               text        COLLATE "C" NOT NULL PRIMARY KEY,
  group_id           bigint      NOT NULL UNIQUE,
  registration_epoch bigint      NOT NULL CHECK (registration_epoch >= 1),
  registered         boolean     NOT NULL,  -- false: a tombstone that keeps registration_epoch
  selector           text        NOT NULL CHECK (selector IN ('topic', 'topics', 'pattern')),
  selector_text      text        COLLATE "C" NOT NULL,
  topics             text[]      COLLATE "C" NOT NULL,  -- sorted, without repeats
  generation         bigint      NOT NULL DEFAULT 0 CHECK (generation >= 0),
  last_rebalance     timestamptz,
  registered_at      timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE pgcursus.group_members (
  group_id       bigint      NOT NULL,
  member_id      text        COLLATE "C" NOT NULL,
  last_heartbeat timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (group_id, member_id)
);

-- The group's expansion: a row a partition, whose member_id is NULL while nobody has it.
CREATE TABLE pgcursus.group_assignments (
  group_id  bigint NOT NULL,
  topic     text   COLLATE "C" NOT NULL,
  partition int    NOT NULL,
  member_id text   COLLATE "C",
  PRIMARY KEY (group_id, topic, partition)
);

-- Only inserted: a commit never lowers an offset, so the greatest is the current one.
-- Housekeeping removes the superseded.
CREATE TABLE pgcursus.offset_commits (
  group_id     bigint      NOT NULL,
  log_id       bigint      NOT NULL,
  partition    int         NOT NULL,
  next_offset  bigint      NOT NULL CHECK (next_offset >= 0),
  committed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (group_id, log_id, partition, next_offset)
);
