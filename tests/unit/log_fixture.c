/* Builds records and batches for tests; owns nothing. */
#include "log_fixture.h"

#include "base/memory.h"
#include "unit.h"

static struct slice noise_bytes(uint64_t *noise, struct arena *arena, size_t most) {
  size_t length = noise_below(noise, most + 1);
  uint8_t *bytes = arena_allocate(arena, length + 1);
  noise_fill(noise, bytes, length);
  return slice_of(bytes, length);
}

static struct slice maybe_bytes(uint64_t *noise, struct arena *arena, size_t most) {
  if (noise_below(noise, 3) == 0) return noise_bytes(noise, arena, most);
  return slice_of(NULL, 0);
}

static int64_t maybe_number(uint64_t *noise) {
  static const int64_t numbers[] = {0, 0, 0, 1, 2, 4294967295, INT64_MAX};
  return numbers[noise_below(noise, sizeof numbers / sizeof *numbers)];
}

struct log_record noise_record(uint64_t *noise, struct arena *arena) {
  static const char *const producers[] = {"", "a", "a", "a", "producer"};
  struct log_record record = {
      .payload = noise_bytes(noise, arena, 40),
      .key = maybe_bytes(noise, arena, 10),
      .has_timestamp = noise_below(noise, 2) == 0,
      .producer_id = slice_text(producers[noise_below(noise, 5)]),
      .producer_epoch = noise_below(noise, 4) == 0 ? -1 : 7,
      .sequence = (int64_t)noise_below(noise, 3),
      .event_type = maybe_bytes(noise, arena, 10),
      .schema_version = maybe_number(noise),
      .aggregate_version = maybe_number(noise),
      .metadata = maybe_bytes(noise, arena, 10),
      .event_id = maybe_bytes(noise, arena, 10),
      .payload_digest = maybe_bytes(noise, arena, 10),
  };
  if (record.has_timestamp) record.timestamp = (int64_t)noise_next(noise);
  return record;
}

struct log_record plain_record(const char *payload) {
  return (struct log_record){.payload = slice_text(payload)};
}

struct columns *row_of(const struct log_record *records, unsigned count) {
  struct columns *columns = columns_create();
  for (unsigned i = 0; i < count; i++) columns_add(columns, &records[i]);
  columns_finish(columns);
  return columns;
}

struct columns *row_of_size(unsigned count, size_t size) {
  uint8_t *payload = memory_allocate_zeroed(1, size);
  const struct log_record record = {.payload = slice_of(payload, size)};
  struct columns *columns = columns_create();
  for (unsigned i = 0; i < count; i++) columns_add(columns, &record);
  columns_finish(columns);
  free(payload);
  return columns;
}

struct log_batch *batch_of(const struct columns *columns, int64_t base_offset) {
  struct log_batch source = {.log_id = 1,
                             .base_offset = base_offset,
                             .last_offset = base_offset + columns->record_count - 1,
                             .record_count = columns->record_count,
                             .producer_id = buffer_slice(&columns->producer_id),
                             .producer_epoch = columns->producer_epoch,
                             .first_sequence = columns->first_sequence,
                             .last_sequence = columns->last_sequence};
  for (int i = 0; i < COLUMN_COUNT; i++) source.columns[i] = buffer_slice(&columns->arrays[i]);
  struct log_batch *batch = log_batch_copy(&source);
  assert_non_null(batch);
  return batch;
}

struct log_batch *batch_of_size(int64_t base_offset, unsigned count, size_t size) {
  struct columns *columns = row_of_size(count, size);
  struct log_batch *batch = batch_of(columns, base_offset);
  columns_free(columns);
  return batch;
}

void assert_same_record(const struct log_record *got, const struct log_record *want) {
  assert_slices(got->payload, want->payload);
  assert_slices(got->key, want->key);
  assert_int_equal(got->has_timestamp, want->has_timestamp);
  assert_int_equal(got->timestamp, want->timestamp);
  assert_slices(got->producer_id, want->producer_id);
  assert_int_equal(got->producer_epoch, want->producer_epoch);
  assert_int_equal(got->sequence, want->sequence);
  assert_slices(got->event_type, want->event_type);
  assert_int_equal(got->schema_version, want->schema_version);
  assert_int_equal(got->aggregate_version, want->aggregate_version);
  assert_slices(got->metadata, want->metadata);
  assert_slices(got->event_id, want->event_id);
  assert_slices(got->payload_digest, want->payload_digest);
}

void assert_batch_holds(const struct log_batch *batch, const struct log_record *records,
                        unsigned count) {
  struct batch_iterator iterator;
  struct log_record record;
  assert_int_equal(batch->record_count, count);
  batch_iterator_begin(&iterator, batch);
  for (unsigned i = 0; i < count; i++) {
    assert_true(batch_iterator_next(&iterator, &record));
    assert_int_equal(record.offset, batch->base_offset + i);
    assert_same_record(&record, &records[i]);
  }
  assert_false(batch_iterator_next(&iterator, &record));
}
