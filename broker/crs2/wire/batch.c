/* CBV2 batches: a head, then records one after the other. Decoding keeps views into the payload and
 * one array in the arena; writing goes straight into the buffer of the frame. */
#include "crs2/wire/batch.h"

#include <endian.h>

#include "base/cursor.h"
#include "crs2/wire/record_codec.h"

#define BATCH_MAGIC 0x43425632u
#define BATCH_VERSION 2u
#define BATCH_FLAG_IDEMPOTENT 1u

/* What the head takes besides its topic and acks. */
#define BATCH_HEAD_SIZE 40u

static const char cut_short[] = "the batch is cut short";
static const char too_many[] = "more than 100000 records";

/* Exactly these; letter case matters (section 10). */
static bool is_acks(struct slice acks) {
  static const char *const values[] = {"", "0", "none", "1", "-1", "all"};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    if (slice_equals_text(acks, values[i])) return true;
  return false;
}

bool batch_is_batch(struct slice payload) {
  static const uint8_t start[] = {'C', 'B', 'V', '2', 0, BATCH_VERSION};
  return payload.length >= sizeof start && memcmp(payload.data, start, sizeof start) == 0;
}

/* ---- decoding ---- */

static const char *decode_head(struct cursor *cursor, struct batch *batch) {
  if (cursor_u32(cursor) != BATCH_MAGIC) return "not a CBV2 batch";
  if (cursor_u16(cursor) != BATCH_VERSION) return "unsupported batch version";
  uint16_t flags = cursor_u16(cursor);
  if (flags & ~BATCH_FLAG_IDEMPOTENT) return "unknown batch flags";
  batch->idempotent = flags & BATCH_FLAG_IDEMPOTENT;
  batch->topic = cursor_bytes(cursor);
  batch->partition = (int32_t)cursor_u32(cursor);
  batch->acks = cursor_bytes(cursor);
  batch->batch_start = cursor_u64(cursor);
  batch->batch_end = cursor_u64(cursor);
  batch->record_count = cursor_u32(cursor);
  if (cursor->failed) return cut_short;
  if (!is_acks(batch->acks)) return "unknown acks";
  if (batch->record_count > BATCH_MAX_RECORDS) return too_many;
  if (batch->record_count > cursor_remaining(cursor) / BATCH_MIN_RECORD_SIZE) return cut_short;
  return NULL;
}

static const char *decode_records(struct cursor *cursor, const struct batch *batch) {
  for (uint32_t i = 0; i < batch->record_count; i++) {
    struct slice bytes = cursor_bytes(cursor), topic;
    if (cursor->failed) return cut_short;
    int32_t partition;
    const char *refusal = record_decode(bytes, &batch->records[i], &topic, &partition);
    if (refusal) return refusal;
    if (partition != batch->partition || !slice_equals(topic, batch->topic))
      return "a record names another topic or partition than its batch";
  }
  return cursor_is_finished(cursor) ? NULL : "bytes follow the last record";
}

const char *batch_decode(struct slice payload, struct arena *arena, struct batch *batch) {
  *batch = (struct batch){0};
  struct cursor cursor = cursor_over(payload);
  const char *refusal = decode_head(&cursor, batch);
  if (refusal) return refusal;
  batch->records = arena_allocate(arena, batch->record_count * sizeof *batch->records);
  return decode_records(&cursor, batch);
}

/* ---- encoding ---- */

static void append_string(struct buffer *out, struct slice text) {
  buffer_append_u32(out, (uint32_t)text.length);
  buffer_append_slice(out, text);
}

static void append_head(const struct batch *batch, struct buffer *out) {
  buffer_reserve(out, BATCH_HEAD_SIZE + batch->topic.length + batch->acks.length);
  buffer_append_u32(out, BATCH_MAGIC);
  buffer_append_u16(out, BATCH_VERSION);
  buffer_append_u16(out, batch->idempotent ? BATCH_FLAG_IDEMPOTENT : 0);
  append_string(out, batch->topic);
  buffer_append_u32(out, (uint32_t)batch->partition);
  append_string(out, batch->acks);
  buffer_append_u64(out, batch->batch_start);
  buffer_append_u64(out, batch->batch_end);
  buffer_append_u32(out, batch->record_count);
}

const char *batch_encode(const struct batch *batch, struct buffer *out) {
  if (batch->record_count > BATCH_MAX_RECORDS) return too_many;
  if (!is_acks(batch->acks)) return "unknown acks";
  if (batch->topic.length > UINT32_MAX) return "the topic is too long";
  struct batch head = *batch;
  if (head.record_count && !head.batch_start) head.batch_start = head.records[0].sequence;
  if (head.record_count && !head.batch_end)
    head.batch_end = head.records[head.record_count - 1].sequence;
  size_t before = out->length;
  append_head(&head, out);
  for (uint32_t i = 0; i < batch->record_count; i++) {
    const char *refusal =
        record_encode_prefixed(&batch->records[i], batch->topic, batch->partition, out);
    if (!refusal) continue;
    out->length = before;
    return refusal;
  }
  return NULL;
}

void batch_writer_begin(struct batch_writer *writer, struct buffer *out, struct slice topic,
                        int32_t partition) {
  *writer = (struct batch_writer){
      .out = out, .start = out->length, .topic = topic, .partition = partition};
  append_head(&(struct batch){.topic = topic, .partition = partition, .acks = slice_text("1")},
              out);
  writer->count_position = out->length - 4;
  writer->end_position = writer->count_position - 8;
  writer->start_position = writer->end_position - 8;
}

const char *batch_writer_add(struct batch_writer *writer, const struct record *record) {
  if (writer->count == BATCH_MAX_RECORDS) return too_many;
  const char *refusal =
      record_encode_prefixed(record, writer->topic, writer->partition, writer->out);
  if (refusal) return refusal;
  if (writer->count++ == 0) writer->first_sequence = record->sequence;
  writer->last_sequence = record->sequence;
  return NULL;
}

static void patch_u64(struct buffer *out, size_t position, uint64_t value) {
  buffer_patch_u32(out, position, (uint32_t)(value >> 32));
  buffer_patch_u32(out, position + 4, (uint32_t)value);
}

void batch_writer_finish(struct batch_writer *writer) {
  patch_u64(writer->out, writer->start_position, writer->first_sequence);
  patch_u64(writer->out, writer->end_position, writer->last_sequence);
  buffer_patch_u32(writer->out, writer->count_position, writer->count);
}
