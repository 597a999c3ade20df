/* INIT_PRODUCER_ID, BEGIN_TXN, END_TXN and TXN_STATUS (commands-2 4.4, 4.5, 4.8): a producer's
 * sessions and the life of its transactions. The rules are in sql/functions/transaction. */
#include <json-c/json.h>

#include "base/text.h"
#include "crs2/commands.h"
#include "crs2/crs2.h"
#include "crs2/fields.h"
#include "crs2/handlers.h"
#include "crs2/session.h"
#include "crs2/txn.h"
#include "db/array.h"

#define MAX_TRANSACTIONAL_IDS 100000
#define LIST_DEFAULT 1000

static int print_length(struct slice text) {
  return (int)text.length;
}

static const char *print_text(struct slice text) {
  return text.length ? (const char *)text.data : "";
}

#define PRINT(text) print_length(text), print_text(text)

/* The fields that BEGIN_TXN and END_TXN begin with. NULL: the call has been answered. */
static struct txn *create_with_session(struct call *call, const char *failed_code,
                                       void (*answer)(struct txn *, const PGresult *)) {
  struct txn *txn = txn_create(call, failed_code, answer);
  txn->transactional_id = txn_transactional_id(call);
  txn->producer_id = txn_producer_id(call);
  if (!txn_check_transactional_id(call, txn->transactional_id) ||
      !txn_check_producer_id(call, txn->producer_id) || !txn_read_epoch(call, &txn->epoch)) {
    return NULL;
  }
  struct control_call *control = &txn->control;
  control->parameters[0] = db_bytes(txn->transactional_id);
  control->parameters[1] = db_bytes(txn->producer_id);
  control->parameters[2] = db_int8(&control->scalars[2], txn->epoch);
  return txn;
}

/* ------------------------------------------------------------------ INIT_PRODUCER_ID */

static void answer_init(struct txn *txn, const PGresult *rows) {
  call_reply_format(txn->call, "OK transactional_id=%.*s producerId=%.*s epoch=%lld",
                    PRINT(txn->transactional_id),
                    PRINT(db_get_bytes(rows, 0, TRANSACTION_PRODUCER_ID)),
                    (long long)db_get_int8(rows, 0, TRANSACTION_PRODUCER_EPOCH));
}

void handle_init_producer_id(struct call *call) {
  struct txn *txn = txn_create(call, "init_producer_failed", answer_init);
  txn->transactional_id = txn_transactional_id(call);
  if (!txn_check_transactional_id(call, txn->transactional_id)) return;
  struct control_call *control = &txn->control;
  control->parameters[0] = db_bytes(txn->transactional_id);
  control->parameters[1] = db_int8(&control->scalars[1], MAX_TRANSACTIONAL_IDS);
  control->parameters[2] = db_int4(&control->scalars[2], TXN_MARKER_BATCH);
  txn_submit(txn, CONTROL_INIT_PRODUCER_ID, false);
}

/* ------------------------------------------------------------------ BEGIN_TXN */

static void answer_begin(struct txn *txn, const PGresult *rows) {
  (void)rows;
  call_reply_format(txn->call, "OK transactional_id=%.*s state=open producerId=%.*s epoch=%lld",
                    PRINT(txn->transactional_id), PRINT(txn->producer_id), (long long)txn->epoch);
}

void handle_begin_txn(struct call *call) {
  struct txn *txn = create_with_session(call, "transaction_begin_failed", answer_begin);
  if (txn == NULL) return;
  txn->control.parameters[3] =
      db_int8(&txn->control.scalars[3], call->crs2->config->transaction_timeout_ms);
  txn_submit(txn, CONTROL_BEGIN_TRANSACTION, false);
}

/* ------------------------------------------------------------------ END_TXN */

static void answer_end(struct txn *txn, const PGresult *rows) {
  call_reply_format(txn->call, "OK transactional_id=%.*s state=%.*s messages=%lld offsets=%lld",
                    PRINT(txn->transactional_id), PRINT(db_get_bytes(rows, 0, TRANSACTION_STATE)),
                    (long long)db_get_int8(rows, 0, TRANSACTION_MESSAGES),
                    (long long)db_get_int8(rows, 0, TRANSACTION_OFFSETS));
}

static bool read_result(struct call *call, bool *commit) {
  struct slice result = txn_field(call, (const char *const[]){"result", "action", "state", NULL});
  *commit = field_equals_ignoring_case(result, "commit");
  if (*commit || field_equals_ignoring_case(result, "abort")) return true;
  call_fail(call, "invalid_transaction_result", FIELD_SLICE("value", result));
  return false;
}

/* The result is looked at after the session (commands-2 4.8), which only the database knows; an
 * unusable one goes with the others, since no session makes it usable. */
void handle_end_txn(struct call *call) {
  bool commit;
  struct txn *txn = create_with_session(call, "transaction_commit_failed", answer_end);
  if (txn == NULL || !read_result(call, &commit)) return;
  if (!commit) txn->failed_code = "transaction_abort_failed";
  struct control_call *control = &txn->control;
  const char *principal = session_principal(call->session);
  control->parameters[3] = db_bool(&control->scalars[3], commit);
  control->parameters[4] =
      principal ? db_bytes(slice_text(arena_copy_text(&call->arena, slice_text(principal))))
                : db_null();
  control->parameters[5] = db_int4(&control->scalars[5], TXN_MARKER_BATCH);
  txn_submit(txn, CONTROL_END_TRANSACTION, true);
}

/* ------------------------------------------------------------------ TXN_STATUS */

static void answer_status(struct txn *txn, const PGresult *rows) {
  call_reply_format(
      txn->call,
      "OK transactional_id=%.*s mode=exactly_once state=%.*s messages=%lld participants=%lld "
      "offsets=%lld",
      PRINT(txn->transactional_id), PRINT(db_get_bytes(rows, 0, TRANSACTION_STATE)),
      (long long)db_get_int8(rows, 0, TRANSACTION_MESSAGES),
      (long long)db_get_int8(rows, 0, TRANSACTION_PARTICIPANTS),
      (long long)db_get_int8(rows, 0, TRANSACTION_OFFSETS));
}

struct txn_list {
  struct control_call control; /* first */
  struct call *call;
};

static void add_slice(struct json_object *object, const char *name, struct slice text) {
  json_object_object_add(object, name,
                         json_object_new_string_len(print_text(text), print_length(text)));
}

static void add_number(struct json_object *object, const char *name, int64_t number) {
  json_object_object_add(object, name, json_object_new_int64(number));
}

static struct json_object *list_row(const PGresult *rows, int row) {
  struct json_object *object = json_object_new_object();
  add_slice(object, "transactional_id", db_get_bytes(rows, row, TRANSACTION_LIST_ID));
  add_slice(object, "producer_id", db_get_bytes(rows, row, TRANSACTION_LIST_PRODUCER_ID));
  add_number(object, "epoch", db_get_int8(rows, row, TRANSACTION_LIST_EPOCH));
  add_slice(object, "state", db_get_bytes(rows, row, TRANSACTION_LIST_STATE));
  add_number(object, "age_ms", db_get_int8(rows, row, TRANSACTION_LIST_AGE_MS));
  add_number(object, "messages", db_get_int8(rows, row, TRANSACTION_LIST_MESSAGES));
  add_number(object, "offsets", db_get_int8(rows, row, TRANSACTION_LIST_OFFSETS));
  add_number(object, "holds_back", db_get_int8(rows, row, TRANSACTION_LIST_HOLDS_BACK));
  struct json_object *touched = json_object_new_array();
  struct cursor cursor;
  uint32_t count = db_array_open(&cursor, db_get_bytes(rows, row, TRANSACTION_LIST_TOUCHED));
  for (uint32_t i = 0; i < count; i++) {
    struct slice name = db_array_next(&cursor);
    json_object_array_add(touched,
                          json_object_new_string_len(print_text(name), print_length(name)));
  }
  json_object_object_add(object, "touched", touched);
  return object;
}

static void on_listed(struct control_call *control, const struct control_result *result) {
  struct call *call = ((struct txn_list *)control)->call;
  if (result->status != CONTROL_OK) {
    call_fail_control(call, result);
    return;
  }
  struct json_object *list = json_object_new_array();
  for (int row = 0; row < PQntuples(result->rows); row++) {
    json_object_array_add(list, list_row(result->rows, row));
  }
  call_reply_bytes(call, slice_text(json_object_to_json_string_ext(
                             list, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)));
  json_object_put(list);
}

/* An extension, for people who look for a hanging transaction: `list=true` instead of an id. */
static void list_unfinished(struct call *call) {
  struct txn_list *list = arena_allocate_zeroed(&call->arena, sizeof *list);
  list->call = call;
  list->control.statement = CONTROL_LIST_TRANSACTIONS;
  list->control.is_read_only = true;
  list->control.deadline_us = call->deadline_us;
  list->control.on_done = on_listed;
  list->control.parameters[0] = db_int8(&list->control.scalars[0], LIST_DEFAULT);
  control_submit(call->crs2->control, &list->control);
}

void handle_txn_status(struct call *call) {
  struct txn *txn = txn_create(call, "transaction_sync_failed", answer_status);
  txn->transactional_id = txn_transactional_id(call);
  if (txn->transactional_id.length == 0 &&
      field_equals_ignoring_case(call_field(call, "list"), "true")) {
    list_unfinished(call);
    return;
  }
  if (!txn_check_transactional_id(call, txn->transactional_id)) return;
  txn->control.parameters[0] = db_bytes(txn->transactional_id);
  txn->control.parameters[1] = db_int4(&txn->control.scalars[1], TXN_MARKER_BATCH);
  txn_submit(txn, CONTROL_TRANSACTION_STATUS, true);
}
