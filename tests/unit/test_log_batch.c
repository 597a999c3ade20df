/* Immutable batches: what PostgreSQL sends is checked once, so that nothing that walks a batch can
 * leave it. */
#include <endian.h>

#include "base/memory.h"
#include "log_fixture.h"
#include "unit.h"

enum { RECORDS = 5 };

/* A batch as PostgreSQL would send it, each array in a block of exactly its size, so that the
 * address sanitizer sees a step too far. */
struct source {
  struct log_batch batch;
  uint8_t *blocks[COLUMN_COUNT + 1]; /* the last one: offset_deltas */
};

static uint8_t *exact_copy(struct slice bytes) {
  uint8_t *block = memory_allocate(bytes.length);
  memcpy(block, bytes.data, bytes.length);
  return block;
}

static void append_deltas(struct buffer *array, const int32_t *deltas, unsigned count) {
  const uint32_t header[5] = {1, 0, 23, count, 1};
  for (unsigned i = 0; i < 5; i++) buffer_append_u32(array, header[i]);
  for (unsigned i = 0; i < count; i++) {
    buffer_append_u32(array, 4);
    buffer_append_u32(array, (uint32_t)deltas[i]);
  }
}

static void make_source(struct source *source, const struct columns *columns,
                        const int32_t *deltas) {
  *source = (struct source){.batch = {.log_id = 1,
                                      .base_offset = 1000,
                                      .last_offset = 1000 + columns->record_count - 1,
                                      .record_count = columns->record_count,
                                      .producer_id = slice_text("p"),
                                      .producer_epoch = 2,
                                      .first_sequence = columns->first_sequence,
                                      .last_sequence = columns->last_sequence}};
  for (int i = 0; i < COLUMN_COUNT; i++) {
    if (columns->arrays[i].length == 0) continue;
    source->blocks[i] = exact_copy(buffer_slice(&columns->arrays[i]));
    source->batch.columns[i] = slice_of(source->blocks[i], columns->arrays[i].length);
  }
  if (deltas == NULL) return;
  struct buffer array = {0};
  append_deltas(&array, deltas, columns->record_count);
  source->blocks[COLUMN_COUNT] = exact_copy(buffer_slice(&array));
  source->batch.offset_deltas = slice_of(source->blocks[COLUMN_COUNT], array.length);
  source->batch.last_offset = INT64_C(1000) + deltas[columns->record_count - 1];
  buffer_release(&array);
}

static void release_source(struct source *source) {
  for (int i = 0; i <= COLUMN_COUNT; i++) free(source->blocks[i]);
}

/* A source that uses every column. */
static void make_noise_source(struct source *source, struct log_record *records,
                              struct arena *arena, const int32_t *deltas) {
  uint64_t noise = 99;
  struct columns *columns;
  for (;;) {
    for (unsigned i = 0; i < RECORDS; i++) records[i] = noise_record(&noise, arena);
    columns = row_of(records, RECORDS);
    int used = 0;
    for (int i = 0; i < COLUMN_COUNT; i++) used += columns->arrays[i].length != 0;
    if (used == COLUMN_COUNT) break;
    columns_free(columns);
  }
  make_source(source, columns, deltas);
  columns_free(columns);
}

static bool is_taken(const struct source *source) {
  struct log_batch *batch = log_batch_copy(&source->batch);
  log_batch_release(batch);
  return batch != NULL;
}

/* Touches every byte that a reader would. */
static void walk(const struct log_batch *batch) {
  struct batch_iterator iterator;
  struct log_record record;
  uint64_t sum = 0;
  uint32_t count = 0;
  int64_t before = batch->base_offset - 1;
  batch_iterator_begin(&iterator, batch);
  for (; batch_iterator_next(&iterator, &record); count++) {
    const struct slice slices[] = {record.payload,       record.key,      record.producer_id,
                                   record.metadata,      record.event_id, record.event_type,
                                   record.payload_digest};
    for (size_t i = 0; i < sizeof slices / sizeof *slices; i++) {
      for (size_t j = 0; j < slices[i].length; j++) sum += slices[i].data[j];
    }
    assert_true(record.offset > before && record.offset <= batch->last_offset);
    before = record.offset;
  }
  assert_int_equal(count, batch->record_count);
  assert_true(sum > 0);
}

/* ---- what is sound ---- */

static void a_copy_holds_the_records_and_outlives_its_source(void **state) {
  (void)state;
  struct arena arena = {0};
  struct log_record records[RECORDS];
  struct source source;
  make_noise_source(&source, records, &arena, NULL);
  struct log_batch *batch = log_batch_copy(&source.batch);
  release_source(&source);
  assert_non_null(batch);
  assert_slice_text(batch->producer_id, "p");
  assert_batch_holds(batch, records, RECORDS);
  assert_ptr_equal(log_batch_retain(batch), batch);
  log_batch_release(batch);
  assert_batch_holds(batch, records, RECORDS);
  log_batch_release(batch);
  log_batch_release(NULL);
  arena_release(&arena);
}

static void appended_columns_make_the_batch_that_would_be_read(void **state) {
  (void)state;
  uint64_t noise = 5;
  struct arena arena = {0};
  struct log_record records[RECORDS];
  for (unsigned i = 0; i < RECORDS; i++) records[i] = noise_record(&noise, &arena);
  struct columns *columns = row_of(records, RECORDS);
  struct log_batch *batch = log_batch_from_columns(columns, 8, 3, 50, 123456);
  columns_free(columns);
  assert_int_equal(batch->log_id, 8);
  assert_int_equal(batch->partition, 3);
  assert_int_equal(batch->base_offset, 50);
  assert_int_equal(batch->last_offset, 50 + RECORDS - 1);
  assert_int_equal(batch->appended_at, 123456);
  assert_int_equal(batch->kind, BATCH_DATA);
  assert_batch_holds(batch, records, RECORDS);
  log_batch_release(batch);
  arena_release(&arena);
}

static void offset_deltas_place_the_records(void **state) {
  (void)state;
  static const int32_t deltas[RECORDS] = {0, 2, 3, 7, 40};
  struct arena arena = {0};
  struct log_record records[RECORDS], record;
  struct source source;
  struct batch_iterator iterator;
  make_noise_source(&source, records, &arena, deltas);
  struct log_batch *batch = log_batch_copy(&source.batch);
  release_source(&source);
  assert_non_null(batch);
  batch_iterator_begin(&iterator, batch);
  for (unsigned i = 0; i < RECORDS; i++) {
    assert_true(batch_iterator_next(&iterator, &record));
    assert_int_equal(record.offset, 1000 + deltas[i]);
    assert_same_record(&record, &records[i]);
  }
  assert_false(batch_iterator_next(&iterator, &record));
  log_batch_release(batch);
  arena_release(&arena);
}

/* ---- what is not ---- */

static void check_deltas(const char *name, const int32_t *deltas, int64_t last_offset,
                         bool expected) {
  struct columns *columns = row_of_size(3, 4);
  struct source source;
  make_source(&source, columns, deltas);
  source.batch.last_offset = last_offset;
  CHECK(name, is_taken(&source) == expected);
  release_source(&source);
  columns_free(columns);
}

static void offsets_that_contradict_each_other_are_refused(void **state) {
  (void)state;
  check_deltas("holes", (const int32_t[]){0, 1, 5}, 1005, true);
  check_deltas("holes at both ends", (const int32_t[]){2, 3, 5}, 1010, true);
  check_deltas("a delta twice", (const int32_t[]){0, 1, 1}, 1005, false);
  check_deltas("deltas that fall", (const int32_t[]){0, 2, 1}, 1005, false);
  check_deltas("a negative delta", (const int32_t[]){-1, 0, 1}, 1005, false);
  check_deltas("a delta beyond the end", (const int32_t[]){0, 1, 6}, 1005, false);
  check_deltas("dense", NULL, 1002, true);
  check_deltas("dense, but fewer records than offsets", NULL, 1003, false);
  check_deltas("dense, but more records than offsets", NULL, 1001, false);
  check_deltas("an end before the start", NULL, 999, false);
}

static void offsets_near_the_greatest_number_do_not_overflow(void **state) {
  (void)state;
  struct columns *columns = row_of_size(3, 4);
  struct source source;
  make_source(&source, columns, (const int32_t[]){0, 1, INT32_MAX});
  source.batch.base_offset = INT64_MAX - 10;
  source.batch.last_offset = INT64_MAX;
  assert_false(is_taken(&source));
  source.batch.base_offset = -5; /* no offset is below 0 */
  source.batch.last_offset = INT64_MAX;
  assert_false(is_taken(&source));
  release_source(&source);
  columns_free(columns);
}

static void sequences_of_any_two_ends_do_not_overflow(void **state) {
  (void)state;
  struct columns *columns = row_of_size(3, 4);
  struct source source;
  make_source(&source, columns, NULL);
  source.batch.first_sequence = INT64_MIN;
  source.batch.last_sequence = INT64_MAX;
  struct log_batch *batch = log_batch_copy(&source.batch);
  walk(batch ? batch : &source.batch);
  log_batch_release(batch);
  release_source(&source);
  columns_free(columns);
}

static void an_array_of_another_type_is_refused(void **state) {
  (void)state;
  struct arena arena = {0};
  struct log_record records[RECORDS];
  for (int i = 0; i <= COLUMN_COUNT; i++) {
    struct source source;
    make_noise_source(&source, records, &arena, (const int32_t[]){0, 1, 2, 3, 4});
    assert_true(is_taken(&source));
    source.blocks[i][11] ^= 2;
    assert_false(is_taken(&source));
    release_source(&source);
  }
  arena_release(&arena);
}

static void a_batch_without_payloads_is_refused(void **state) {
  (void)state;
  struct columns *columns = row_of_size(3, 4);
  struct source source;
  make_source(&source, columns, NULL);
  source.batch.columns[COLUMN_PAYLOADS] = slice_of(NULL, 0);
  assert_false(is_taken(&source));
  release_source(&source);
  columns_free(columns);
}

static void a_null_among_the_deltas_is_refused(void **state) {
  (void)state;
  struct columns *columns = row_of_size(1, 4);
  static const uint8_t null_delta[24] = {0, 0, 0, 1, 0, 0, 0, 1, 0,    0,    0,    23,
                                         0, 0, 0, 1, 0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF};
  struct source source;
  make_source(&source, columns, NULL);
  source.batch.offset_deltas = slice_of(null_delta, sizeof null_delta);
  assert_false(is_taken(&source));
  release_source(&source);
  columns_free(columns);
}

static struct slice *array_of(struct source *source, int index) {
  return index < COLUMN_COUNT ? &source->batch.columns[index] : &source->batch.offset_deltas;
}

static void every_cut_array_is_refused(void **state) {
  (void)state;
  struct arena arena = {0};
  struct log_record records[RECORDS];
  struct source source;
  make_noise_source(&source, records, &arena, (const int32_t[]){0, 1, 2, 3, 4});
  for (int i = 0; i <= COLUMN_COUNT; i++) {
    struct slice *array = array_of(&source, i), whole = *array;
    for (size_t length = 1; length < whole.length; length++) {
      uint8_t *cut = exact_copy(slice_of(whole.data, length));
      *array = slice_of(cut, length);
      assert_false(is_taken(&source));
      free(cut);
    }
    *array = whole;
  }
  release_source(&source);
  arena_release(&arena);
}

static void every_flipped_bit_is_refused_or_harmless(void **state) {
  (void)state;
  struct arena arena = {0};
  struct log_record records[RECORDS];
  struct source source;
  unsigned refused = 0, taken = 0;
  make_noise_source(&source, records, &arena, (const int32_t[]){0, 1, 2, 3, 4});
  for (int i = 0; i <= COLUMN_COUNT; i++) {
    for (size_t bit = 0; bit < array_of(&source, i)->length * 8; bit++) {
      source.blocks[i][bit / 8] ^= (uint8_t)(1u << bit % 8);
      struct log_batch *batch = log_batch_copy(&source.batch);
      if (batch) walk(batch);
      *(batch ? &taken : &refused) += 1;
      log_batch_release(batch);
      source.blocks[i][bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
  }
  assert_true(refused > 1000 && taken > 1000);
  release_source(&source);
  arena_release(&arena);
}

static void noise_is_refused(void **state) {
  (void)state;
  uint64_t noise = 1;
  struct columns *columns = row_of_size(3, 4);
  for (unsigned round = 0; round < 2000; round++) {
    struct source source;
    make_source(&source, columns, NULL);
    uint8_t bytes[64];
    noise_fill(&noise, bytes, sizeof bytes);
    struct slice some = slice_of(bytes, 1 + noise_below(&noise, sizeof bytes));
    uint8_t *block = exact_copy(some);
    source.batch.columns[COLUMN_KEYS] = slice_of(block, some.length);
    assert_false(is_taken(&source));
    free(block);
    release_source(&source);
  }
  columns_free(columns);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_copy_holds_the_records_and_outlives_its_source),
      cmocka_unit_test(appended_columns_make_the_batch_that_would_be_read),
      cmocka_unit_test(offset_deltas_place_the_records),
      cmocka_unit_test(offsets_that_contradict_each_other_are_refused),
      cmocka_unit_test(offsets_near_the_greatest_number_do_not_overflow),
      cmocka_unit_test(sequences_of_any_two_ends_do_not_overflow),
      cmocka_unit_test(an_array_of_another_type_is_refused),
      cmocka_unit_test(a_batch_without_payloads_is_refused),
      cmocka_unit_test(a_null_among_the_deltas_is_refused),
      cmocka_unit_test(every_cut_array_is_refused),
      cmocka_unit_test(every_flipped_bit_is_refused_or_harmless),
      cmocka_unit_test(noise_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
