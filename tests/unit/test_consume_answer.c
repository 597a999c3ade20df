/* The batch that answers a CONSUME: which records are in it, and that it always fits a frame. */
#include "crs2/consume_answer.h"

#include "base/memory.h"
#include "crs2/wire/batch.h"
#include "crs2/wire/frame.h"
#include "log_fixture.h"
#include "unit.h"

enum { MIB = 1 << 20, MANY = 50 };

static struct consume_answer answer;
static struct arena arena;
static struct buffer out;
static struct batch wire;

static int reset(void **state) {
  (void)state;
  consume_answer_release(&answer);
  buffer_release(&out);
  arena_release(&arena);
  return 0;
}

static void add(struct log_batch *batch, int64_t from_offset) {
  consume_answer_add(&answer, batch, from_offset, false);
  log_batch_release(batch);
}

/* Builds the answer and decodes it again. */
static void build(void) {
  consume_answer_build(&answer, slice_text("t"), 3, &out);
  assert_true(out.length <= FRAME_MAX_PAYLOAD);
  assert_null(batch_decode(buffer_slice(&out), &arena, &wire));
  assert_slice_text(wire.topic, "t");
  assert_int_equal(wire.partition, 3);
  assert_slice_text(wire.acks, "1");
  assert_false(wire.idempotent);
}

static void assert_offsets(int64_t first, unsigned count) {
  assert_int_equal(wire.record_count, count);
  for (unsigned i = 0; i < count; i++) assert_int_equal(wire.records[i].offset, first + i);
}

static struct log_batch *with_holes(const int32_t *deltas, unsigned count) {
  struct columns *columns = row_of_size(count, 4);
  struct buffer array = {0};
  const uint32_t header[5] = {1, 0, 23, count, 1};
  for (unsigned i = 0; i < 5; i++) buffer_append_u32(&array, header[i]);
  for (unsigned i = 0; i < count; i++) {
    buffer_append_u32(&array, 4);
    buffer_append_u32(&array, (uint32_t)deltas[i]);
  }
  const struct log_batch source = {.log_id = 1,
                                   .base_offset = 100,
                                   .last_offset = 100 + deltas[count - 1],
                                   .record_count = count,
                                   .columns = {buffer_slice(&columns->arrays[COLUMN_PAYLOADS])},
                                   .offset_deltas = buffer_slice(&array)};
  struct log_batch *batch = log_batch_copy(&source);
  assert_non_null(batch);
  columns_free(columns);
  buffer_release(&array);
  return batch;
}

static void nothing_is_a_batch_without_records(void **state) {
  (void)state;
  consume_answer_init(&answer, 10);
  build();
  assert_int_equal(wire.record_count, 0);
  assert_int_equal(wire.batch_start, 0);
  assert_int_equal(wire.batch_end, 0);
}

static void records_come_with_all_they_have(void **state) {
  (void)state;
  uint64_t noise = 17;
  struct log_record records[MANY];
  for (unsigned i = 0; i < MANY; i++) {
    do records[i] = noise_record(&noise, &arena);
    while (records[i].timestamp < 0);
    records[i].schema_version &= UINT32_MAX;
  }
  consume_answer_init(&answer, MANY);
  struct columns *columns = row_of(records, MANY);
  add(batch_of(columns, 7), 7);
  columns_free(columns);
  build();
  assert_offsets(7, MANY);
  for (unsigned i = 0; i < MANY; i++) {
    const struct record *got = &wire.records[i];
    const struct log_record *want = &records[i];
    assert_slices(got->payload, want->payload);
    assert_slices(got->key, want->key);
    assert_slices(got->producer_id, want->producer_id);
    assert_slices(got->event_type, want->event_type);
    assert_slices(got->metadata, want->metadata);
    assert_slices(got->event_id, want->event_id);
    assert_slices(got->payload_digest, want->payload_digest);
    assert_int_equal(got->timestamp, want->timestamp);
    assert_int_equal(got->sequence, want->sequence);
    assert_int_equal(got->epoch, want->producer_epoch);
    assert_int_equal(got->schema_version, want->schema_version);
    assert_int_equal(got->aggregate_version, want->aggregate_version);
  }
  assert_int_equal(wire.batch_start, records[0].sequence);
  assert_int_equal(wire.batch_end, records[MANY - 1].sequence);
}

static void a_read_from_the_middle_of_a_batch_leaves_out_what_is_before(void **state) {
  (void)state;
  consume_answer_init(&answer, 100);
  add(batch_of_size(10, 5, 1), 13);
  add(batch_of_size(15, 5, 1), 15);
  assert_int_equal(answer.records, 7);
  build();
  assert_offsets(13, 7);
}

static void the_number_of_records_is_a_limit(void **state) {
  (void)state;
  for (unsigned limit = 1; limit <= 12; limit++) {
    consume_answer_init(&answer, limit);
    add(batch_of_size(0, 5, 1), 2);
    add(batch_of_size(5, 5, 1), 5);
    assert_int_equal(consume_answer_is_full(&answer, limit), limit <= 8);
    build();
    assert_offsets(2, limit < 8 ? limit : 8);
    reset(NULL);
  }
}

static void holes_are_passed_over(void **state) {
  (void)state;
  static const int32_t deltas[] = {0, 3, 4, 20};
  static const struct {
    int64_t from;
    unsigned count, first;
  } cases[] = {{0, 4, 0}, {100, 4, 0}, {101, 3, 1}, {103, 3, 1}, {105, 1, 3}, {120, 1, 3}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    consume_answer_init(&answer, 100);
    add(with_holes(deltas, 4), cases[i].from);
    assert_int_equal(answer.records, cases[i].count);
    build();
    assert_int_equal(wire.record_count, cases[i].count);
    for (unsigned j = 0; j < cases[i].count; j++) {
      assert_int_equal(wire.records[j].offset, 100 + deltas[cases[i].first + j]);
    }
    reset(NULL);
  }
}

static void markers_of_transactions_are_for_uncommitted_readers(void **state) {
  (void)state;
  for (unsigned uncommitted = 0; uncommitted < 2; uncommitted++) {
    consume_answer_init(&answer, 100);
    struct log_batch *batch = batch_of_size(0, 1, 1);
    batch->kind = BATCH_COMMIT_MARKER;
    batch->transaction_id = 7;
    batch->decision = TRANSACTION_DECIDED_COMMIT;
    consume_answer_add(&answer, batch, 0, uncommitted);
    log_batch_release(batch);
    assert_int_equal(answer.records, uncommitted);
    reset(NULL);
  }
}

/* A batch of transaction 7, of the transactional id `tx` and epoch 258. */
static struct log_batch *transactional(enum batch_kind kind, enum transaction_decision decision) {
  struct log_batch *plain = batch_of_size(0, 1, 1);
  struct log_batch source = *plain;
  source.kind = kind;
  source.transaction_id = 7;
  source.transactional_id = slice_text("tx");
  source.decision = decision;
  source.producer_epoch = 258;
  struct log_batch *batch = log_batch_copy(&source);
  log_batch_release(plain);
  return batch;
}

static void only_uncommitted_readers_see_what_was_not_committed(void **state) {
  (void)state;
  for (int decision = TRANSACTION_UNDECIDED; decision <= TRANSACTION_DECIDED_ABORT; decision++) {
    for (unsigned uncommitted = 0; uncommitted < 2; uncommitted++) {
      consume_answer_init(&answer, 100);
      struct log_batch *batch = transactional(BATCH_DATA, (enum transaction_decision)decision);
      consume_answer_add(&answer, batch, 0, uncommitted);
      log_batch_release(batch);
      assert_int_equal(answer.records, uncommitted || decision == TRANSACTION_DECIDED_COMMIT);
      reset(NULL);
    }
  }
}

static void records_of_a_transaction_name_it_and_say_open(void **state) {
  (void)state;
  consume_answer_init(&answer, 100);
  add(transactional(BATCH_DATA, TRANSACTION_DECIDED_COMMIT), 0);
  build();
  assert_slice_text(wire.records[0].transactional_id, "tx");
  assert_slice_text(wire.records[0].transaction_state, "open");
  assert_int_equal(wire.records[0].epoch, 258);
  assert_int_equal(wire.records[0].transaction_marker.length, 0);
  assert_int_equal(wire.records[0].control_type.length, 0);
  assert_false(wire.records[0].has_control_key);
}

static void markers_have_their_exact_control_fields(void **state) {
  (void)state;
  static const struct {
    enum batch_kind kind;
    const char *state, *marker;
    uint8_t key[4], value[6];
  } cases[] = {
      {BATCH_COMMIT_MARKER, "committed", "commit", {0, 0, 0, 0}, {0, 0, 0, 0, 1, 2}},
      {BATCH_ABORT_MARKER, "aborted", "abort", {0, 0, 0, 1}, {0, 0, 0, 0, 1, 2}},
  };
  for (size_t i = 0; i < 2; i++) {
    consume_answer_init(&answer, 100);
    struct log_batch *batch = transactional(cases[i].kind, TRANSACTION_DECIDED_COMMIT);
    consume_answer_add(&answer, batch, 0, true);
    log_batch_release(batch);
    build();
    const struct record *record = &wire.records[0];
    assert_slice_text(record->transactional_id, "tx");
    assert_slice_text(record->transaction_state, cases[i].state);
    assert_slice_text(record->transaction_marker, cases[i].marker);
    assert_slice_text(record->control_type, "transaction");
    assert_int_equal(record->control_version, 2);
    assert_int_equal(record->control_epoch, 258);
    assert_int_equal(record->control_key.length, 4);
    assert_memory_equal(record->control_key.data, cases[i].key, 4);
    assert_int_equal(record->control_value.length, 6);
    assert_memory_equal(record->control_value.data, cases[i].value, 6);
    reset(NULL);
  }
}

static void large_records_are_delivered_as_far_as_a_frame_goes(void **state) {
  (void)state;
  consume_answer_init(&answer, 100);
  for (int64_t i = 0; i < 8; i++) add(batch_of_size(i, 1, 10 * MIB), i);
  assert_true(consume_answer_is_full(&answer, 100));
  build();
  assert_offsets(0, 6); /* six times 10 MiB; room is left for what does not compress */
}

static void one_record_is_always_delivered(void **state) {
  (void)state;
  consume_answer_init(&answer, 100);
  add(batch_of_size(0, 1, FRAME_MAX_PAYLOAD - 1024), 0);
  add(batch_of_size(1, 1, 1), 1);
  build();
  assert_offsets(0, 1);
  reset(NULL);
  consume_answer_init(&answer, 100);
  add(batch_of_size(0, 1, 1), 0);
  add(batch_of_size(1, 1, FRAME_MAX_PAYLOAD - 1024), 1);
  build();
  assert_offsets(0, 1); /* the large one goes first in the next answer */
}

static void room_shrinks_with_the_budget_but_never_to_nothing(void **state) {
  (void)state;
  consume_answer_init(&answer, 100);
  struct memory_budget budget = {.limit = 1024u * MIB};
  int64_t most = consume_answer_room(&answer, &budget);
  assert_in_range(most, 60 * MIB, FRAME_MAX_PAYLOAD);
  budget.used = 900u * MIB;
  assert_int_equal(consume_answer_room(&answer, &budget), 31 * MIB);
  budget.used = 100u * MIB;
  budget.promised = 800u * MIB; /* what others are reading counts before it has come */
  assert_int_equal(consume_answer_room(&answer, &budget), 31 * MIB);
  budget.promised = 0;
  budget.used = 2048u * MIB;
  assert_int_equal(consume_answer_room(&answer, &budget), MIB);
  budget.used = 0;
  answer.bytes = 50 * MIB;
  assert_int_equal(consume_answer_room(&answer, &budget), most - 50 * MIB);
  answer.bytes = 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(nothing_is_a_batch_without_records, reset),
      cmocka_unit_test_teardown(records_come_with_all_they_have, reset),
      cmocka_unit_test_teardown(a_read_from_the_middle_of_a_batch_leaves_out_what_is_before, reset),
      cmocka_unit_test_teardown(the_number_of_records_is_a_limit, reset),
      cmocka_unit_test_teardown(holes_are_passed_over, reset),
      cmocka_unit_test_teardown(markers_of_transactions_are_for_uncommitted_readers, reset),
      cmocka_unit_test_teardown(only_uncommitted_readers_see_what_was_not_committed, reset),
      cmocka_unit_test_teardown(records_of_a_transaction_name_it_and_say_open, reset),
      cmocka_unit_test_teardown(markers_have_their_exact_control_fields, reset),
      cmocka_unit_test_teardown(large_records_are_delivered_as_far_as_a_frame_goes, reset),
      cmocka_unit_test_teardown(one_record_is_always_delivered, reset),
      cmocka_unit_test_teardown(room_shrinks_with_the_budget_but_never_to_nothing, reset),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
