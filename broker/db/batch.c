/* What came of one batch: its results go to its owner as they arrive, its first error is kept until
 * the end. Knows no session. */
#include "db/batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void db_batch_begin(struct db_batch *batch, unsigned count) {
  batch->next = NULL;
  batch->call_count = count;
  batch->answered = 0;
  batch->failed = false;
  batch->wait_was_cancelled = false;
  batch->failure_text = NULL;
}

static void finish_batch(struct db_batch *batch, enum db_outcome outcome,
                         const struct db_failure *failure) {
  char *text = batch->failure_text;
  batch->failure_text = NULL;
  batch->on_done(batch, outcome, failure);
  free(text);
}

/* In one block: message, NUL, detail, NUL. */
void db_batch_take_error(struct db_batch *batch, const PGresult *result) {
  if (batch->failed) return;
  batch->failed = true;
  const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  const char *detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
  if (message == NULL) message = PQresultErrorMessage(result);
  if (detail == NULL) detail = "";
  size_t message_size = strlen(message) + 1, detail_size = strlen(detail) + 1;
  batch->failure_text = memory_allocate(message_size + detail_size);
  memcpy(batch->failure_text, message, message_size);
  memcpy(batch->failure_text + message_size, detail, detail_size);
  snprintf(batch->failure.sqlstate, sizeof batch->failure.sqlstate, "%.5s",
           sqlstate ? sqlstate : "00000");
  batch->failure.message = batch->failure_text;
  batch->failure.detail = batch->failure_text + message_size;
  batch->failure.call = batch->answered;
}

void db_batch_complete(struct db_batch *batch) {
  if (batch->failed) {
    finish_batch(batch, DB_REFUSED, &batch->failure);
  } else if (batch->wait_was_cancelled) {
    const struct db_failure failure = {
        .sqlstate = "57014",
        .message = "the wait for a synchronous standby was cancelled",
        .detail = ""};
    finish_batch(batch, DB_UNKNOWN, &failure);
  } else {
    finish_batch(batch, DB_COMMITTED, NULL);
  }
}

void db_batch_lose(struct db_batch *batch, const char *reason) {
  const struct db_failure failure = {.sqlstate = "08006", .message = reason, .detail = ""};
  finish_batch(batch, DB_UNKNOWN, &failure);
}

void db_batch_take(struct db_batch *batch, const PGresult *result) {
  switch (PQresultStatus(result)) {
    case PGRES_TUPLES_OK:
      if (!batch->failed && batch->on_result) batch->on_result(batch, batch->answered, result);
      break;
    case PGRES_COMMAND_OK:
    case PGRES_PIPELINE_ABORTED:
      break;
    default:
      db_batch_take_error(batch, result);
  }
}

bool db_batch_ends_session(const struct db_batch *batch) {
  static const char *const states[] = {
      /* The prepared statements no longer fit the database (functions replaced with other result
       * types, or a pooler in between): only a new session helps. */
      "0A000", "26000",
      /* PostgreSQL is going away, or takes no writes any more. */
      "57P", "25006"};
  for (size_t i = 0; batch->failed && i < sizeof states / sizeof *states; i++) {
    if (strncmp(batch->failure.sqlstate, states[i], strlen(states[i])) == 0) return true;
  }
  return false;
}
