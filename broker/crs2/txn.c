/* Runs the SQL functions of transactions for the commands. Knows their common answer; must not know
 * what a command makes of it. */
#include "crs2/txn.h"

#include "crs2/commands.h"
#include "crs2/crs2.h"
#include "crs2/fields.h"
#include "crs2/handlers.h"
#include "db/array.h"
#include "log/announce.h"

/* ------------------------------------------------------------------ fields */

struct slice txn_field(const struct call *call, const char *const names[]) {
  struct slice value = slice_of(NULL, 0);
  for (; *names && value.length == 0; names++) value = call_field(call, *names);
  return value;
}

struct slice txn_transactional_id(const struct call *call) {
  return txn_field(call, (const char *const[]){"transactional_id", "txn", "transaction", NULL});
}

struct slice txn_producer_id(const struct call *call) {
  return txn_field(call, (const char *const[]){"producerId", "producer_id", NULL});
}

static bool check_identifier(struct call *call, struct slice id, const char *missing,
                             const char *invalid) {
  if (id.length && field_is_identifier(id)) return true;
  call_fail_command(call, id.length ? invalid : missing);
  return false;
}

bool txn_check_transactional_id(struct call *call, struct slice id) {
  return check_identifier(call, id, "missing_transactional_id", "invalid_transactional_id");
}

bool txn_check_producer_id(struct call *call, struct slice id) {
  return check_identifier(call, id, "missing_producer_id", "invalid_producer_id");
}

bool txn_read_epoch(struct call *call, int64_t *epoch) {
  *epoch = 0;
  if (!call_has_field(call, "epoch") || field_parse_int(call_field(call, "epoch"), epoch)) {
    return true;
  }
  call_fail(call, "invalid_epoch", FIELD_TEXT("reason", "must be an integer"));
  return false;
}

/* ------------------------------------------------------------------ one function */

/* Readers of the partitions that were touched may go on. When it took several database transactions
 * their ends were known before the last one released them, so they look whatever they know. */
static void wake_readers(const struct txn *txn, const PGresult *rows) {
  struct cursor logs, partitions, ends;
  uint32_t count = db_array_open(&logs, db_get_bytes(rows, 0, TRANSACTION_LOG_IDS));
  if (db_array_open(&partitions, db_get_bytes(rows, 0, TRANSACTION_PARTITIONS)) != count ||
      db_array_open(&ends, db_get_bytes(rows, 0, TRANSACTION_END_OFFSETS)) != count) {
    return;
  }
  for (uint32_t i = 0; i < count; i++) {
    int64_t log_id = db_array_next_int8(&logs);
    int32_t partition = db_array_next_int4(&partitions);
    int64_t end = db_array_next_int8(&ends);
    announce_end(txn->call->crs2->announce, log_id, partition, txn->is_repeated ? INT64_MAX : end);
  }
}

static void fail(struct txn *txn, const struct control_result *result) {
  struct call *call = txn->call;
  const char *reason = arena_copy_text(&call->arena, slice_text(result->code));
  switch (result->status) {
    case CONTROL_REFUSED:
    case CONTROL_TIMED_OUT:
      call_fail_control(call, result);
      break;
    case CONTROL_UNKNOWN:
    case CONTROL_UNAVAILABLE:
      call_fail(call, "transaction_sync_failed", FIELD_TEXT("reason", reason));
      break;
    default:
      call_fail(call, txn->failed_code, FIELD_TEXT("reason", reason));
  }
}

static void on_done(struct control_call *control, const struct control_result *result) {
  struct txn *txn = (struct txn *)control;
  if (result->status != CONTROL_OK) {
    fail(txn, result);
    return;
  }
  const PGresult *rows = result->rows;
  wake_readers(txn, rows);
  if (db_get_bool(rows, 0, TRANSACTION_MORE)) {
    txn->is_repeated = true;
    control->locks = (struct control_locks){.may_end = false}; /* too large to share anything */
    control_submit(txn->call->crs2->transactions, control);
  } else if (!db_is_null(rows, 0, TRANSACTION_REFUSAL)) {
    call_fail_refusal(txn->call, PQgetvalue(rows, 0, TRANSACTION_REFUSAL),
                      PQgetvalue(rows, 0, TRANSACTION_REFUSAL_FIELDS));
  } else {
    txn->answer(txn, rows);
  }
}

struct txn *txn_create(struct call *call, const char *failed_code,
                       void (*answer)(struct txn *txn, const PGresult *rows)) {
  struct txn *txn = arena_allocate_zeroed(&call->arena, sizeof *txn);
  txn->call = call;
  txn->failed_code = failed_code;
  txn->answer = answer;
  return txn;
}

void txn_submit(struct txn *txn, enum control_statement statement, bool is_repeatable) {
  txn->control.statement = statement;
  txn->control.locks.transactional_id = txn->transactional_id;
  txn->control.locks.may_end =
      statement == CONTROL_INIT_PRODUCER_ID || statement == CONTROL_END_TRANSACTION;
  txn->control.is_read_only = is_repeatable;
  txn->control.deadline_us = txn->call->deadline_us;
  txn->control.on_done = on_done;
  control_submit(txn->call->crs2->transactions, &txn->control);
}
