/* Decodes rows of pgcursus.fetch_batches(). Pure but for memory. */
#include "log/fetch.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"

static const Oid fetch_types[FETCH_PARAMETERS] = {DB_INT8, DB_INT4, DB_INT8, DB_INT8,
                                                  DB_INT8, DB_INT8, DB_BOOL};
static const Oid ends_types[] = {DB_INT8_ARRAY, DB_INT4_ARRAY};

/* The order of fetch_column below. */
const struct db_statement read_statements[READ_STATEMENT_COUNT] = {
    [STATEMENT_FETCH] =
        {"fetch",
         "SELECT log_is_current, earliest_offset, end_offset, stable_offset, base_offset, "
         "last_offset,"
         " record_count, appended_at, kind, producer_id, producer_epoch, first_sequence,"
         " last_sequence, transaction_id, transaction_state, transactional_id, offset_deltas, "
         "payloads, keys, timestamps, sequences,"
         " producer_ids, producer_epochs, event_types, schema_versions, aggregate_versions,"
         " metadata, event_ids, payload_digests FROM pgcursus.fetch_batches($1,$2,$3,$4,$5,$6,$7)",
         FETCH_PARAMETERS, fetch_types},
    [STATEMENT_ENDS] = {"ends",
                        "SELECT log_id, partition, end_offset FROM pgcursus.partition_ends($1,$2)",
                        2, ends_types},
};

enum fetch_column {
  FETCH_LOG_IS_CURRENT,
  FETCH_EARLIEST_OFFSET,
  FETCH_END_OFFSET,
  FETCH_STABLE_OFFSET,
  FETCH_BASE_OFFSET,
  FETCH_LAST_OFFSET,
  FETCH_RECORD_COUNT,
  FETCH_APPENDED_AT,
  FETCH_KIND,
  FETCH_PRODUCER_ID,
  FETCH_PRODUCER_EPOCH,
  FETCH_FIRST_SEQUENCE,
  FETCH_LAST_SEQUENCE,
  FETCH_TRANSACTION_ID,
  FETCH_TRANSACTION_STATE,
  FETCH_TRANSACTIONAL_ID,
  FETCH_OFFSET_DELTAS,
  FETCH_FIRST_ARRAY, /* then every enum column, in its order */
};

static enum transaction_decision read_decision(struct slice state) {
  if (slice_equals_text(state, "committed")) return TRANSACTION_DECIDED_COMMIT;
  if (slice_equals_text(state, "aborted")) return TRANSACTION_DECIDED_ABORT;
  return TRANSACTION_UNDECIDED;
}

static struct log_batch *read_batch(const PGresult *result, int row, int64_t log_id,
                                    int32_t partition) {
  struct log_batch source = {
      .log_id = log_id,
      .partition = partition,
      .base_offset = db_get_int8(result, row, FETCH_BASE_OFFSET),
      .last_offset = db_get_int8(result, row, FETCH_LAST_OFFSET),
      .record_count = (uint32_t)db_get_int4(result, row, FETCH_RECORD_COUNT),
      .kind = (enum batch_kind)db_get_int2(result, row, FETCH_KIND),
      .appended_at = db_get_int8(result, row, FETCH_APPENDED_AT) + DB_EPOCH_US,
      .producer_id = db_get_bytes(result, row, FETCH_PRODUCER_ID),
      .producer_epoch = db_get_int8(result, row, FETCH_PRODUCER_EPOCH),
      .first_sequence = db_get_int8(result, row, FETCH_FIRST_SEQUENCE),
      .last_sequence = db_get_int8(result, row, FETCH_LAST_SEQUENCE),
      .transaction_id = db_get_int8(result, row, FETCH_TRANSACTION_ID),
      .transactional_id = db_get_bytes(result, row, FETCH_TRANSACTIONAL_ID),
      .decision = read_decision(db_get_bytes(result, row, FETCH_TRANSACTION_STATE)),
      .offset_deltas = db_get_bytes(result, row, FETCH_OFFSET_DELTAS),
  };
  for (int i = 0; i < COLUMN_COUNT; i++) {
    source.columns[i] = db_get_bytes(result, row, FETCH_FIRST_ARRAY + i);
  }
  return log_batch_copy(&source);
}

void fetch_read_result(const PGresult *result, int64_t log_id, int32_t partition,
                       struct fetch_answer *answer) {
  int rows = PQntuples(result);
  answer->malformed = rows == 0;
  if (rows == 0) return;
  answer->log_is_current = db_get_bool(result, 0, FETCH_LOG_IS_CURRENT);
  answer->earliest_offset = db_get_int8(result, 0, FETCH_EARLIEST_OFFSET);
  answer->end_offset = db_get_int8(result, 0, FETCH_END_OFFSET);
  answer->stable_offset = db_get_int8(result, 0, FETCH_STABLE_OFFSET);
  answer->batches = memory_allocate((size_t)rows * sizeof *answer->batches);
  for (int row = 0; row < rows; row++) {
    if (db_is_null(result, row, FETCH_BASE_OFFSET)) continue;
    struct log_batch *batch = read_batch(result, row, log_id, partition);
    if (batch == NULL) {
      answer->malformed = true;
      log_event(LOG_ERROR, "a row of record_batches is damaged", NULL);
      return;
    }
    answer->batches[answer->batch_count++] = batch;
  }
}

void fetch_answer_release(struct fetch_answer *answer) {
  for (unsigned i = 0; i < answer->batch_count; i++) log_batch_release(answer->batches[i]);
  free(answer->batches);
  answer->batches = NULL;
  answer->batch_count = 0;
}
