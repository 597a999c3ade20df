/* The blocking exchange of one batch. Touches the session and the batch it was given, nothing else:
 * it runs on a worker thread. */
#include "db/bulk.h"

#include "base/clock.h"
#include "db/connect.h"
#include "db/patience.h"

static bool send_calls(struct db_bulk *bulk) {
  for (unsigned i = 0; i < bulk->count; i++) {
    if (!db_send_call(bulk->pg, bulk->statements, &bulk->calls[i])) return false;
  }
  return PQpipelineSync(bulk->pg) == 1;
}

static void note_largest_row(struct db_bulk *bulk, const PGresult *result) {
  int rows = PQntuples(result), columns = PQnfields(result);
  for (int row = 0; row < rows; row++) {
    size_t size = 0;
    for (int column = 0; column < columns; column++) {
      size += (size_t)PQgetlength(result, row, column);
    }
    if (size > bulk->largest_row) bulk->largest_row = size;
  }
}

/* Rows are given to a batch that may take them here; everything else waits for the loop. */
static void keep_result(struct db_bulk *bulk, PGresult *result) {
  struct db_batch *batch = bulk->batch;
  note_largest_row(bulk, result);
  if (bulk->answered >= bulk->count) {
    PQclear(bulk->sync_result);
    bulk->sync_result = result;
  } else if (batch->results_on_worker && PQresultStatus(result) == PGRES_TUPLES_OK) {
    batch->on_result(batch, bulk->answered, result);
    PQclear(result);
  } else {
    PQclear(bulk->results[bulk->answered]);
    bulk->results[bulk->answered] = result;
  }
}

/* False when the session broke, or patience was over, before the Sync's answer. */
static bool receive_results(struct db_bulk *bulk) {
  const struct db_patience patience = {
      .deadline_us = clock_monotonic_us() + bulk->time_limit_ms * 1000,
      .pool = bulk->workers,
      .is_given_up = &bulk->is_given_up};
  bool was_end = false;
  while (db_await_result(bulk->pg, &patience)) {
    PGresult *result = PQgetResult(bulk->pg);
    if (result == NULL) { /* the end of one call's results; twice: nothing more will come */
      if (was_end || PQstatus(bulk->pg) == CONNECTION_BAD) return false;
      if (bulk->answered < bulk->count) bulk->answered++;
      was_end = true;
      continue;
    }
    was_end = false;
    if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
      PQclear(result);
      return true;
    }
    keep_result(bulk, result);
    if (PQstatus(bulk->pg) == CONNECTION_BAD) return false;
  }
  return false;
}

void db_bulk_run(struct worker_job *job) {
  struct db_bulk *bulk = (struct db_bulk *)job;
  bulk->is_broken = (bulk->calls && !send_calls(bulk)) || !receive_results(bulk);
  if (PQstatus(bulk->pg) != CONNECTION_OK) bulk->is_broken = true;
}
