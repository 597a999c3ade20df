-- Transactions. The public view owns the name `transactions`; the table is transaction_states.
--
-- (transactional_id, producer_epoch) names a transaction for ever; record_batches carry the short
-- transaction_id. A row stays committed or aborted for as long as records refer to it.

CREATE TABLE pgcursus.transaction_states (
  transaction_id   bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  transactional_id text        COLLATE "C" NOT NULL,
  producer_id      text        COLLATE "C" NOT NULL,
  producer_epoch   bigint      NOT NULL CHECK (producer_epoch >= 0),
  state            text        NOT NULL CHECK (state IN ('open', 'prepare_commit', 'prepare_abort',
                                                         'committed', 'aborted')),
  deadline         timestamptz NOT NULL,
  message_count    bigint      NOT NULL DEFAULT 0,
  byte_count       bigint      NOT NULL DEFAULT 0,
  -- The scope that all staged offsets share; NULL until the first is staged.
  group_id         bigint,
  member_id        text        COLLATE "C",
  generation       bigint,
  begun_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  changed_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  UNIQUE (transactional_id, producer_epoch)
);

-- Few are unfinished at any time; housekeeping finds the overdue ones here.
CREATE INDEX transaction_states_unfinished
    ON pgcursus.transaction_states (deadline)
 WHERE state IN ('open', 'prepare_commit', 'prepare_abort');

CREATE TABLE pgcursus.transaction_partitions (
  transaction_id bigint  NOT NULL REFERENCES pgcursus.transaction_states,
  log_id         bigint  NOT NULL,
  partition      int     NOT NULL,
  first_offset   bigint  NOT NULL,
  resolved       boolean NOT NULL DEFAULT false,  -- set with the decision, in its transaction
  PRIMARY KEY (transaction_id, log_id, partition)
);

-- The last stable offset is the least first_offset in here.
CREATE INDEX transaction_partitions_unresolved
    ON pgcursus.transaction_partitions (log_id, partition, first_offset)
 WHERE NOT resolved;

CREATE TABLE pgcursus.transaction_offsets (
  transaction_id bigint NOT NULL REFERENCES pgcursus.transaction_states,
  log_id         bigint NOT NULL,
  partition      int    NOT NULL,
  next_offset    bigint NOT NULL CHECK (next_offset >= 0),
  PRIMARY KEY (transaction_id, log_id, partition)
);
