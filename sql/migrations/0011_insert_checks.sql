-- CHECK constraints of the tables that are written for every transaction and every offset commit:
-- PostgreSQL parses them anew at each INSERT and UPDATE, which was a tenth of a transaction's cost. The
-- functions that write these tables make sure of what the constraints said.

ALTER TABLE pgcursus.producers DROP CONSTRAINT producers_producer_epoch_check;
ALTER TABLE pgcursus.transaction_states
  DROP CONSTRAINT transaction_states_producer_epoch_check,
  DROP CONSTRAINT transaction_states_state_check;
ALTER TABLE pgcursus.transaction_requests
  DROP CONSTRAINT transaction_requests_sequence_check,
  DROP CONSTRAINT transaction_requests_requested_partition_check,
  DROP CONSTRAINT transaction_requests_client_sequence_check;
ALTER TABLE pgcursus.transaction_offsets DROP CONSTRAINT transaction_offsets_next_offset_check;
ALTER TABLE pgcursus.offset_commits DROP CONSTRAINT offset_commits_next_offset_check;
