/* TXN_APPEND_STREAM (commands-2 4.14): one event in a transaction, its checks in the order of the
 * section. Its stream is reserved until the end. */
#include "base/hash.h"
#include "crs2/aggregate.h"
#include "crs2/commands.h"
#include "crs2/crs2.h"
#include "crs2/fields.h"
#include "crs2/handlers.h"
#include "crs2/txn.h"
#include "crs2/txn_record.h"

static bool fail_command(struct call *call, const char *code) {
  call_fail_command(call, code);
  return false;
}

static bool fail_reason(struct call *call, const char *code, const char *reason) {
  call_fail(call, code, FIELD_TEXT("reason", reason));
  return false;
}

/* ------------------------------------------------------------------ fields */

static bool check_required(struct call *call) {
  if (!txn_check_transactional_id(call, txn_transactional_id(call))) return false;
  if (call_field(call, "topic").length == 0) return fail_command(call, "missing_topic");
  if (call_field(call, "key").length == 0) return fail_command(call, "missing_key");
  if (call_field(call, "message").length == 0) return fail_command(call, "missing_message");
  return true;
}

static bool read_version(struct call *call, struct log_record *record) {
  struct slice text = txn_field(call, (const char *const[]){"expected_version", "version", NULL});
  if (aggregate_parse_number(text, &record->aggregate_version) && record->aggregate_version > 0) {
    return true;
  }
  call_fail(call, "invalid_expected_version", FIELD_TEXT("command", call->command->name),
            FIELD_TEXT("reason", "must be a number from 1 to 9223372036854775807"));
  return false;
}

static bool check_texts(struct call *call, const struct log_record *record) {
  if (record->key.length > AGGREGATE_MAX_KEY) {
    return fail_reason(call, "invalid_key", "must have at most 65535 bytes");
  }
  if (!field_is_text(record->event_type)) {
    return fail_reason(call, "invalid_event_type", "must be UTF-8 without NUL");
  }
  if (!field_is_text(record->metadata)) {
    return fail_reason(call, "invalid_metadata", "must be UTF-8 without NUL");
  }
  return publish_check_size(call, record);
}

/* ------------------------------------------------------------------ against the topic */

static enum publish_verdict check_against_topic(struct publish *publish, const struct topic *topic,
                                                bool idempotent) {
  struct call *call = publish->call;
  struct txn_record *source = publish->source;
  uint64_t schema_version = 1;
  (void)idempotent;
  if (!topic->event_sourcing) {
    if (!publish->is_fresh) return PUBLISH_DOUBTFUL;
    call_fail(call, "event_sourcing_not_enabled", FIELD_SLICE("topic", publish->topic));
    return PUBLISH_REFUSED;
  }
  enum publish_verdict verdict = publish_check_replay_topic(publish, topic);
  if (verdict == PUBLISH_PASSED) verdict = publish_check_write_access(publish, topic);
  if (verdict != PUBLISH_PASSED) return verdict;
  if (publish->item.rows == NULL && call_has_field(call, "schema_version") &&
      (!field_parse_u64(call_field(call, "schema_version"), &schema_version) ||
       schema_version > UINT32_MAX)) {
    call_fail_plain(call, "invalid_schema_version");
    return PUBLISH_REFUSED;
  }
  if (publish->item.rows == NULL) source->record.schema_version = (int64_t)schema_version;
  publish->item.partition = (int32_t)(source->key_hash % (uint64_t)topic->partition_count);
  return PUBLISH_PASSED;
}

static bool answer(struct publish *publish, const struct append_result *result) {
  struct call *call = publish->call;
  const struct txn_record *source = publish->source;
  switch (result->status) {
    case APPEND_OTHER_PARTITION: /* partitions were added after the stream began */
      publish->item.partition = (int32_t)result->current;
      append_submit(call->crs2->append, &publish->item);
      return true;
    case APPEND_VERSION_CONFLICT:
      call_fail(call, "stream_version_conflict",
                FIELD_NUMBER(call, "expected", source->record.aggregate_version),
                FIELD_NUMBER(call, "current", result->current));
      return true;
    case APPEND_RESERVED:
      fail_reason(call, "transaction_stream_failed",
                  "the stream is reserved: a transaction has appended to it and has not ended");
      return true;
    default:
      return txn_record_answer(publish, result);
  }
}

/* ------------------------------------------------------------------ the request */

void handle_txn_append_stream(struct call *call) {
  if (!check_required(call)) return;
  struct txn_record *source = arena_allocate_zeroed(&call->arena, sizeof *source);
  struct publish *publish = publish_create(call, call_field(call, "topic"));
  struct log_record *record = &source->record;
  if (!read_version(call, record) || !txn_check_producer_id(call, txn_producer_id(call)) ||
      !txn_read_epoch(call, &publish->producer_epoch) ||
      !txn_record_read_sequence(call, &source->transaction.client_sequence)) {
    return;
  }
  source->is_event = true;
  source->transaction.requested_partition = -1;
  source->transaction.transactional_id = txn_record_keep(call, txn_transactional_id(call));
  publish->producer_id = txn_record_keep(call, txn_producer_id(call));
  record->payload = call_field(call, "message");
  record->key = call_field(call, "key");
  record->producer_id = publish->producer_id;
  record->producer_epoch = publish->producer_epoch;
  record->event_type = call_field(call, "event_type");
  record->metadata = call_field(call, "metadata");
  source->key_hash = hash_fnv1a64(record->key);
  if (!check_texts(call, record)) return;
  if (slice_equals_text(publish->topic, "__consumer_offsets")) {
    call_fail(call, "internal_topic_write_forbidden", FIELD_SLICE("topic", publish->topic));
    return;
  }
  publish->source = source;
  publish->acks_all = true;
  publish->check = check_against_topic;
  publish->build = txn_record_build_row;
  publish->answer = answer;
  publish_run(publish);
}
