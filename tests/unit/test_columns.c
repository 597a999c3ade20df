/* The column arrays of a row: what is in them, how rows merge, and that PostgreSQL could read them.
 */
#include "base/cursor.h"
#include "log_fixture.h"
#include "unit.h"

enum { MANY = 60 };

static const struct log_record full = {
    .payload = {(const uint8_t *)"payload", 7},
    .key = {(const uint8_t *)"key", 3},
    .has_timestamp = true,
    .timestamp = -5,
    .producer_id = {(const uint8_t *)"p1", 2},
    .producer_epoch = 3,
    .sequence = 9,
    .event_type = {(const uint8_t *)"created", 7},
    .schema_version = 4294967295,
    .aggregate_version = INT64_MAX,
    .metadata = {(const uint8_t *)"{}", 2},
    .event_id = {(const uint8_t *)"e-1", 3},
    .payload_digest = {(const uint8_t *)"abcd", 4},
};

/* The record without what a column holds. */
static struct log_record without(enum column column) {
  struct log_record record = full;
  const struct slice none = {NULL, 0};
  if (column == COLUMN_KEYS) record.key = none;
  if (column == COLUMN_TIMESTAMPS) record.has_timestamp = false, record.timestamp = 0;
  if (column == COLUMN_EVENT_TYPES) record.event_type = none;
  if (column == COLUMN_SCHEMA_VERSIONS) record.schema_version = 0;
  if (column == COLUMN_AGGREGATE_VERSIONS) record.aggregate_version = 0;
  if (column == COLUMN_METADATA) record.metadata = none;
  if (column == COLUMN_EVENT_IDS) record.event_id = none;
  if (column == COLUMN_PAYLOAD_DIGESTS) record.payload_digest = none;
  return record;
}

static const enum column optional[] = {
    COLUMN_KEYS,     COLUMN_TIMESTAMPS, COLUMN_EVENT_TYPES,     COLUMN_SCHEMA_VERSIONS,
    COLUMN_METADATA, COLUMN_EVENT_IDS,  COLUMN_PAYLOAD_DIGESTS, COLUMN_AGGREGATE_VERSIONS};
enum { OPTIONAL = sizeof optional / sizeof *optional };

static void check_round_trip(const struct columns *columns, const struct log_record *records,
                             unsigned count) {
  struct log_batch *batch = batch_of(columns, 100);
  assert_batch_holds(batch, records, count);
  log_batch_release(batch);
}

/* ---- single rows ---- */

static void every_column_comes_back(void **state) {
  (void)state;
  struct columns *columns = row_of(&full, 1);
  assert_int_equal(columns->record_count, 1);
  assert_int_equal(columns->byte_count, 10);
  for (size_t i = 0; i < OPTIONAL; i++)
    assert_int_not_equal(columns->arrays[optional[i]].length, 0);
  check_round_trip(columns, &full, 1);
  columns_free(columns);
}

static void an_unused_column_stays_null(void **state) {
  (void)state;
  for (size_t i = 0; i < OPTIONAL; i++) {
    struct log_record record = without(optional[i]);
    struct columns *columns = row_of(&record, 1);
    assert_int_equal(columns->arrays[optional[i]].length, 0);
    check_round_trip(columns, &record, 1);
    columns_free(columns);
  }
}

static void a_column_is_filled_with_nulls_before_and_after_its_use(void **state) {
  (void)state;
  for (size_t i = 0; i < OPTIONAL; i++) {
    for (unsigned place = 0; place < 4; place++) {
      struct log_record records[4];
      for (unsigned j = 0; j < 4; j++) records[j] = j == place ? full : without(optional[i]);
      struct columns *columns = row_of(records, 4);
      check_round_trip(columns, records, 4);
      columns_free(columns);
    }
  }
}

static void an_empty_payload_is_a_payload(void **state) {
  (void)state;
  struct log_record records[2] = {plain_record(""), plain_record("")};
  struct columns *columns = row_of(records, 2);
  check_round_trip(columns, records, 2);
  columns_free(columns);
}

static void a_finished_row_takes_more_records_when_finished_again(void **state) {
  (void)state;
  struct log_record records[2] = {full, plain_record("x")};
  struct columns *columns = row_of(records, 1);
  columns_add(columns, &records[1]);
  columns_finish(columns);
  check_round_trip(columns, records, 2);
  columns_free(columns);
}

/* ---- sequences ---- */

struct sequence_case {
  const char *name;
  unsigned count;
  int64_t sequences[5];
  enum sequence_form form;
};

static const struct sequence_case sequence_cases[] = {
    {"one", 1, {7}, SEQUENCE_RUN},
    {"two in a run", 2, {7, 8}, SEQUENCE_RUN},
    {"two equal", 2, {7, 7}, SEQUENCE_CONSTANT},
    {"two others", 2, {7, 9}, SEQUENCE_ARRAY},
    {"a run", 4, {0, 1, 2, 3}, SEQUENCE_RUN},
    {"none", 4, {0, 0, 0, 0}, SEQUENCE_CONSTANT},
    {"a run that stops", 4, {1, 2, 3, 3}, SEQUENCE_ARRAY},
    {"equal ones that go on", 4, {1, 1, 1, 2}, SEQUENCE_ARRAY},
    {"back to where the run would be", 5, {1, 2, 9, 4, 5}, SEQUENCE_ARRAY},
    {"descending", 3, {3, 2, 1}, SEQUENCE_ARRAY},
    {"the greatest", 2, {INT64_MAX, 0}, SEQUENCE_ARRAY},
    {"up to the greatest", 3, {INT64_MAX - 1, INT64_MAX, INT64_MAX}, SEQUENCE_ARRAY},
    {"the greatest throughout", 3, {INT64_MAX, INT64_MAX, INT64_MAX}, SEQUENCE_CONSTANT},
};

static void sequences_take_the_smallest_form_that_holds_them(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof sequence_cases / sizeof *sequence_cases; i++) {
    const struct sequence_case *c = &sequence_cases[i];
    struct log_record records[5];
    for (unsigned j = 0; j < c->count; j++) {
      records[j] = plain_record("x");
      records[j].sequence = c->sequences[j];
    }
    struct columns *columns = row_of(records, c->count);
    CHECK(c->name, columns->sequence_form == c->form);
    CHECK(c->name, columns->first_sequence == c->sequences[0]);
    CHECK(c->name, columns->last_sequence == c->sequences[c->count - 1]);
    CHECK(c->name, (columns->arrays[COLUMN_SEQUENCES].length != 0) == (c->form == SEQUENCE_ARRAY));
    check_round_trip(columns, records, c->count);
    columns_free(columns);
  }
}

static void merged_sequences_take_the_same_form_as_added_ones(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof sequence_cases / sizeof *sequence_cases; i++) {
    const struct sequence_case *c = &sequence_cases[i];
    for (unsigned cut = 0; cut <= c->count; cut++) {
      struct log_record records[5];
      for (unsigned j = 0; j < c->count; j++) {
        records[j] = plain_record("x");
        records[j].sequence = c->sequences[j];
      }
      struct columns *columns = columns_create();
      struct columns *parts[2] = {row_of(records, cut), row_of(records + cut, c->count - cut)};
      for (unsigned part = 0; part < 2; part++) {
        if (parts[part]->record_count) columns_merge(columns, parts[part]);
        columns_free(parts[part]);
      }
      columns_finish(columns);
      CHECK(c->name, columns->sequence_form == c->form);
      check_round_trip(columns, records, c->count);
      columns_free(columns);
    }
  }
}

/* ---- producers ---- */

static void one_producer_is_stored_once_and_several_one_by_one(void **state) {
  (void)state;
  struct log_record records[3] = {full, full, full};
  struct columns *columns = row_of(records, 3);
  assert_int_equal(columns->arrays[COLUMN_PRODUCER_IDS].length, 0);
  assert_slice_text(buffer_slice(&columns->producer_id), "p1");
  check_round_trip(columns, records, 3);
  columns_free(columns);

  records[1].producer_epoch = 4; /* the same id in another session */
  records[2].producer_id = slice_text("");
  columns = row_of(records, 3);
  assert_int_not_equal(columns->arrays[COLUMN_PRODUCER_IDS].length, 0);
  check_round_trip(columns, records, 3);
  columns_free(columns);
}

/* ---- merging ---- */

/* Merges rows of the given sizes into one and compares with all their records. */
static void check_merge(const struct log_record *records, const unsigned *sizes, unsigned rows) {
  struct columns *merged = columns_create();
  unsigned total = 0;
  size_t bytes = 0;
  for (unsigned i = 0; i < rows; i++) {
    struct columns *row = row_of(records + total, sizes[i]);
    total += sizes[i];
    bytes += row->byte_count;
    columns_merge(merged, row);
    columns_free(row);
  }
  columns_finish(merged);
  assert_int_equal(merged->record_count, total);
  assert_int_equal(merged->byte_count, bytes);
  check_round_trip(merged, records, total);
  columns_free(merged);
}

static void every_column_merges_whoever_uses_it(void **state) {
  (void)state;
  for (size_t i = 0; i < OPTIONAL; i++) {
    for (unsigned users = 0; users < 8; users++) {
      for (unsigned second = 1; second <= 2; second++) {
        struct log_record records[5];
        const unsigned sizes[3] = {2, second, 1};
        unsigned count = 0;
        for (unsigned row = 0; row < 3; row++) {
          for (unsigned j = 0; j < sizes[row]; j++) {
            records[count++] = users & (1u << row) ? full : without(optional[i]);
          }
        }
        check_merge(records, sizes, 3);
      }
    }
  }
}

static void producers_merge_whatever_their_form(void **state) {
  (void)state;
  /* Each row is uniform (of one of two producers, or of nobody) or mixed. */
  static const char *const ids[4][2] = {{"a", "a"}, {"b", "b"}, {"", ""}, {"a", "b"}};
  for (unsigned first = 0; first < 4; first++) {
    for (unsigned second = 0; second < 4; second++) {
      for (unsigned third = 0; third < 4; third++) {
        const unsigned kinds[3] = {first, second, third}, sizes[3] = {2, 2, 2};
        struct log_record records[6];
        for (unsigned j = 0; j < 6; j++) {
          records[j] = plain_record("x");
          records[j].producer_id = slice_text(ids[kinds[j / 2]][j % 2]);
          records[j].producer_epoch = j == 5;
        }
        check_merge(records, sizes, 3);
      }
    }
  }
}

static void a_merge_leaves_its_source_as_it_is(void **state) {
  (void)state;
  struct log_record records[2] = {full, plain_record("x")};
  struct columns *target = row_of(records, 2), *source = row_of(records, 2);
  columns_merge(target, source);
  check_round_trip(source, records, 2);
  columns_free(target);
  columns_free(source);
}

static void random_records_in_random_splits_come_back(void **state) {
  (void)state;
  uint64_t noise = 4711;
  for (unsigned round = 0; round < 300; round++) {
    struct arena arena = {0};
    struct log_record records[MANY];
    unsigned sizes[MANY], rows = 0;
    for (unsigned i = 0; i < MANY; i++) records[i] = noise_record(&noise, &arena);
    for (unsigned left = MANY; left > 0; rows++) {
      sizes[rows] = 1 + (unsigned)noise_below(&noise, left < 9 ? left : 9);
      left -= sizes[rows];
    }
    check_merge(records, sizes, rows);
    arena_release(&arena);
  }
}

/* ---- form ---- */

/* array_recv() of PostgreSQL reads exactly this. */
static void arrays_have_postgres_binary_form(void **state) {
  (void)state;
  static const uint32_t types[COLUMN_COUNT] = {17, 17, 20, 20, 25, 20, 25, 20, 20, 25, 25, 25};
  struct log_record records[3] = {full, plain_record("x"), full};
  struct columns *columns = row_of(records, 3);
  for (int i = 0; i < COLUMN_COUNT; i++) {
    struct cursor cursor = cursor_over(buffer_slice(&columns->arrays[i]));
    assert_int_not_equal(columns->arrays[i].length, 0);
    assert_int_equal(cursor_u32(&cursor), 1); /* dimensions */
    assert_in_range(cursor_u32(&cursor), 0, 1);
    assert_int_equal(cursor_u32(&cursor), types[i]);
    assert_int_equal(cursor_u32(&cursor), 3);
    assert_int_equal(cursor_u32(&cursor), 1); /* lower bound */
    for (unsigned j = 0; j < 3; j++) {
      uint32_t length = cursor_u32(&cursor);
      if (length != 0xFFFFFFFF) cursor_take(&cursor, length);
    }
    assert_true(cursor_is_finished(&cursor));
  }
  columns_free(columns);
}

static void room_counts_everything_of_variable_length(void **state) {
  (void)state;
  static uint8_t text[COLUMNS_ROW_BYTES];
  struct columns *columns = columns_create();
  assert_true(columns_have_room(columns, 64u << 20)); /* the first one always fits */
  struct log_record record = plain_record("");
  record.metadata = slice_of(text, sizeof text - 10);
  columns_add(columns, &record);
  assert_true(columns_have_room(columns, 10));
  assert_false(columns_have_room(columns, 11));
  assert_int_equal(columns->byte_count, 0); /* payload and key only */
  columns_free(columns);

  columns = row_of_size(COLUMNS_ROW_RECORDS, 0);
  assert_false(columns_have_room(columns, 0));
  columns_free(columns);
}

static void memory_is_what_the_arrays_hold(void **state) {
  (void)state;
  struct columns *columns = row_of_size(10, 1000);
  assert_in_range(columns_memory(columns), 10000, 40000);
  columns_free(columns);
  columns_free_list(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_column_comes_back),
      cmocka_unit_test(an_unused_column_stays_null),
      cmocka_unit_test(a_column_is_filled_with_nulls_before_and_after_its_use),
      cmocka_unit_test(an_empty_payload_is_a_payload),
      cmocka_unit_test(a_finished_row_takes_more_records_when_finished_again),
      cmocka_unit_test(sequences_take_the_smallest_form_that_holds_them),
      cmocka_unit_test(merged_sequences_take_the_same_form_as_added_ones),
      cmocka_unit_test(one_producer_is_stored_once_and_several_one_by_one),
      cmocka_unit_test(every_column_merges_whoever_uses_it),
      cmocka_unit_test(producers_merge_whatever_their_form),
      cmocka_unit_test(a_merge_leaves_its_source_as_it_is),
      cmocka_unit_test(random_records_in_random_splits_come_back),
      cmocka_unit_test(arrays_have_postgres_binary_form),
      cmocka_unit_test(room_counts_everything_of_variable_length),
      cmocka_unit_test(memory_is_what_the_arrays_hold),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
