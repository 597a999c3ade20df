/* Makes one batch of several control-plane calls. Pure but for memory: no connection, no queue. */
#include "db/control_batch.h"

#include "db/control.h"

bool control_batch_takes(const struct control_call *call) {
  return call->locks.transactional_id.length > 0 && !call->runs_alone;
}

void control_batch_add(struct control_batch *batch, struct control_call *call) {
  batch->members[batch->count++] = call;
}

static void encode_locks(struct control_batch *batch) {
  db_array_begin(&batch->transactional_ids, DB_TEXT);
  db_array_begin(&batch->ending, DB_TEXT);
  db_array_begin(&batch->groups, DB_TEXT);
  for (unsigned i = 0; i < batch->count; i++) {
    const struct control_locks *locks = &batch->members[i]->locks;
    db_array_add_bytes(&batch->transactional_ids, locks->transactional_id);
    if (locks->may_end) db_array_add_bytes(&batch->ending, locks->transactional_id);
    if (locks->group.length) db_array_add_bytes(&batch->groups, locks->group);
  }
  batch->lock_parameters[0] = db_array_parameter(&batch->transactional_ids);
  batch->lock_parameters[1] = db_array_parameter(&batch->ending);
  batch->lock_parameters[2] = db_array_parameter(&batch->groups);
  batch->calls[batch->call_count++] =
      (struct db_call){.statement = CONTROL_LOCK_CHANGES, .parameters = batch->lock_parameters};
}

void control_batch_encode(struct control_batch *batch) {
  batch->call_count = 0;
  if (batch->count > 1) encode_locks(batch);
  for (unsigned i = 0; i < batch->count; i++) {
    const struct control_call *call = batch->members[i];
    batch->calls[batch->call_count++] =
        (struct db_call){.statement = call->statement, .parameters = call->parameters};
  }
}

struct control_call *control_batch_member(const struct control_batch *batch, unsigned call) {
  unsigned first = batch->call_count - batch->count;
  return call < first ? NULL : batch->members[call - first];
}

void control_batch_release(struct control_batch *batch) {
  db_array_release(&batch->transactional_ids);
  db_array_release(&batch->ending);
  db_array_release(&batch->groups);
}
