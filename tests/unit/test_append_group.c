/* A group of appends: its order, what is merged, how it is encoded, and whose answer is whose. */
#include "base/memory.h"
#include "db_fixture.h"
#include "log/append_group.h"
#include "log_fixture.h"
#include "unit.h"

enum { LOG, REVISION, PARTITION, RECORDS, BYTES, IDEMPOTENT, WAITS, MINIMUM, STRICT, PRODUCER };
enum { MOST = 400 };

static struct append_group group;
static struct append_item items[MOST];
static unsigned used;

static int reset(void **state) {
  (void)state;
  append_group_release(&group);
  group = (struct append_group){0};
  for (unsigned i = 0; i < used; i++) columns_free_list(items[i].rows);
  used = 0;
  return 0;
}

static struct append_item *add(int64_t log_id, int32_t partition, struct columns *rows) {
  struct append_item *item = &items[used];
  *item = (struct append_item){
      .log_id = log_id, .revision = 1, .partition = partition, .arrival = used++, .rows = rows};
  for (; rows; rows = rows->next) item->row_count++;
  append_group_add(&group, item);
  return item;
}

static struct columns *plain(const char *payload) {
  const struct log_record record = plain_record(payload);
  return row_of(&record, 1);
}

static struct sent sent(void) {
  return (struct sent){.calls = group.calls, .count = group.call_count};
}

static int64_t number(unsigned call, unsigned parameter) {
  struct sent view = sent();
  return db_fixture_number(&view, call, parameter);
}

/* ---- order ---- */

static void items_are_sorted_by_log_and_partition_and_keep_their_order_of_arrival(void **state) {
  (void)state;
  uint64_t noise = 3;
  for (unsigned i = 0; i < MOST; i++) {
    struct columns *row = plain("x");
    row->idempotent = true; /* a row of its own */
    add((int64_t)noise_below(&noise, 3), (int32_t)noise_below(&noise, 3), row);
  }
  append_group_encode(&group, false, 1);
  assert_int_equal(group.call_count, MOST);
  for (unsigned i = 1; i < MOST; i++) {
    const struct append_item *before = group.items[i - 1], *item = group.items[i];
    if (before->log_id == item->log_id && before->partition == item->partition) {
      assert_true(before->arrival < item->arrival);
    } else {
      assert_true(before->log_id < item->log_id ||
                  (before->log_id == item->log_id && before->partition < item->partition));
    }
    assert_int_equal(number(i, LOG), item->log_id);
    assert_int_equal(number(i, PARTITION), item->partition);
  }
}

/* ---- transactions ---- */

static const struct append_transaction first_transaction = {
    .transactional_id = {(const uint8_t *)"tx-1", 4},
    .requested_partition = -1,
    .client_sequence = 9};
static const struct append_transaction second_transaction = {
    .transactional_id = {(const uint8_t *)"tx-2", 4},
    .requested_partition = 3,
    .client_sequence = 8};

static void transactions_are_locked_before_any_partition(void **state) {
  (void)state;
  add(1, 0, plain("plain"));
  add(1, 0, plain("a"))->transaction = &first_transaction;
  add(1, 3, plain("b"))->transaction = &second_transaction;
  append_group_encode(&group, true, 1);
  assert_int_equal(group.call_count, 5);
  assert_int_equal(group.first_row_call, 2);
  assert_int_equal(group.calls[0].statement, STATEMENT_NOTE_STANDBYS);
  assert_int_equal(group.calls[1].statement, STATEMENT_LOCK_TRANSACTIONS);
  const struct db_parameter *ids = &group.calls[1].parameters[0];
  const char want[] =
      "\0\0\0\1\0\0\0\0\0\0\0\31\0\0\0\2\0\0\0\1"
      "\0\0\0\4tx-1\0\0\0\4tx-2";
  assert_int_equal(ids->length, sizeof want - 1);
  assert_memory_equal(ids->data, want, sizeof want - 1);
  assert_int_equal(group.calls[2].statement, STATEMENT_APPEND);
  assert_int_equal(group.calls[3].statement, STATEMENT_APPEND_TRANSACTIONAL);
  assert_int_equal(number(3, 7), -1);
  assert_int_equal(number(3, 8), 9);
  assert_int_equal(number(4, 7), 3);
}

static void records_of_transactions_share_no_row(void **state) {
  (void)state;
  add(1, 0, plain("a"))->transaction = &first_transaction;
  add(1, 0, plain("b"))->transaction = &first_transaction;
  add(1, 0, plain("plain"));
  append_group_encode(&group, false, 1);
  assert_int_equal(group.row_count, 3);
}

static void a_record_that_is_alone_locks_its_transaction_itself(void **state) {
  (void)state;
  add(1, 3, plain("a"))->transaction = &first_transaction;
  append_group_encode(&group, false, 1);
  assert_int_equal(group.call_count, 1);
  assert_int_equal(group.calls[0].statement, STATEMENT_APPEND_TRANSACTIONAL);
}

static void answers_are_counted_from_the_first_row(void **state) {
  (void)state;
  add(1, 0, plain("a"))->transaction = &first_transaction;
  add(1, 0, plain("b"))->transaction = &first_transaction;
  append_group_encode(&group, true, 1);
  PGresult *result = db_fixture_result(7);
  db_fixture_set_int4(result, 0, 0, 11);
  db_fixture_set_int8(result, 0, 5, 3);
  append_group_take_result(&group, 0, result);
  append_group_take_result(&group, 1, result);
  assert_false(group.rows[0].answered);
  append_group_take_result(&group, 2, result);
  assert_true(group.rows[0].answered);
  assert_int_equal(group.rows[0].status, 11);
  assert_int_equal(group.rows[0].current, 3);
  PQclear(result);
}

/* ---- merging ---- */

static void plain_items_of_a_partition_share_a_row(void **state) {
  (void)state;
  const struct log_record want[3] = {plain_record("a"), plain_record("b"), plain_record("c")};
  for (unsigned i = 0; i < 3; i++) add(1, 0, row_of(&want[i], 1));
  append_group_encode(&group, false, 1);
  assert_int_equal(group.call_count, 1);
  assert_int_equal(number(0, RECORDS), 3);
  assert_int_equal(number(0, BYTES), 3);
  assert_int_equal(number(0, STRICT), 0);
  struct log_batch *batch = batch_of(group.rows[0].columns, 0);
  assert_batch_holds(batch, want, 3);
  log_batch_release(batch);
  assert_int_equal(items[0].rows->record_count, 1); /* the items keep theirs */
}

static void what_differs_does_not_share_a_row(void **state) {
  (void)state;
  add(1, 0, plain("x"));
  add(1, 1, plain("another partition"));
  add(2, 1, plain("another log"));
  add(3, 0, plain("x"));
  add(3, 0, plain("another revision"))->revision = 2;
  add(4, 0, plain("x"));
  add(4, 0, plain("deduplicated"))->rows->idempotent = true;
  add(4, 0, plain("x"));
  append_group_encode(&group, false, 1);
  assert_int_equal(group.call_count, 8);
  for (unsigned i = 0; i < 8; i++) assert_int_equal(number(i, IDEMPOTENT), i == 6);
}

static void a_shared_row_stays_within_its_bytes(void **state) {
  (void)state;
  add(1, 0, row_of_size(1, COLUMNS_ROW_BYTES - 10));
  add(1, 0, row_of_size(1, 10));
  add(1, 0, row_of_size(1, 1));
  struct log_record record = plain_record("");
  uint8_t *metadata = memory_allocate_zeroed(1, COLUMNS_ROW_BYTES);
  record.metadata = slice_of(metadata, COLUMNS_ROW_BYTES);
  add(1, 0, row_of(&record, 1));
  free(metadata);
  append_group_encode(&group, false, 1);
  assert_int_equal(group.call_count, 3);
  assert_int_equal(number(0, BYTES), COLUMNS_ROW_BYTES);
  assert_int_equal(number(1, BYTES), 1);
}

static void a_shared_row_stays_within_its_records(void **state) {
  (void)state;
  add(1, 0, row_of_size(COLUMNS_ROW_RECORDS - 1, 1));
  add(1, 0, plain("x"));
  add(1, 0, plain("x"));
  append_group_encode(&group, false, 1);
  assert_int_equal(group.call_count, 2);
  assert_int_equal(number(0, RECORDS), COLUMNS_ROW_RECORDS);
}

/* ---- encoding ---- */

static void an_item_of_several_rows_is_strict(void **state) {
  (void)state;
  struct columns *rows = plain("a");
  rows->next = plain("b");
  rows->next->next = plain("c");
  add(1, 0, rows);
  append_group_encode(&group, false, 1);
  assert_int_equal(group.call_count, 3);
  for (unsigned i = 0; i < 3; i++) {
    assert_int_equal(number(i, STRICT), 1);
    assert_int_equal(group.rows[i].first_item, 0);
    assert_int_equal(group.rows[i].item_count, i == 0);
  }
}

static void a_row_is_sent_with_all_its_values(void **state) {
  (void)state;
  struct log_record record = plain_record("pay");
  record.key = slice_text("k");
  record.producer_id = slice_text("p");
  record.producer_epoch = 4;
  record.sequence = 9;
  struct append_item *item = add(7, 2, row_of(&record, 1));
  item->revision = 12;
  item->wait_for_replicas = true;
  append_group_encode(&group, false, 3);
  struct sent view = sent();
  static const int64_t want[] = {7, 12, 2, 1, 4, 0, 1, 3, 0};
  for (unsigned i = 0; i < PRODUCER; i++) assert_int_equal(number(0, i), want[i]);
  assert_slice_text(db_fixture_bytes(&view, 0, PRODUCER), "p");
  assert_int_equal(number(0, PRODUCER + 1), 4);
  assert_int_equal(number(0, PRODUCER + 2), 9);
  assert_int_equal(number(0, PRODUCER + 3), 9);
  for (unsigned i = 0; i < COLUMN_COUNT; i++) {
    bool is_used = i == COLUMN_PAYLOADS || i == COLUMN_KEYS;
    assert_int_equal(db_fixture_is_null(&view, 0, PRODUCER + 4 + i), !is_used);
  }
  assert_int_equal(append_statements[STATEMENT_APPEND].parameter_count,
                   PRODUCER + 4 + COLUMN_COUNT);
}

static void nobody_as_producer_is_null(void **state) {
  (void)state;
  add(1, 0, plain("x"));
  append_group_encode(&group, false, 1);
  struct sent view = sent();
  assert_true(db_fixture_is_null(&view, 0, PRODUCER));
}

static void standbys_are_looked_at_before_the_first_row(void **state) {
  (void)state;
  for (int32_t i = 0; i < 2; i++) add(1, i, plain("x"));
  append_group_encode(&group, true, 1);
  assert_int_equal(group.call_count, 3);
  assert_int_equal(group.calls[0].statement, STATEMENT_NOTE_STANDBYS);
  assert_int_equal(group.calls[1].statement, STATEMENT_APPEND);
  assert_int_equal(group.calls[2].statement, STATEMENT_APPEND);
}

/* ---- answers ---- */

static PGresult *answer(int status, int64_t base_offset) {
  PGresult *result = db_fixture_result(7);
  db_fixture_set_int4(result, 0, 0, status);
  db_fixture_set_int8(result, 0, 1, base_offset);
  db_fixture_set_int8(result, 0, 2, base_offset + 4);
  db_fixture_set_int4(result, 0, 3, 5);
  db_fixture_set_int8(result, 0, 4, 0);
  db_fixture_set_int8(result, 0, 5, 33);
  db_fixture_set_int8(result, 0, 6, 44);
  return result;
}

static void answers_find_their_rows(void **state) {
  (void)state;
  for (unsigned notes = 0; notes < 2; notes++) {
    for (int i = 0; i < 3; i++) add(1, i, plain("x"));
    append_group_encode(&group, notes, 1);
    for (unsigned i = 0; i < group.call_count; i++) {
      PGresult *result = answer((int)i, 100 * i);
      append_group_take_result(&group, i, result);
      PQclear(result);
    }
    for (unsigned i = 0; i < 3; i++) {
      const struct append_row *row = &group.rows[i];
      assert_true(row->answered);
      assert_int_equal(row->status, i + notes);
      assert_int_equal(row->base_offset, 100 * (i + notes));
      assert_int_equal(row->last_offset, row->base_offset + 4);
      assert_int_equal(row->appended_count, 5);
      assert_int_equal(row->appended_at, DB_EPOCH_US);
      assert_int_equal(row->current, 33);
      assert_int_equal(row->expected, 44);
    }
    append_group_reset(&group);
  }
}

static void answers_that_make_no_sense_are_passed_over(void **state) {
  (void)state;
  add(1, 0, plain("x"));
  append_group_encode(&group, false, 1);
  PGresult *result = answer(0, 0);
  append_group_take_result(&group, 1, result); /* no such call */
  PQclear(result);
  result = db_fixture_result(7); /* no row */
  append_group_take_result(&group, 0, result);
  PQclear(result);
  assert_false(group.rows[0].answered);
}

/* ---- events ---- */

enum { EVENT_KEYS = 6, EVENT_VERSIONS, EVENT_IDS = 12, EVENT_PRODUCER = 14 };

static struct append_item *add_event(int32_t partition, const char *key, int64_t version) {
  struct log_record record = plain_record(key);
  record.key = slice_text(key);
  record.aggregate_version = version;
  struct append_item *item = add(1, partition, row_of(&record, 1));
  item->stream_key = slice_text(key);
  return item;
}

static void events_of_different_streams_share_a_call(void **state) {
  (void)state;
  add_event(0, "a", 1);
  add_event(0, "b", 7);
  add_event(1, "c", 1);
  add(1, 0, plain("no event"));
  append_group_encode(&group, false, 2);
  assert_int_equal(group.call_count, 3);
  assert_int_equal(group.calls[0].statement, STATEMENT_APPEND);
  assert_int_equal(group.calls[1].statement, STATEMENT_APPEND_EVENTS);
  assert_int_equal(group.rows[1].item_count, 2);
  assert_int_equal(group.rows[1].columns->record_count, 2);
  static const int64_t want[] = {1, 1, 0, 4, 0, 2};
  for (unsigned i = 0; i < EVENT_KEYS; i++) assert_int_equal(number(1, i), want[i]);
  struct sent view = sent();
  assert_slices(db_fixture_bytes(&view, 1, EVENT_VERSIONS),
                buffer_slice(&group.rows[1].columns->arrays[COLUMN_AGGREGATE_VERSIONS]));
  for (unsigned i = EVENT_IDS; i < APPEND_EVENT_PARAMETERS; i++) {
    assert_true(db_fixture_is_null(&view, 1, i));
  }
  assert_int_equal(append_statements[STATEMENT_APPEND_EVENTS].parameter_count,
                   APPEND_EVENT_PARAMETERS);
}

static void a_call_has_no_stream_twice_and_a_stream_keeps_its_order(void **state) {
  (void)state;
  uint64_t noise = 11;
  static const char *const keys[] = {"a", "b", "cc", "dd", "eee"};
  int64_t versions[5] = {0};
  for (unsigned i = 0; i < 100; i++) {
    uint64_t stream = noise_below(&noise, 5);
    add_event(0, keys[stream], ++versions[stream]);
  }
  append_group_encode(&group, false, 1);
  unsigned covered = 0;
  memset(versions, 0, sizeof versions);
  for (unsigned row = 0; row < group.row_count; row++) {
    bool seen[5] = {false};
    for (unsigned i = 0; i < group.rows[row].item_count; i++) {
      const struct append_item *item = group.items[group.rows[row].first_item + i];
      for (unsigned k = 0; k < 5; k++) {
        if (!slice_equals(item->stream_key, slice_text(keys[k]))) continue;
        assert_false(seen[k]);
        seen[k] = true;
        assert_int_equal(item->round, versions[k]++);
      }
      covered++;
    }
  }
  assert_int_equal(covered, 100);
}

static void events_that_share_a_row_stay_small(void **state) {
  (void)state;
  char keys[100][4];
  for (unsigned i = 0; i < 100; i++) {
    snprintf(keys[i], sizeof keys[i], "k%02u", i);
    struct log_record record = plain_record("");
    static const uint8_t payload[200];
    record.payload = slice_of(payload, sizeof payload);
    record.key = slice_text(keys[i]);
    add(1, 0, row_of(&record, 1))->stream_key = record.key;
  }
  append_group_encode(&group, false, 1);
  assert_in_range(group.row_count, 14, 20);
  for (unsigned i = 0; i < group.row_count; i++) {
    assert_in_range(group.rows[i].columns->stored_bytes, 1, 1536);
  }
}

static void an_event_with_an_identity_goes_alone(void **state) {
  (void)state;
  static const char *const keys[] = {"a", "b"};
  for (unsigned i = 0; i < 2; i++) {
    struct log_record record = plain_record("x");
    record.key = slice_text(keys[i]);
    record.aggregate_version = 1;
    record.event_id = slice_text("id");
    record.payload_digest = slice_text("digest");
    record.producer_id = slice_text("p");
    record.producer_epoch = 3;
    record.sequence = 5;
    add(1, 0, row_of(&record, 1))->stream_key = record.key;
  }
  append_group_encode(&group, false, 1);
  assert_int_equal(group.call_count, 2);
  struct sent view = sent();
  assert_slice_text(db_fixture_bytes(&view, 0, EVENT_PRODUCER), "p");
  assert_int_equal(number(0, EVENT_PRODUCER + 1), 3);
  assert_int_equal(number(0, EVENT_PRODUCER + 2), 5);
}

/* An array as PostgreSQL sends it. */
static void set_array(PGresult *result, int column, uint32_t size, const int64_t *values,
                      unsigned count) {
  struct buffer array = {0};
  const uint32_t head[] = {1, 0, size == 4 ? 23 : 20, count, 1};
  for (unsigned i = 0; i < 5; i++) buffer_append_u32(&array, head[i]);
  for (unsigned i = 0; i < count; i++) {
    buffer_append_u32(&array, size);
    if (size == 4) {
      buffer_append_u32(&array, (uint32_t)values[i]);
    } else {
      buffer_append_u64(&array, (uint64_t)values[i]);
    }
  }
  db_fixture_set_bytes(result, 0, column, buffer_slice(&array));
  buffer_release(&array);
}

static void events_have_answers_of_their_own(void **state) {
  (void)state;
  static const int64_t statuses[] = {0, 9, 10}, values[] = {0, 41, 7};
  for (unsigned wrong = 0; wrong < 2; wrong++) {
    add_event(0, "a", 1);
    add_event(0, "b", 1);
    add_event(0, "c", 1);
    append_group_encode(&group, false, 1);
    PGresult *result = db_fixture_result(9);
    db_fixture_set_int4(result, 0, 0, 0);
    set_array(result, 7, 4, statuses, wrong ? 2 : 3);
    set_array(result, 8, 8, values, 3);
    append_group_take_result(&group, 0, result);
    PQclear(result);
    assert_int_equal(group.rows[0].answered, !wrong);
    for (unsigned i = 0; !wrong && i < 3; i++) {
      assert_int_equal(group.rows[0].event_answers[i].status, statuses[i]);
      assert_int_equal(group.rows[0].event_answers[i].value, values[i]);
    }
    append_group_reset(&group);
  }
}

static void events_without_answers_share_their_rows(void **state) {
  (void)state;
  add_event(0, "a", 1);
  append_group_encode(&group, false, 1);
  PGresult *result = db_fixture_result(9);
  db_fixture_set_int4(result, 0, 0, 2);
  append_group_take_result(&group, 0, result);
  PQclear(result);
  assert_true(group.rows[0].answered);
  assert_int_equal(group.rows[0].status, 2);
  assert_null(group.rows[0].event_answers);
}

static void a_group_is_used_again(void **state) {
  (void)state;
  for (unsigned round = 0; round < 3; round++) {
    for (unsigned i = 0; i < 100; i++) add(1, (int32_t)(i % 7), plain("x"));
    append_group_encode(&group, false, 1);
    assert_int_equal(group.call_count, 7);
    append_group_reset(&group);
    assert_int_equal(group.item_count, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(
          items_are_sorted_by_log_and_partition_and_keep_their_order_of_arrival, reset),
      cmocka_unit_test_teardown(transactions_are_locked_before_any_partition, reset),
      cmocka_unit_test_teardown(records_of_transactions_share_no_row, reset),
      cmocka_unit_test_teardown(a_record_that_is_alone_locks_its_transaction_itself, reset),
      cmocka_unit_test_teardown(answers_are_counted_from_the_first_row, reset),
      cmocka_unit_test_teardown(plain_items_of_a_partition_share_a_row, reset),
      cmocka_unit_test_teardown(what_differs_does_not_share_a_row, reset),
      cmocka_unit_test_teardown(a_shared_row_stays_within_its_bytes, reset),
      cmocka_unit_test_teardown(a_shared_row_stays_within_its_records, reset),
      cmocka_unit_test_teardown(an_item_of_several_rows_is_strict, reset),
      cmocka_unit_test_teardown(a_row_is_sent_with_all_its_values, reset),
      cmocka_unit_test_teardown(nobody_as_producer_is_null, reset),
      cmocka_unit_test_teardown(standbys_are_looked_at_before_the_first_row, reset),
      cmocka_unit_test_teardown(answers_find_their_rows, reset),
      cmocka_unit_test_teardown(answers_that_make_no_sense_are_passed_over, reset),
      cmocka_unit_test_teardown(events_of_different_streams_share_a_call, reset),
      cmocka_unit_test_teardown(a_call_has_no_stream_twice_and_a_stream_keeps_its_order, reset),
      cmocka_unit_test_teardown(events_that_share_a_row_stay_small, reset),
      cmocka_unit_test_teardown(an_event_with_an_identity_goes_alone, reset),
      cmocka_unit_test_teardown(events_have_answers_of_their_own, reset),
      cmocka_unit_test_teardown(events_without_answers_share_their_rows, reset),
      cmocka_unit_test_teardown(a_group_is_used_again, reset),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
