-- Transactions. The public view owns the name `transactions`; the table is transaction_states.
--
-- (transactional_id, producer_epoch) names a transaction for ever; record_batches carry the short
-- transaction_id. A row stays committed or aborted for as long as records refer to it.
--
-- Advisory locks: transaction_lock_key(transactional_id), a negative key, serialises what concerns one
-- transactional id. Appending to its transaction takes the lock shared, everything that changes its
-- epoch or its state takes it exclusively, so that after an end nothing more is appended. It comes before
-- the locks of partitions; several are taken in the order of their keys.
--
-- No foreign keys: their row locks would make every first record in a partition write to the
-- transaction's row. The functions look at the row under the lock above.

CREATE TABLE pgcursus.transaction_states (
  transaction_id    bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  transactional_id  text        COLLATE "C" NOT NULL,
  producer_id       text        COLLATE "C" NOT NULL,
  producer_epoch    bigint      NOT NULL CHECK (producer_epoch >= 0),
  state             text        NOT NULL CHECK (state IN ('open', 'prepare_commit', 'prepare_abort',
                                                          'committed', 'aborted')),
  deadline          timestamptz NOT NULL,
  -- Set when the end is decided; while it is open what they count is counted.
  message_count     bigint      NOT NULL DEFAULT 0,
  participant_count bigint      NOT NULL DEFAULT 0,
  offset_count      bigint      NOT NULL DEFAULT 0,
  -- The scope that all staged offsets share; NULL until the first is staged.
  group_id          bigint,
  group_name        text        COLLATE "C",
  member_id         text        COLLATE "C",
  generation        bigint,
  begun_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
  changed_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
  UNIQUE (transactional_id, producer_epoch)
);

-- Few are unfinished at any time; housekeeping finds the overdue ones here.
CREATE INDEX transaction_states_unfinished
    ON pgcursus.transaction_states (deadline)
 WHERE state IN ('open', 'prepare_commit', 'prepare_abort');

-- The partitions that a transaction has written to. A marker may be there before the decision, when a
-- transaction is so large that its markers take several database transactions.
CREATE TABLE pgcursus.transaction_partitions (
  transaction_id bigint  NOT NULL,
  log_id         bigint  NOT NULL,
  partition      int     NOT NULL,
  first_offset   bigint  NOT NULL,
  marker_offset  bigint,                          -- -1: its log is gone, and with it the records
  resolved       boolean NOT NULL DEFAULT false,  -- set with the decision, in its transaction
  PRIMARY KEY (transaction_id, log_id, partition)
);

-- The last stable offset is the least first_offset in here.
CREATE INDEX transaction_partitions_unresolved
    ON pgcursus.transaction_partitions (log_id, partition, first_offset)
 WHERE NOT resolved;

-- What was accepted in a transaction, one row a record: by its place among the transaction's records of
-- the partition, and by what the client called it, so that a request sent again finds what it did.
CREATE TABLE pgcursus.transaction_requests (
  transaction_id      bigint NOT NULL,
  log_id              bigint NOT NULL,
  partition           int    NOT NULL,
  sequence            bigint NOT NULL CHECK (sequence >= 1),  -- 1, 2, 3 ... in this partition
  requested_partition int    NOT NULL CHECK (requested_partition >= -1),  -- -1: left to the broker
  client_sequence     bigint NOT NULL CHECK (client_sequence >= 1),
  record_offset       bigint NOT NULL,
  byte_total          bigint NOT NULL,  -- of this record and those before it in this partition
  PRIMARY KEY (transaction_id, log_id, partition, sequence),
  UNIQUE (transaction_id, log_id, requested_partition, client_sequence)
);

CREATE TABLE pgcursus.transaction_offsets (
  transaction_id bigint NOT NULL,
  log_id         bigint NOT NULL,
  partition      int    NOT NULL,
  next_offset    bigint NOT NULL CHECK (next_offset >= 0),
  PRIMARY KEY (transaction_id, log_id, partition)
);

-- How far housekeeping has come: in dropping what only an unfinished transaction needs, and in looking
-- for transactions whose records are gone. The one row is there from the beginning.
CREATE TABLE pgcursus.transaction_cleanup (
  requests_done bigint NOT NULL,
  records_done  bigint NOT NULL
);
CREATE UNIQUE INDEX transaction_cleanup_one_row ON pgcursus.transaction_cleanup ((true));
INSERT INTO pgcursus.transaction_cleanup VALUES (0, 0);

-- What the functions of the transaction commands answer; each fills what it has to say. A refusal is a
-- value and no exception where the function has done something that must stay, such as ending an overdue
-- transaction.
CREATE TYPE pgcursus.transaction_answer AS (
  refusal        text,     -- an error code, with its fields as JSON
  refusal_fields text,
  more           boolean,  -- not finished: to be called again with the same arguments
  producer_id    text,
  producer_epoch bigint,
  state          text,
  messages       bigint,
  participants   bigint,
  offsets        bigint,
  -- Partitions that got a marker or were resolved, with their next offsets: readers there may go on.
  log_ids        bigint[],
  partitions     int[],
  end_offsets    bigint[]
);
