/* Records and batches: random ones with every field go out and come back, and what a broker writes
 * record by record equals what the encoder writes at once. */
#include "crs2/wire/batch.h"
#include "unit.h"

static uint64_t noise;

/* Now and then empty; bytes live in the arena. */
static struct slice random_bytes(struct arena *arena, size_t most) {
  size_t length = noise_below(&noise, most + 1);
  uint8_t *bytes = arena_allocate(arena, length);
  noise_fill(&noise, bytes, length);
  return slice_of(bytes, length);
}

static struct slice random_choice(const char *const *choices, size_t count) {
  return slice_text(choices[noise_below(&noise, count)]);
}

static bool chance(void) {
  return noise_below(&noise, 2);
}

static void random_record(struct arena *arena, struct record *record) {
  static const char *const states[] = {"open", "committed", "aborted"};
  static const char *const markers[] = {"commit", "abort"};
  *record = (struct record){.offset = noise_next(&noise), .payload = random_bytes(arena, 50)};
  if (chance()) record->timestamp = (int64_t)noise_next(&noise);
  if (chance()) record->producer_id = random_bytes(arena, 20);
  if (chance()) record->sequence = noise_next(&noise);
  if (chance()) record->epoch = (int64_t)noise_next(&noise);
  if (chance()) record->key = random_bytes(arena, 20);
  if (chance()) record->event_type = random_bytes(arena, 20);
  if (chance()) record->schema_version = (uint32_t)noise_next(&noise);
  if (chance()) record->aggregate_version = noise_next(&noise);
  if (chance()) record->metadata = random_bytes(arena, 20);
  if (chance()) record->transactional_id = random_bytes(arena, 20);
  if (chance()) record->transaction_state = random_choice(states, 3);
  if (chance()) record->transaction_marker = random_choice(markers, 2);
  if (chance()) record->control_type = slice_text("transaction");
  if (chance()) record->control_version = (int16_t)noise_next(&noise);
  if (chance()) record->control_epoch = (int64_t)noise_next(&noise);
  if ((record->has_control_key = chance())) record->control_key = random_bytes(arena, 9);
  if ((record->has_control_value = chance())) record->control_value = random_bytes(arena, 9);
  if (chance()) record->event_id = random_bytes(arena, 20);
  if (chance()) record->payload_digest = random_bytes(arena, 64);
  record->presence = record_canonical_presence(record);
}

static void assert_records_equal(const struct record *a, const struct record *b) {
  assert_int_equal(a->presence, b->presence);
  assert_int_equal(a->offset, b->offset);
  assert_slices(a->payload, b->payload);
  assert_int_equal(a->timestamp, b->timestamp);
  assert_slices(a->producer_id, b->producer_id);
  assert_int_equal(a->sequence, b->sequence);
  assert_int_equal(a->epoch, b->epoch);
  assert_slices(a->key, b->key);
  assert_slices(a->event_type, b->event_type);
  assert_int_equal(a->schema_version, b->schema_version);
  assert_int_equal(a->aggregate_version, b->aggregate_version);
  assert_slices(a->metadata, b->metadata);
  assert_slices(a->transactional_id, b->transactional_id);
  assert_slices(a->transaction_state, b->transaction_state);
  assert_slices(a->transaction_marker, b->transaction_marker);
  assert_slices(a->control_type, b->control_type);
  assert_int_equal(a->control_version, b->control_version);
  assert_int_equal(a->control_epoch, b->control_epoch);
  assert_int_equal(a->has_control_key, b->has_control_key);
  assert_slices(a->control_key, b->control_key);
  assert_int_equal(a->has_control_value, b->has_control_value);
  assert_slices(a->control_value, b->control_value);
  assert_slices(a->event_id, b->event_id);
  assert_slices(a->payload_digest, b->payload_digest);
}

static void random_records_survive(void **state) {
  (void)state;
  noise = 20260102;
  for (unsigned repeat = 0; repeat < 3000; repeat++) {
    struct arena arena = {0};
    struct buffer out = {0};
    struct record want, got;
    struct slice topic = random_bytes(&arena, 30), got_topic;
    int32_t partition = (int32_t)noise_next(&noise), got_partition;
    random_record(&arena, &want);
    assert_null(record_encode(&want, topic, partition, &out));
    assert_null(record_decode(buffer_slice(&out), &got, &got_topic, &got_partition));
    assert_records_equal(&got, &want);
    assert_slices(got_topic, topic);
    assert_int_equal(got_partition, partition);
    bool needs_3 = want.event_id.length || want.payload_digest.length;
    assert_int_equal(out.data[1], needs_3 ? 3 : 2);
    buffer_release(&out);
    arena_release(&arena);
  }
}

static void every_presence_bit_is_one_section(void **state) {
  (void)state;
  struct record all = {.timestamp = 1,
                       .sequence = 1,
                       .key = slice_text("k"),
                       .event_type = slice_text("e"),
                       .schema_version = 1,
                       .aggregate_version = 1,
                       .metadata = slice_text("m"),
                       .transactional_id = slice_text("t"),
                       .transaction_state = slice_text("open"),
                       .transaction_marker = slice_text("abort"),
                       .control_type = slice_text("transaction"),
                       .control_version = 1,
                       .control_epoch = 1,
                       .has_control_key = true,
                       .has_control_value = true,
                       .event_id = slice_text("i"),
                       .payload_digest = slice_text("d")};
  assert_int_equal(record_canonical_presence(&all), 0x1FFFF);
  assert_int_equal(record_canonical_presence(&(struct record){0}), 0);
  assert_int_equal(record_canonical_presence(&(struct record){.producer_id = slice_text("p")}),
                   RECORD_HAS_PRODUCER);
  assert_int_equal(record_canonical_presence(&(struct record){.epoch = -1}), RECORD_HAS_PRODUCER);
}

static void unknown_words_are_not_encoded(void **state) {
  (void)state;
  const struct record wrong[] = {{.transaction_state = slice_text("OPEN")},
                                 {.transaction_state = slice_text("opened")},
                                 {.transaction_marker = slice_text("aborted")},
                                 {.transaction_marker = slice_text("Commit")},
                                 {.control_type = slice_text("txn")}};
  struct buffer out = {0};
  buffer_append_text(&out, "kept");
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_non_null(record_encode(&wrong[i], slice_text("t"), 0, &out));
    struct record records[2] = {{.offset = 1}, wrong[i]};
    struct batch batch = {.topic = slice_text("t"), .record_count = 2, .records = records};
    assert_non_null(batch_encode(&batch, &out));
    assert_slice_text(buffer_slice(&out), "kept");
  }
  buffer_release(&out);
}

static void random_batches_survive_and_both_writers_agree(void **state) {
  (void)state;
  noise = 77;
  for (unsigned repeat = 0; repeat < 200; repeat++) {
    struct arena arena = {0};
    struct record records[20];
    struct batch batch = {.topic = random_bytes(&arena, 30),
                          .partition = (int32_t)noise_next(&noise),
                          .acks = slice_text("1"),
                          .record_count = (uint32_t)noise_below(&noise, 20),
                          .records = records},
                 got;
    struct buffer at_once = {0}, one_by_one = {0};
    struct batch_writer writer;
    buffer_append_text(&one_by_one, "before");
    batch_writer_begin(&writer, &one_by_one, batch.topic, batch.partition);
    for (uint32_t i = 0; i < batch.record_count; i++) {
      random_record(&arena, &records[i]);
      assert_null(batch_writer_add(&writer, &records[i]));
    }
    batch_writer_finish(&writer);
    assert_null(batch_encode(&batch, &at_once));
    buffer_drop_front(&one_by_one, 6);
    assert_slices(buffer_slice(&one_by_one), buffer_slice(&at_once));
    assert_null(batch_decode(buffer_slice(&at_once), &arena, &got));
    assert_int_equal(got.record_count, batch.record_count);
    for (uint32_t i = 0; i < got.record_count; i++)
      assert_records_equal(&got.records[i], &records[i]);
    uint32_t last = batch.record_count - 1;
    assert_int_equal(got.batch_start, batch.record_count ? records[0].sequence : 0);
    assert_int_equal(got.batch_end, batch.record_count ? records[last].sequence : 0);
    buffer_release(&at_once);
    buffer_release(&one_by_one);
    arena_release(&arena);
  }
}

static void a_refused_record_leaves_the_writer_usable(void **state) {
  (void)state;
  struct buffer out = {0};
  struct arena arena = {0};
  struct batch_writer writer;
  struct batch batch;
  batch_writer_begin(&writer, &out, slice_text("t"), 1);
  assert_null(batch_writer_add(&writer, &(struct record){.sequence = 5}));
  assert_non_null(
      batch_writer_add(&writer, &(struct record){.sequence = 9, .control_type = slice_text("?")}));
  batch_writer_finish(&writer);
  assert_null(batch_decode(buffer_slice(&out), &arena, &batch));
  assert_int_equal(batch.record_count, 1);
  assert_int_equal(batch.batch_end, 5);
  buffer_release(&out);
  arena_release(&arena);
}

static void the_record_limit_holds(void **state) {
  (void)state;
  struct buffer out = {0};
  struct arena arena = {0};
  struct batch_writer writer;
  struct batch batch;
  batch_writer_begin(&writer, &out, slice_of(NULL, 0), 0);
  for (unsigned i = 0; i < BATCH_MAX_RECORDS; i++)
    assert_null(batch_writer_add(&writer, &(struct record){.offset = i}));
  assert_non_null(batch_writer_add(&writer, &(struct record){0}));
  batch_writer_finish(&writer);
  assert_null(batch_decode(buffer_slice(&out), &arena, &batch));
  assert_int_equal(batch.record_count, BATCH_MAX_RECORDS);
  assert_int_equal(batch.records[BATCH_MAX_RECORDS - 1].offset, BATCH_MAX_RECORDS - 1);
  batch.record_count++;
  assert_non_null(batch_encode(&batch, &out));
  buffer_release(&out);
  arena_release(&arena);
}

static void a_count_reserves_no_memory(void **state) {
  (void)state;
  struct buffer out = {0};
  struct arena arena = {0};
  struct batch_writer writer;
  struct batch batch;
  batch_writer_begin(&writer, &out, slice_text("t"), 0);
  assert_null(batch_writer_add(&writer, &(struct record){0}));
  batch_writer_finish(&writer);
  buffer_patch_u32(&out, writer.count_position, BATCH_MAX_RECORDS);
  assert_non_null(batch_decode(buffer_slice(&out), &arena, &batch));
  assert_int_equal(arena.allocated, 0);
  buffer_release(&out);
}

static void six_bytes_make_a_batch(void **state) {
  (void)state;
  assert_true(batch_is_batch(slice_of("CBV2\0\2", 6)));
  assert_true(batch_is_batch(slice_of("CBV2\0\2\xFF", 7)));
  assert_false(batch_is_batch(slice_of("CBV2\0\2", 5)));
  assert_false(batch_is_batch(slice_of("CBV2\0\3", 6)));
  assert_false(batch_is_batch(slice_of("CRQ2\0\2", 6)));
  assert_false(batch_is_batch(slice_of(NULL, 0)));
}

/* Any one bit changed may give another batch or none, but never a read outside the bytes. */
static void flipped_bits_are_survived(void **state) {
  (void)state;
  noise = 99;
  struct arena arena = {0};
  struct record records[3];
  for (unsigned i = 0; i < 3; i++) random_record(&arena, &records[i]);
  struct batch batch = {.topic = slice_text("topic"),
                        .acks = slice_text("all"),
                        .record_count = 3,
                        .records = records},
               got;
  struct buffer out = {0};
  assert_null(batch_encode(&batch, &out));
  uint8_t *copy = malloc(out.length);
  for (size_t bit = 0; bit < out.length * 8; bit++) {
    struct arena scratch = {0};
    struct buffer again = {0};
    memcpy(copy, out.data, out.length);
    copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
    if (!batch_decode(slice_of(copy, out.length), &scratch, &got))
      assert_null(batch_encode(&got, &again));
    buffer_release(&again);
    arena_release(&scratch);
  }
  free(copy);
  buffer_release(&out);
  arena_release(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_records_survive),
      cmocka_unit_test(every_presence_bit_is_one_section),
      cmocka_unit_test(unknown_words_are_not_encoded),
      cmocka_unit_test(random_batches_survive_and_both_writers_agree),
      cmocka_unit_test(a_refused_record_leaves_the_writer_usable),
      cmocka_unit_test(the_record_limit_holds),
      cmocka_unit_test(a_count_reserves_no_memory),
      cmocka_unit_test(six_bytes_make_a_batch),
      cmocka_unit_test(flipped_bits_are_survived),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
