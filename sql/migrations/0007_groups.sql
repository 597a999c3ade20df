-- Consumer groups and their committed offsets. The public view owns the name `groups`; the table
-- is group_definitions.
--
-- A group name may be registered, lost with its topic, and registered again: registration_epoch
-- counts that and never goes back, and each incarnation has its own group_id, so nothing of an
-- earlier one can be mistaken for its own.

CREATE SEQUENCE pgcursus.group_ids AS bigint;

-- topics and partition_counts together are the group's expansion: the partitions of the first topic
-- have the positions from 0 on, those of the second follow, and so on.
CREATE TABLE pgcursus.group_definitions (
  name               text        COLLATE "C" NOT NULL PRIMARY KEY,
  group_id           bigint      NOT NULL UNIQUE,
  registration_epoch bigint      NOT NULL CHECK (registration_epoch >= 1),
  registered         boolean     NOT NULL,  -- false: a tombstone that keeps registration_epoch
  selector           text        NOT NULL CHECK (selector IN ('topic', 'topics', 'pattern')),
  selector_text      text        COLLATE "C" NOT NULL,
  topics             text[]      COLLATE "C" NOT NULL,  -- sorted, without repeats
  partition_counts   int[]       NOT NULL CHECK (cardinality(partition_counts) = cardinality(topics)),
  generation         bigint      NOT NULL DEFAULT 0 CHECK (generation >= 0),
  last_rebalance     timestamptz,
  registered_at      timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- A member has the positions from first_position on, position_count of them: the assignment follows
-- from the sorted members, so a rebalance writes one row a member whatever the number of partitions.
-- No index on what heartbeats write, and room in the page, so that they stay cheap (HOT) updates.
CREATE TABLE pgcursus.group_members (
  group_id       bigint      NOT NULL,
  member_id      text        COLLATE "C" NOT NULL,
  last_heartbeat timestamptz NOT NULL DEFAULT clock_timestamp(),
  first_position int         NOT NULL DEFAULT 0 CHECK (first_position >= 0),
  position_count int         NOT NULL DEFAULT 0 CHECK (position_count >= 0),
  PRIMARY KEY (group_id, member_id)
) WITH (fillfactor = 50);

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

-- The one row says where the next step of trim_offset_commits() begins.
CREATE TABLE pgcursus.offset_trim_progress (
  group_id    bigint NOT NULL,
  log_id      bigint NOT NULL,
  partition   int    NOT NULL,
  next_offset bigint NOT NULL
);
CREATE UNIQUE INDEX offset_trim_progress_one_row ON pgcursus.offset_trim_progress ((true));
INSERT INTO pgcursus.offset_trim_progress VALUES (0, 0, 0, 0);

-- What check_commit_fence() found: either a refusal (code and fields as the protocol has them), or
-- what the commit is to be stored under.
CREATE TYPE pgcursus.commit_fence AS (
  code               text,
  fields             jsonb,
  group_id           bigint,
  registration_epoch bigint,
  log_id             bigint
);

-- What commit_offsets() says of one request: 0 committed, 1 refused with code and fields, 2 the group
-- is being rebalanced, nothing done: try again.
CREATE TYPE pgcursus.commit_result AS (
  status int,
  code   text,
  fields text  -- a JSON object of texts
);

-- A row of a member's assignment, as joining and synchronizing return it; topic and partition are NULL
-- in the only row of a member that has nothing.
CREATE TYPE pgcursus.member_assignment AS (
  group_id        bigint,
  generation      bigint,
  member_id       text,
  is_subscription boolean,
  topic           text,
  partition       int
);
