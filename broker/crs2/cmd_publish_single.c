/* PUBLISH of one record by fields (commands-1 4.1), its checks in the order of the table there. */
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "crs2/commands.h"
#include "crs2/crs2.h"
#include "crs2/fields.h"
#include "crs2/handlers.h"
#include "crs2/publish.h"

/* What later checks need is noted here: the payload may be gone when they are repeated. */
struct single {
  struct log_record record;
  bool has_key;
  bool is_internal;
  bool asks_for_transaction;
  bool has_partition;
  int64_t partition;
  uint64_t key_hash;
};

static bool fail_reason(struct call *call, const char *code, const char *reason) {
  call_fail(call, code, FIELD_TEXT("reason", reason));
  return false;
}

/* 1 to 5. */
static bool check_required(struct call *call) {
  struct slice topic = call_field(call, "topic");
  struct slice producer = call_field(call, "producerId");
  const char *code = NULL;
  if (topic.length == 0) {
    code = "missing_topic";
  } else if (call_field(call, "message").length == 0) {
    code = "missing_message";
  } else if (producer.length == 0) {
    code = "missing_producer_id";
  } else if (!field_is_identifier(producer)) {
    code = "invalid_producer_id";
  }
  if (code) {
    call_fail_command(call, code);
    return false;
  }
  if (slice_equals_text(topic, INTERNAL_TOPIC)) {
    call_fail(call, "internal_topic_write_forbidden", FIELD_SLICE("topic", topic));
    return false;
  }
  return true;
}

static bool read_idempotence(struct publish *publish) {
  struct call *call = publish->call;
  if (!call_has_field(call, "isIdempotent")) return true;
  struct slice value = call_field(call, "isIdempotent");
  if (field_parse_bool(value, &publish->wants_idempotence)) return true;
  call_fail(call, "invalid_is_idempotent", FIELD_SLICE("value", value));
  return false;
}

static bool read_acks(struct publish *publish) {
  struct slice value = call_field(publish->call, "acks");
  struct slice acks = text_trim(value);
  publish->acks_all = slice_equals_text(acks, "-1") || field_equals_ignoring_case(acks, "all");
  if (publish->acks_all || acks.length == 0 || slice_equals_text(acks, "0") ||
      slice_equals_text(acks, "1")) {
    return true;
  }
  call_fail(publish->call, "invalid_acks", FIELD_SLICE("value", value));
  return false;
}

static bool read_bigint(struct call *call, const char *name, const char *code, int64_t *number) {
  uint64_t value = 0;
  if (!call_has_field(call, name)) return true;
  if (!field_parse_u64(call_field(call, name), &value) || !publish_fits_bigint(value)) {
    return fail_reason(call, code, "must be a number from 0 to 9223372036854775807");
  }
  *number = (int64_t)value;
  return true;
}

static bool read_aggregate_version(struct call *call, struct log_record *record) {
  if (!read_bigint(call, "aggregate_version", "invalid_aggregate_version",
                   &record->aggregate_version)) {
    return false;
  }
  if (call_has_field(call, "aggregate_version") && record->aggregate_version == 0) {
    return fail_reason(call, "invalid_aggregate_version", "must be at least 1");
  }
  return true;
}

static bool read_schema_version(struct call *call, struct log_record *record) {
  uint64_t value = 0;
  if (!call_has_field(call, "schema_version")) return true;
  if (!field_parse_u64(call_field(call, "schema_version"), &value) || value > UINT32_MAX) {
    return fail_reason(call, "invalid_schema_version", "must be a number from 0 to 4294967295");
  }
  record->schema_version = (int64_t)value;
  return true;
}

static bool read_partition(struct call *call, struct single *single) {
  if (!call_has_field(call, "partition")) return true;
  if (!field_parse_int(call_field(call, "partition"), &single->partition)) {
    return fail_reason(call, "invalid_partition", "must be an integer");
  }
  single->has_partition = single->partition >= 0;
  return true;
}

/* 7 to 11, and what becomes text in the database must be text. */
static bool read_record(struct call *call, struct single *single) {
  struct log_record *record = &single->record;
  record->payload = call_field(call, "message");
  record->key = call_field(call, "key");
  record->producer_id = call_field(call, "producerId");
  record->event_type = call_field(call, "event_type");
  record->metadata = call_field(call, "metadata");
  single->key_hash = hash_fnv1a64(record->key);
  if (!read_bigint(call, "seqNum", "invalid_seq_num", &record->sequence)) return false;
  if (call_has_field(call, "epoch") &&
      !field_parse_int(call_field(call, "epoch"), &record->producer_epoch)) {
    return fail_reason(call, "invalid_epoch", "must be an integer");
  }
  if (!read_aggregate_version(call, record) || !read_schema_version(call, record) ||
      !read_partition(call, single)) {
    return false;
  }
  if (!field_is_text(record->event_type)) {
    return fail_reason(call, "invalid_event_type", "must be UTF-8 without NUL");
  }
  if (!field_is_text(record->metadata)) {
    return fail_reason(call, "invalid_metadata", "must be UTF-8 without NUL");
  }
  return publish_check_size(call, record);
}

static bool asks_for_transaction(const struct call *call) {
  static const char *const names[] = {"transactional_id",      "transaction_state",
                                      "transaction_marker",    "control_batch_type",
                                      "control_batch_version", "control_batch_coordinator_epoch",
                                      "control_batch_key",     "control_batch_value"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (call_field(call, names[i]).length) return true;
  }
  return false;
}

static int32_t choose_partition(struct publish *publish, const struct single *single,
                                const struct topic *topic) {
  if (single->has_partition) return (int32_t)single->partition;
  if (topic->places_by_key && single->has_key) {
    return (int32_t)(single->key_hash % (uint64_t)topic->partition_count);
  }
  return topics_next_partition(publish->call->crs2->topics, topic);
}

/* 13 to 18. */
static enum publish_verdict check_against_topic(struct publish *publish, const struct topic *topic,
                                                bool idempotent) {
  struct single *single = publish->source;
  enum publish_verdict verdict = publish_check_replay_topic(publish, topic);
  if (verdict != PUBLISH_PASSED) return verdict;
  if (single->is_internal) {
    call_fail_command(publish->call, "internal_txn_publish_forbidden");
    return PUBLISH_REFUSED;
  }
  verdict = publish_check_write_access(publish, topic);
  if (verdict != PUBLISH_PASSED) return verdict;
  verdict = publish_check_idempotent_acks(publish, idempotent);
  if (verdict != PUBLISH_PASSED) return verdict;
  if (single->has_partition && single->partition >= topic->partition_count) {
    return publish_fail_partition(publish, single->partition);
  }
  if (single->asks_for_transaction) return publish_fail_transaction_fields(publish);
  publish->item.partition = choose_partition(publish, single, topic);
  return PUBLISH_PASSED;
}

static const char *build_row(struct publish *publish) {
  const struct single *single = publish->source;
  struct columns *row = columns_create();
  columns_add(row, &single->record);
  row->idempotent = publish->is_idempotent && single->record.sequence >= 1;
  publish->item.rows = row;
  publish->item.may_repeat = row->idempotent;
  return NULL;
}

void handle_publish_single(struct call *call) {
  if (!check_required(call)) return;
  struct publish *publish = publish_create(call, call_field(call, "topic"));
  struct single *single = arena_allocate_zeroed(&call->arena, sizeof *single);
  publish->source = single;
  single->has_key = call_field(call, "key").length > 0;
  single->asks_for_transaction = asks_for_transaction(call);
  if (!field_parse_bool(call_field(call, "internal_txn_publish"), &single->is_internal)) {
    single->is_internal = false;
  }
  if (!read_idempotence(publish) || !read_acks(publish) || !read_record(call, single)) return;
  struct slice producer = single->record.producer_id;
  publish->producer_id = slice_of(arena_copy_text(&call->arena, producer), producer.length);
  publish->producer_epoch = single->record.producer_epoch;
  publish->first_sequence = publish->last_sequence = single->record.sequence;
  publish->check = check_against_topic;
  publish->build = build_row;
  publish_run(publish);
}
