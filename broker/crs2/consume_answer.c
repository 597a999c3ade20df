/* Turns stored batches into a CBV2 batch (crs2-wire 10, 13.3). */
#include "crs2/consume_answer.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "crs2/wire/batch.h"
#include "crs2/wire/frame.h"

/* Room left below the frame limit, so that a compressed form that is larger than the plain one
 * still fits. */
#define ANSWER_MAX_BYTES (FRAME_MAX_PAYLOAD - (1u << 20))

/* However full the memory budget is, a reader gets this much, so that everybody gets on. */
#define ANSWER_MIN_BYTES (1 << 20)

void consume_answer_init(struct consume_answer *answer, int64_t max_records) {
  *answer = (struct consume_answer){.max_records = max_records, .max_bytes = ANSWER_MAX_BYTES};
}

/* Only read_uncommitted shows markers, and records of transactions that were not committed. */
static bool is_visible(const struct log_batch *batch, bool is_uncommitted) {
  if (is_uncommitted) return true;
  return batch->kind == BATCH_DATA &&
         (batch->transaction_id == 0 || batch->decision == TRANSACTION_DECIDED_COMMIT);
}

static uint64_t count_from(const struct log_batch *batch, int64_t from_offset) {
  if (from_offset <= batch->base_offset) return batch->record_count;
  if (batch->offset_deltas.length == 0) return (uint64_t)(batch->last_offset - from_offset + 1);
  struct batch_iterator iterator;
  struct log_record record;
  uint64_t count = 0;
  batch_iterator_begin(&iterator, batch);
  while (batch_iterator_next(&iterator, &record)) count += record.offset >= from_offset;
  return count;
}

void consume_answer_add(struct consume_answer *answer, struct log_batch *batch, int64_t from_offset,
                        bool is_uncommitted) {
  if (!is_visible(batch, is_uncommitted)) return;
  uint64_t count = count_from(batch, from_offset);
  if (count == 0) return;
  if (answer->part_count == answer->part_capacity) {
    answer->part_capacity = answer->part_capacity ? answer->part_capacity * 2 : 8;
    answer->parts = memory_resize(answer->parts, answer->part_capacity * sizeof *answer->parts);
  }
  answer->parts[answer->part_count++] =
      (struct consume_part){.batch = log_batch_retain(batch), .from_offset = from_offset};
  answer->records += count;
  answer->bytes += batch->memory;
}

bool consume_answer_is_full(const struct consume_answer *answer, int64_t max_records) {
  return answer->records >= (uint64_t)max_records || answer->bytes >= ANSWER_MAX_BYTES;
}

int64_t consume_answer_room(const struct consume_answer *answer,
                            const struct memory_budget *budget) {
  int64_t room = (int64_t)ANSWER_MAX_BYTES - (int64_t)answer->bytes;
  int64_t free_bytes = (int64_t)memory_budget_free(budget);
  if (room > free_bytes / 4) room = free_bytes / 4;
  return room > ANSWER_MIN_BYTES ? room : ANSWER_MIN_BYTES;
}

/* What a transaction adds to its records and markers (commands-2 4.6, 4.12). A record says `open`
 * for ever: the log is immutable, and the marker tells the outcome. `control` is room for a
 * marker's key and value. */
static void add_transaction(const struct log_batch *batch, struct record *wire,
                            uint8_t control[10]) {
  wire->transactional_id = batch->transactional_id;
  if (batch->kind == BATCH_DATA) {
    wire->transaction_state = slice_text("open");
    return;
  }
  bool commits = batch->kind == BATCH_COMMIT_MARKER;
  uint32_t epoch = htobe32((uint32_t)batch->producer_epoch);
  memcpy(control, (const uint8_t[10]){0, 0, 0, commits ? 0 : 1}, 10);
  memcpy(control + 6, &epoch, 4);
  wire->transaction_state = slice_text(commits ? "committed" : "aborted");
  wire->transaction_marker = slice_text(commits ? "commit" : "abort");
  wire->control_type = slice_text("transaction");
  wire->control_version = 2;
  wire->control_epoch = batch->producer_epoch;
  wire->has_control_key = wire->has_control_value = true;
  wire->control_key = slice_of(control, 4);
  wire->control_value = slice_of(control + 4, 6);
}

static struct record to_wire(const struct log_record *record) {
  return (struct record){.offset = (uint64_t)record->offset,
                         .payload = record->payload,
                         .timestamp = record->timestamp,
                         .producer_id = record->producer_id,
                         .sequence = (uint64_t)record->sequence,
                         .epoch = record->producer_epoch,
                         .key = record->key,
                         .event_type = record->event_type,
                         .schema_version = (uint32_t)record->schema_version,
                         .aggregate_version = (uint64_t)record->aggregate_version,
                         .metadata = record->metadata,
                         .event_id = record->event_id,
                         .payload_digest = record->payload_digest};
}

/* Adds a part's records; the offset of the first that the batch has no room for, or -1. */
static int64_t add_part(struct batch_writer *writer, const struct consume_answer *answer,
                        const struct consume_part *part) {
  struct batch_iterator iterator;
  struct log_record record;
  batch_iterator_begin(&iterator, part->batch);
  while (batch_iterator_next(&iterator, &record)) {
    if (record.offset < part->from_offset) continue;
    if ((int64_t)writer->count >= answer->max_records) return record.offset;
    const struct batch_writer saved = *writer;
    size_t length = writer->out->length;
    struct record wire = to_wire(&record);
    uint8_t control[10];
    if (part->batch->transaction_id) add_transaction(part->batch, &wire, control);
    if (batch_writer_add(writer, &wire) != NULL) return record.offset;
    size_t size = writer->out->length - writer->start;
    if (writer->count > 1 && size > answer->max_bytes) {
      writer->out->length = length; /* it goes first in the next answer */
      *writer = saved;
      return record.offset;
    }
    if (size > answer->max_bytes) return record.offset + 1;
  }
  return -1;
}

int64_t consume_answer_build(struct consume_answer *answer, struct slice topic, int32_t partition,
                             struct buffer *out) {
  struct batch_writer writer;
  batch_writer_begin(&writer, out, topic, partition);
  int64_t left_out = -1;
  answer->built_parts = 0;
  for (unsigned i = 0; i < answer->part_count; i++) {
    left_out = add_part(&writer, answer, &answer->parts[i]);
    if (left_out >= 0) break;
    answer->built_parts++;
  }
  batch_writer_finish(&writer);
  return left_out;
}

void consume_answer_release(struct consume_answer *answer) {
  for (unsigned i = 0; i < answer->part_count; i++) log_batch_release(answer->parts[i].batch);
  free(answer->parts);
  answer->parts = NULL;
  answer->part_count = answer->part_capacity = 0;
  answer->records = 0;
  answer->bytes = 0;
}
