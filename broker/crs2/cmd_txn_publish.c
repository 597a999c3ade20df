/* TXN_PUBLISH (commands-2 4.6): one record in a transaction, its checks in the order of the
 * section. What a PUBLISH does with a topic and an append is used as it is there. */
#include <string.h>

#include "base/hash.h"
#include "crs2/commands.h"
#include "crs2/crs2.h"
#include "crs2/fields.h"
#include "crs2/handlers.h"
#include "crs2/publish.h"
#include "crs2/txn.h"
#include "crs2/txn_record.h"

static bool fail_reason(struct call *call, const char *code, const char *reason) {
  call_fail(call, code, FIELD_TEXT("reason", reason));
  return false;
}

/* A partition below -1 means nothing; -1 leaves the choice to the broker. */
static bool read_partition(struct call *call, int32_t *partition) {
  int64_t value = -1;
  if (call_has_field(call, "partition") &&
      !field_parse_int(call_field(call, "partition"), &value)) {
    return fail_reason(call, "invalid_partition", "must be an integer");
  }
  if (value < -1) return fail_reason(call, "invalid_partition", "must not be below -1");
  *partition = value > INT32_MAX ? INT32_MAX : (int32_t)value;
  return true;
}

bool txn_record_read_sequence(struct call *call, int64_t *sequence) {
  uint64_t value = 0;
  if (field_parse_u64(call_field(call, "seqNum"), &value) && value > 0 && value <= INT64_MAX) {
    *sequence = (int64_t)value;
    return true;
  }
  call_fail(call, "invalid_seq_num", FIELD_TEXT("command", call->command->name),
            FIELD_TEXT("reason", "must be a number from 1 to 9223372036854775807"));
  return false;
}

static bool check_required(struct call *call) {
  if (!txn_check_transactional_id(call, txn_transactional_id(call))) return false;
  if (call_field(call, "topic").length == 0) {
    call_fail_command(call, "missing_topic");
    return false;
  }
  if (call_field(call, "message").length == 0) {
    call_fail_command(call, "missing_message");
    return false;
  }
  return txn_check_producer_id(call, txn_producer_id(call));
}

/* ------------------------------------------------------------------ against the topic */

/* Where no partition is asked for and no key decides, records take turns by their number, so that a
 * request that is sent again, to whatever node, goes where it went before. */
static int32_t choose_partition(const struct publish *publish, const struct txn_record *source,
                                const struct topic *topic) {
  if (source->transaction.requested_partition >= 0) return source->transaction.requested_partition;
  uint64_t count = (uint64_t)topic->partition_count;
  if (topic->places_by_key && source->has_key) return (int32_t)(source->key_hash % count);
  uint64_t turn = (uint64_t)source->transaction.client_sequence - 1 +
                  (uint64_t)publish->producer_epoch +
                  hash_fnv1a64(source->transaction.transactional_id);
  return (int32_t)(turn % count);
}

static enum publish_verdict check_against_topic(struct publish *publish, const struct topic *topic,
                                                bool idempotent) {
  const struct txn_record *source = publish->source;
  (void)idempotent;
  enum publish_verdict verdict = publish_check_replay_topic(publish, topic);
  if (verdict == PUBLISH_PASSED) verdict = publish_check_write_access(publish, topic);
  if (verdict != PUBLISH_PASSED) return verdict;
  if (source->transaction.requested_partition >= topic->partition_count) {
    return publish_fail_partition(publish, source->transaction.requested_partition);
  }
  publish->item.partition = choose_partition(publish, source, topic);
  return PUBLISH_PASSED;
}

const char *txn_record_build_row(struct publish *publish) {
  const struct txn_record *source = publish->source;
  publish->item.rows = columns_create();
  columns_add(publish->item.rows, &source->record);
  publish->item.may_repeat = true;
  publish->item.transaction = &source->transaction;
  return NULL;
}

/* ------------------------------------------------------------------ answers */

static const char *failed_code(const struct publish *publish) {
  const struct txn_record *source = publish->source;
  return source->is_event ? "transaction_stream_failed" : "transaction_publish_failed";
}

static const char *id_text(const struct publish *publish) {
  const struct txn_record *source = publish->source;
  return (const char *)source->transaction.transactional_id.data; /* a copy that ends with NUL */
}

static void fail_state(struct publish *publish, const char *state) {
  struct call *call = publish->call;
  call_fail(call, failed_code(publish),
            FIELD_TEXT("reason", arena_format(&call->arena, "transaction %s is %s",
                                              id_text(publish), state)));
}

static void answer_overdue(struct txn *txn, const PGresult *rows) {
  (void)rows;
  fail_state(txn->call->state, "aborted");
}

/* Whatever touches a transaction past its deadline aborts it first (commands-2 4.10). */
static void end_overdue(struct publish *publish) {
  struct call *call = publish->call;
  const struct txn_record *source = publish->source;
  struct txn *txn = txn_create(call, failed_code(publish), answer_overdue);
  call->state = publish;
  txn->control.parameters[0] = db_bytes(source->transaction.transactional_id);
  txn->control.parameters[1] = db_int4(&txn->control.scalars[1], TXN_MARKER_BATCH);
  txn_submit(txn, CONTROL_TRANSACTION_STATUS, true);
}

static void fail_conflict(struct publish *publish) {
  struct call *call = publish->call;
  const struct txn_record *source = publish->source;
  call_fail(call, failed_code(publish),
            FIELD_TEXT("reason", arena_format(&call->arena,
                                              "seqNum %lld conflicts with existing client sequence",
                                              (long long)source->transaction.client_sequence)));
}

static void fail_fenced(struct publish *publish, const struct append_result *result) {
  struct call *call = publish->call;
  call_fail(call, "producer_fenced", FIELD_TEXT("transactional_id", id_text(publish)),
            FIELD_NUMBER(call, "current_epoch", result->current),
            FIELD_NUMBER(call, "requested_epoch", publish->producer_epoch));
}

static void answer_appended(struct publish *publish, const struct append_result *result) {
  const struct txn_record *source = publish->source;
  struct call *call = publish->call;
  const char *version = source->is_event ? arena_format(&call->arena, " version=%lld",
                                                        (long long)source->record.aggregate_version)
                                         : "";
  call_reply_format(call,
                    "OK transactional_id=%s appended=true topic=%.*s partition=%d%s state=open",
                    id_text(publish), (int)publish->topic.length, (const char *)publish->topic.data,
                    (int)result->partition, version);
}

bool txn_record_answer(struct publish *publish, const struct append_result *result) {
  static const char *const states[] = {"aborted", "prepare_commit", "prepare_abort", "committed",
                                       "aborted"};
  struct call *call = publish->call;
  switch (result->status) {
    case APPEND_OK:
    case APPEND_DUPLICATE:
      answer_appended(publish, result);
      return true;
    case APPEND_NO_TRANSACTION:
      call_fail(
          call, "transaction_not_found",
          FIELD_TEXT("reason", arena_format(&call->arena, "transactional id %s is not initialised",
                                            id_text(publish))));
      return true;
    case APPEND_FENCED:
      fail_fenced(publish, result);
      return true;
    case APPEND_NOT_OPEN:
      fail_state(publish, states[result->current >= 0 && result->current <= TRANSACTION_ABORTED
                                     ? result->current
                                     : TRANSACTION_NOT_BEGUN]);
      return true;
    case APPEND_OVERDUE:
      end_overdue(publish);
      return true;
    case APPEND_CONFLICTING:
      fail_conflict(publish);
      return true;
    case APPEND_OVER_CAPACITY:
      call_fail(
          call, "transaction_publish_failed",
          FIELD_TEXT("reason", arena_format(&call->arena, "transaction capacity exceeded: %lld %s",
                                            (long long)result->expected,
                                            result->expected == 10000 ? "records" : "bytes")));
      return true;
    case APPEND_UNKNOWN:
      call_fail(
          call, "transaction_sync_failed",
          FIELD_TEXT("reason", arena_format(&call->arena, "outcome unknown: %s", result->reason)));
      return true;
    case APPEND_FAILED:
      call_fail(call, failed_code(publish),
                FIELD_TEXT("reason", arena_copy_text(&call->arena, slice_text(result->reason))));
      return true;
    default:
      return false;
  }
}

/* ------------------------------------------------------------------ the request */

struct slice txn_record_keep(struct call *call, struct slice text) {
  return slice_of(arena_copy_text(&call->arena, text), text.length);
}

void handle_txn_publish(struct call *call) {
  if (!check_required(call)) return;
  struct txn_record *source = arena_allocate_zeroed(&call->arena, sizeof *source);
  struct publish *publish = publish_create(call, call_field(call, "topic"));
  if (!txn_read_epoch(call, &publish->producer_epoch) ||
      !read_partition(call, &source->transaction.requested_partition) ||
      !txn_record_read_sequence(call, &source->transaction.client_sequence)) {
    return;
  }
  source->transaction.transactional_id = txn_record_keep(call, txn_transactional_id(call));
  publish->producer_id = txn_record_keep(call, txn_producer_id(call));
  source->record = (struct log_record){.payload = call_field(call, "message"),
                                       .key = call_field(call, "key"),
                                       .producer_id = publish->producer_id,
                                       .producer_epoch = publish->producer_epoch};
  source->has_key = source->record.key.length > 0;
  source->key_hash = hash_fnv1a64(source->record.key);
  if (!publish_check_size(call, &source->record)) return;
  if (slice_equals_text(publish->topic, "__consumer_offsets")) {
    call_fail(call, "internal_topic_write_forbidden", FIELD_SLICE("topic", publish->topic));
    return;
  }
  publish->source = source;
  publish->acks_all = true;
  publish->check = check_against_topic;
  publish->build = txn_record_build_row;
  publish->answer = txn_record_answer;
  publish_run(publish);
}
