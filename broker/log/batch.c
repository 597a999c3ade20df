/* Immutable batches. Owns their memory; must never change one after it was made (the tail cache
 * notes decisions). */
#include "log/batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define ARRAY_HEADER_SIZE 20u
#define ARRAY_NULL 0xFFFFFFFFu

/* pg_type oids of what has a fixed size. */
#define OID_INT8 20u
#define OID_INT4 23u

/* True when every element lies inside the array and there are `count` of them. Checked once, when a
 * batch is made, so that iterating needs no error path. */
static bool array_is_sound(struct slice array, uint32_t count, uint32_t type) {
  const uint32_t fixed_size = type == OID_INT8 ? 8 : type == OID_INT4 ? 4 : 0;
  struct cursor cursor = cursor_over(array);
  uint32_t dimensions = cursor_u32(&cursor);
  cursor_u32(&cursor); /* flags */
  uint32_t found_type = cursor_u32(&cursor);
  uint32_t length = cursor_u32(&cursor);
  cursor_u32(&cursor); /* lower bound */
  if (cursor.failed || dimensions != 1 || found_type != type || length != count) return false;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t size = cursor_u32(&cursor);
    if (size == ARRAY_NULL) continue;
    if (fixed_size && size != fixed_size) return false;
    cursor_take(&cursor, size);
  }
  return cursor_is_finished(&cursor);
}

/* Deltas rise, from 0 at the least, to at most the batch's last offset. */
static bool deltas_are_sound(const struct log_batch *batch) {
  if (!array_is_sound(batch->offset_deltas, batch->record_count, OID_INT4)) return false;
  struct cursor cursor = cursor_over(batch->offset_deltas);
  cursor_take(&cursor, ARRAY_HEADER_SIZE);
  int64_t before = -1;
  for (uint32_t i = 0; i < batch->record_count; i++) {
    if (cursor_u32(&cursor) == ARRAY_NULL) return false;
    int32_t delta = (int32_t)cursor_u32(&cursor);
    if (delta <= before) return false;
    before = delta;
  }
  return before <= batch->last_offset - batch->base_offset;
}

static bool offsets_are_sound(const struct log_batch *batch) {
  if (batch->offsets.length) return array_is_sound(batch->offsets, batch->record_count, OID_INT8);
  if (batch->base_offset < 0 || batch->last_offset < batch->base_offset) return false;
  if (batch->offset_deltas.length) return deltas_are_sound(batch);
  return batch->last_offset - batch->base_offset == (int64_t)batch->record_count - 1;
}

static bool batch_is_sound(const struct log_batch *batch) {
  if (batch->columns[COLUMN_PAYLOADS].length == 0 || !offsets_are_sound(batch)) return false;
  for (int i = 0; i < COLUMN_COUNT; i++) {
    if (batch->columns[i].length == 0) continue;
    if (!array_is_sound(batch->columns[i], batch->record_count, column_types[i])) return false;
  }
  return true;
}

static struct slice move_in(uint8_t **place, struct slice bytes) {
  if (bytes.length == 0) return slice_of(NULL, 0);
  memcpy(*place, bytes.data, bytes.length);
  struct slice copy = slice_of(*place, bytes.length);
  *place += bytes.length;
  return copy;
}

static size_t memory_of(const struct log_batch *source) {
  size_t size = sizeof *source + source->producer_id.length + source->transactional_id.length +
                source->offset_deltas.length + source->offsets.length;
  for (int i = 0; i < COLUMN_COUNT; i++) size += source->columns[i].length;
  return size;
}

static struct log_batch *copy_sound(const struct log_batch *source) {
  size_t size = memory_of(source);
  struct log_batch *batch = memory_allocate(size);
  *batch = *source;
  batch->references = 1;
  batch->memory = size;
  uint8_t *place = (uint8_t *)(batch + 1);
  batch->producer_id = move_in(&place, source->producer_id);
  batch->transactional_id = move_in(&place, source->transactional_id);
  batch->offset_deltas = move_in(&place, source->offset_deltas);
  batch->offsets = move_in(&place, source->offsets);
  for (int i = 0; i < COLUMN_COUNT; i++) batch->columns[i] = move_in(&place, source->columns[i]);
  return batch;
}

struct log_batch *log_batch_copy(const struct log_batch *source) {
  return batch_is_sound(source) ? copy_sound(source) : NULL;
}

struct log_batch *log_batch_from_columns(const struct columns *columns, int64_t log_id,
                                         int32_t partition, int64_t base_offset,
                                         int64_t appended_at) {
  struct log_batch source = {.log_id = log_id,
                             .partition = partition,
                             .base_offset = base_offset,
                             .last_offset = base_offset + columns->record_count - 1,
                             .record_count = columns->record_count,
                             .kind = BATCH_DATA,
                             .appended_at = appended_at,
                             .producer_id = buffer_slice(&columns->producer_id),
                             .producer_epoch = columns->producer_epoch,
                             .first_sequence = columns->first_sequence,
                             .last_sequence = columns->last_sequence};
  for (int i = 0; i < COLUMN_COUNT; i++) source.columns[i] = buffer_slice(&columns->arrays[i]);
  return copy_sound(&source);
}

struct log_batch *log_batch_retain(struct log_batch *batch) {
  batch->references++;
  return batch;
}

void log_batch_release(struct log_batch *batch) {
  if (batch && --batch->references == 0) free(batch);
}

/* ------------------------------------------------------------------ iterating */

void batch_iterator_begin(struct batch_iterator *iterator, const struct log_batch *batch) {
  iterator->batch = batch;
  iterator->index = 0;
  for (int i = 0; i < COLUMN_COUNT; i++) {
    iterator->columns[i] = cursor_over(batch->columns[i]);
    cursor_take(&iterator->columns[i], batch->columns[i].length ? ARRAY_HEADER_SIZE : 0);
  }
  iterator->offsets = cursor_over(batch->offsets);
  cursor_take(&iterator->offsets, batch->offsets.length ? ARRAY_HEADER_SIZE : 0);
  iterator->offset_deltas = cursor_over(batch->offset_deltas);
  cursor_take(&iterator->offset_deltas, batch->offset_deltas.length ? ARRAY_HEADER_SIZE : 0);
}

/* The next element of a column; false when the column or the element is NULL. */
static inline bool next_bytes(struct cursor *cursor, struct slice *value) {
  if (cursor->position == cursor->end) return false;
  uint32_t length = cursor_u32(cursor);
  if (length == ARRAY_NULL) return false;
  *value = cursor_take(cursor, length);
  return true;
}

static inline bool next_number(struct cursor *cursor, int64_t *value) {
  if (cursor->position == cursor->end) return false;
  if (cursor_u32(cursor) == ARRAY_NULL) return false;
  *value = (int64_t)cursor_u64(cursor);
  return true;
}

/* Unsigned: the numbers come from a table, and any two of them must be harmless. */
static int64_t scalar_sequence(const struct log_batch *batch, uint32_t index) {
  uint64_t first = (uint64_t)batch->first_sequence, last = (uint64_t)batch->last_sequence;
  bool is_run = last - first == (uint64_t)batch->record_count - 1;
  return (int64_t)(is_run ? first + index : first);
}

static void next_producer(struct batch_iterator *iterator, struct log_record *record) {
  const struct log_batch *batch = iterator->batch;
  if (batch->columns[COLUMN_PRODUCER_IDS].length == 0) {
    record->producer_id = batch->producer_id;
  } else {
    next_bytes(&iterator->columns[COLUMN_PRODUCER_IDS], &record->producer_id);
  }
  record->producer_epoch = batch->producer_epoch;
  next_number(&iterator->columns[COLUMN_PRODUCER_EPOCHS], &record->producer_epoch);
  if (!next_number(&iterator->columns[COLUMN_SEQUENCES], &record->sequence)) {
    record->sequence = scalar_sequence(batch, iterator->index);
  }
}

bool batch_iterator_next(struct batch_iterator *iterator, struct log_record *record) {
  const struct log_batch *batch = iterator->batch;
  if (iterator->index >= batch->record_count) return false;
  memset(record, 0, sizeof *record);
  struct cursor *columns = iterator->columns;
  next_bytes(&columns[COLUMN_PAYLOADS], &record->payload);
  next_bytes(&columns[COLUMN_KEYS], &record->key);
  record->has_timestamp = next_number(&columns[COLUMN_TIMESTAMPS], &record->timestamp);
  next_producer(iterator, record);
  next_bytes(&columns[COLUMN_EVENT_TYPES], &record->event_type);
  next_number(&columns[COLUMN_SCHEMA_VERSIONS], &record->schema_version);
  next_number(&columns[COLUMN_AGGREGATE_VERSIONS], &record->aggregate_version);
  next_bytes(&columns[COLUMN_METADATA], &record->metadata);
  next_bytes(&columns[COLUMN_EVENT_IDS], &record->event_id);
  next_bytes(&columns[COLUMN_PAYLOAD_DIGESTS], &record->payload_digest);
  record->offset = batch->base_offset + iterator->index;
  if (batch->offset_deltas.length) {
    cursor_u32(&iterator->offset_deltas);
    record->offset = batch->base_offset + (int32_t)cursor_u32(&iterator->offset_deltas);
  }
  next_number(&iterator->offsets, &record->offset);
  iterator->index++;
  return true;
}
