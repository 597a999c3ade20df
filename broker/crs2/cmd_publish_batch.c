/* PUBLISH of a batch (commands-1 4.2): all its records or none. */
#include <stdlib.h>
#include <string.h>

#include "crs2/commands.h"
#include "crs2/crs2.h"
#include "crs2/fields.h"
#include "crs2/handlers.h"
#include "crs2/publish.h"

#define TRANSACTION_FIELDS                                                                      \
  (RECORD_HAS_TRANSACTIONAL_ID | RECORD_HAS_TRANSACTION_STATE | RECORD_HAS_TRANSACTION_MARKER | \
   RECORD_HAS_CONTROL_TYPE | RECORD_HAS_CONTROL_VERSION | RECORD_HAS_CONTROL_EPOCH |            \
   RECORD_HAS_CONTROL_KEY | RECORD_HAS_CONTROL_VALUE)

/* The producer id of a row that is deduplicated is part of an index entry, which holds at most some
 * 2,700 bytes. Ids in batches are not held to the rule of identifiers (commands-1 1.1). */
#define MAX_IDEMPOTENT_PRODUCER_BYTES 1024u

/* What outlives the payload of a large batch. */
struct batch_facts {
  int64_t partition;
  uint32_t record_count;
  bool has_transaction_fields;
};

static bool has_transaction_fields(const struct batch *batch) {
  for (uint32_t i = 0; i < batch->record_count; i++) {
    if (record_canonical_presence(&batch->records[i]) & TRANSACTION_FIELDS) return true;
  }
  return false;
}

/* Steps 5 to 11 of the table. */
static enum publish_verdict check_against_topic(struct publish *publish, const struct topic *topic,
                                                bool idempotent) {
  const struct batch_facts *facts = publish->source;
  enum publish_verdict verdict = publish_check_write_access(publish, topic);
  if (verdict == PUBLISH_PASSED) verdict = publish_check_replay_topic(publish, topic);
  if (verdict != PUBLISH_PASSED) return verdict;
  if (facts->partition < 0 || facts->partition >= topic->partition_count) {
    return publish_fail_partition(publish, facts->partition);
  }
  if (facts->record_count == 0) {
    call_fail_command(publish->call, "empty_messages");
    return PUBLISH_REFUSED;
  }
  verdict = publish_check_idempotent_acks(publish, idempotent);
  if (verdict != PUBLISH_PASSED) return verdict;
  if (facts->has_transaction_fields) return publish_fail_transaction_fields(publish);
  publish->item.partition = (int32_t)facts->partition;
  return PUBLISH_PASSED;
}

static const char *refuse(struct publish *publish, const char *code, const char *reason) {
  publish->refusal = code;
  return reason;
}

/* The record as the core stores it; NULL, or why it cannot be stored. */
static const char *convert_record(struct publish *publish, const struct record *record,
                                  struct log_record *out) {
  if (!publish_fits_bigint(record->sequence)) {
    return refuse(publish, "invalid_seq_num", "a sequence number is above 9223372036854775807");
  }
  if (!publish_fits_bigint(record->aggregate_version)) {
    return refuse(publish, "invalid_aggregate_version",
                  "an aggregate version is above 9223372036854775807");
  }
  if (!field_is_text(record->producer_id) || !field_is_text(record->event_type) ||
      !field_is_text(record->metadata) || !field_is_text(record->event_id) ||
      !field_is_text(record->payload_digest)) {
    return refuse(publish, "batch_decode_failed",
                  "a text of a record is not UTF-8 or contains NUL");
  }
  *out = (struct log_record){.payload = record->payload,
                             .key = record->key,
                             .has_timestamp = record->timestamp != 0,
                             .timestamp = record->timestamp,
                             .producer_id = record->producer_id,
                             .producer_epoch = record->epoch,
                             .sequence = (int64_t)record->sequence,
                             .event_type = record->event_type,
                             .schema_version = record->schema_version,
                             .aggregate_version = (int64_t)record->aggregate_version,
                             .metadata = record->metadata,
                             .event_id = record->event_id,
                             .payload_digest = record->payload_digest};
  if (publish_fits_frame(out)) return NULL;
  return refuse(publish, "broker_error", publish_too_large);
}

/* Rows hold about the same number of bytes; an idempotent one holds one producer's session only,
 * since its producer columns are the deduplication state. */
static bool starts_new_row(const struct columns *row, const struct log_record *record,
                           bool deduplicate) {
  if (row == NULL || row->idempotent != deduplicate) return true;
  if (!columns_have_room(row, log_record_bytes(record))) return true;
  return deduplicate && (record->producer_epoch != row->producer_epoch ||
                         !slice_equals(record->producer_id, buffer_slice(&row->producer_id)));
}

static const char *build_rows(struct publish *publish) {
  const struct batch *batch = &publish->call->batch;
  struct columns **end = &publish->item.rows;
  struct columns *row = NULL;
  publish->item.may_repeat = true;
  for (uint32_t i = 0; i < batch->record_count; i++) {
    struct log_record record;
    const char *reason = convert_record(publish, &batch->records[i], &record);
    if (reason) return reason;
    bool deduplicate =
        publish->is_idempotent && record.sequence >= 1 && record.producer_id.length > 0;
    if (deduplicate && record.producer_id.length > MAX_IDEMPOTENT_PRODUCER_BYTES) {
      return refuse(publish, "batch_decode_failed",
                    "the producer id of an idempotent record is longer than 1024 bytes");
    }
    if (starts_new_row(row, &record, deduplicate)) {
      row = columns_create();
      row->idempotent = deduplicate;
      *end = row;
      end = &row->next;
    }
    columns_add(row, &record);
    if (!deduplicate) publish->item.may_repeat = false;
  }
  return NULL;
}

static void note_acknowledgement(struct publish *publish, const struct batch *batch) {
  if (batch->record_count == 0) return;
  const struct record *first = &batch->records[0];
  const struct record *last = &batch->records[batch->record_count - 1];
  publish->producer_id =
      slice_of(arena_copy_text(&publish->call->arena, last->producer_id), last->producer_id.length);
  publish->producer_epoch = last->epoch;
  publish->first_sequence = (int64_t)first->sequence;
  publish->last_sequence = (int64_t)last->sequence;
}

void handle_publish_batch(struct call *call) {
  const struct batch *batch = &call->batch;
  struct publish *publish = publish_create(call, batch->topic);
  struct batch_facts *facts = arena_allocate(&call->arena, sizeof *facts);
  *facts = (struct batch_facts){.partition = batch->partition,
                                .record_count = batch->record_count,
                                .has_transaction_fields = has_transaction_fields(batch)};
  publish->source = facts;
  publish->acks_all = slice_equals_text(batch->acks, "-1") || slice_equals_text(batch->acks, "all");
  publish->wants_idempotence = batch->idempotent;
  publish->check = check_against_topic;
  publish->build = build_rows;
  note_acknowledgement(publish, batch);
  publish_run(publish);
}
