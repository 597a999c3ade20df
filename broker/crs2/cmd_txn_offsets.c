/* SEND_OFFSETS_TO_TXN (commands-2 4.7): offsets that become a group's when the transaction commits.
 * Who may commit what is decided in SQL, now and again at the commit. */
#include "crs2/commands.h"
#include "crs2/crs2.h"
#include "crs2/group_request.h"
#include "crs2/handlers.h"
#include "crs2/offset_list.h"
#include "crs2/txn.h"
#include "db/array.h"

static void answer_staged(struct txn *txn, const PGresult *rows) {
  call_reply_format(txn->call, "OK transactional_id=%.*s staged_offsets=%lld",
                    (int)txn->transactional_id.length, (const char *)txn->transactional_id.data,
                    (long long)db_get_int8(rows, 0, TRANSACTION_OFFSETS));
}

static struct db_parameter keep_array(struct call *call, struct db_array *array) {
  struct slice bytes = buffer_slice(&array->bytes);
  void *copy = arena_allocate(&call->arena, bytes.length);
  memcpy(copy, bytes.data, bytes.length);
  db_array_release(array);
  return db_bytes(slice_of(copy, bytes.length));
}

static void set_offsets(struct txn *txn, const struct offset_list *list) {
  struct db_array partitions = {0}, offsets = {0};
  db_array_begin(&partitions, DB_INT4);
  db_array_begin(&offsets, DB_INT8);
  for (unsigned i = 0; i < list->count; i++) {
    db_array_add_int4(&partitions, list->partitions[i]);
    db_array_add_int8(&offsets, list->offsets[i]);
  }
  txn->control.parameters[7] = keep_array(txn->call, &partitions);
  txn->control.parameters[8] = keep_array(txn->call, &offsets);
}

/* NULL, or the code of what is wrong with the member's claim. */
static const char *check_claim(struct group_request *request) {
  const char *problem = group_request_check_member(request);
  return problem ? problem : group_request_read_generation(request, true);
}

static bool check_fields(struct txn *txn, struct group_request *request) {
  struct call *call = txn->call;
  if (!txn_check_transactional_id(call, txn->transactional_id)) return false;
  if (request->topic.length == 0) {
    call_fail_command(call, "missing_topic");
    return false;
  }
  if (!group_request_need_group(request) || !txn_check_producer_id(call, txn->producer_id) ||
      !txn_read_epoch(call, &txn->epoch)) {
    return false;
  }
  const char *problem = check_claim(request);
  if (problem) {
    call_fail_command(call, problem);
    return false;
  }
  return group_request_need_topic_text(request);
}

void handle_send_offsets_to_txn(struct call *call) {
  struct txn *txn = txn_create(call, "transaction_offsets_failed", answer_staged);
  struct group_request *request = group_request_create(call, NULL);
  struct offset_list list;
  txn->transactional_id = txn_transactional_id(call);
  txn->producer_id = txn_producer_id(call);
  if (!check_fields(txn, request)) return;
  /* The list is looked at after the group's topic, which only the database knows. */
  const char *problem = offset_list_parse(call_field(call, "offsets"), &list);
  struct db_parameter *p = txn->control.parameters;
  union db_scalar *s = txn->control.scalars;
  p[0] = db_bytes(txn->transactional_id);
  p[1] = db_bytes(txn->producer_id);
  p[2] = db_int8(&s[2], txn->epoch);
  p[3] = db_bytes(request->group);
  p[4] = db_bytes(request->topic);
  p[5] = db_bytes(request->member);
  p[6] = db_int8(&s[6], request->generation);
  p[9] = problem ? db_bytes(slice_text(problem)) : db_null();
  p[10] = db_int8(&s[10], TXN_MAX_OFFSETS);
  p[11] = db_int4(&s[11], TXN_MARKER_BATCH);
  if (problem) list.count = 0;
  set_offsets(txn, &list);
  txn->control.locks.group = request->group;
  txn_submit(txn, CONTROL_STAGE_OFFSETS, true);
}
