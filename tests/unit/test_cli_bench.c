/* The load generator's parts that are pure: histogram, prepared requests, the lean batch reader. */
#include "../../client/cli/bench_scan.c"
#include "../../client/cli/histogram.c"
#include "../../client/cli/load.c"

#include "unit.h"

static void percentiles_are_close(void **state) {
  (void)state;
  struct histogram histogram = {0};
  assert_int_equal(histogram_percentile(&histogram, 99), 0);
  for (int i = 1; i <= 100000; i++) histogram_add(&histogram, i);
  static const double percents[] = {1, 50, 95, 99, 99.9, 100};
  for (size_t i = 0; i < sizeof percents / sizeof *percents; i++) {
    double exact = percents[i] * 1000;
    double got = (double)histogram_percentile(&histogram, percents[i]);
    assert_true(got >= exact * 0.999 && got <= exact * 1.017);
  }
  assert_int_equal(histogram.maximum, 100000);
  assert_true(histogram_mean(&histogram) > 50000 && histogram_mean(&histogram) < 50001);
}

static void extreme_values_have_a_bucket(void **state) {
  (void)state;
  struct histogram histogram = {0};
  histogram_add(&histogram, -5);
  histogram_add(&histogram, INT64_MAX);
  assert_int_equal(histogram.count, 2);
  assert_int_equal(histogram_percentile(&histogram, 50), 0);
  assert_int_equal(histogram_percentile(&histogram, 100), (uint64_t)1 << 40);
  for (uint64_t value = 0; value < (uint64_t)1 << 39; value = value * 2 + 1) {
    unsigned bucket = bucket_of(value);
    assert_true(bucket < HISTOGRAM_BUCKETS && bucket_limit(bucket) >= value);
    assert_true(bucket == 0 || bucket_limit(bucket - 1) < value);
  }
}

struct sight {
  uint64_t next;
  uint64_t wrong;
};

static void see(void *own, struct slice payload) {
  struct sight *sight = own;
  uint32_t producer;
  uint64_t sequence;
  if (!load_read_payload(payload, &producer, &sequence) || sequence != sight->next++)
    sight->wrong++;
}

/* What a request holds, as the broker would read it. */
static struct slice open_request(struct buffer *frame, enum compression compression,
                                 struct buffer *storage) {
  struct frame_header header;
  struct slice payload;
  assert_null(frame_decode_header(frame->data, compression, NUMBERING_STANDARD, &header));
  assert_int_equal(header.command, COMMAND_PUBLISH);
  storage->length = 0;
  assert_null(frame_decode_payload(&header,
                                   slice_of(frame->data + FRAME_HEADER_SIZE, header.encoded_length),
                                   storage, &payload));
  return payload;
}

static const struct bench_options batches = {.topic = "bench",
                                             .acks = "all",
                                             .partitions = 3,
                                             .connections = 2,
                                             .batch = 50,
                                             .size = 64,
                                             .keyed = true,
                                             .idempotent = true,
                                             .verify = true};

static void a_prepared_batch_is_numbered_and_keyed(void **state) {
  (void)state;
  struct load load;
  load_open(&load, &batches, COMPRESSION_LZ4);
  struct buffer storage = {0};
  for (uint64_t round = 0; round < 3; round++) {
    const char *problem;
    struct buffer *frame = load_next(&load, 1, 2, 0, &problem);
    assert_non_null(frame);
    struct arena arena = {0};
    struct batch batch;
    assert_null(batch_decode(open_request(frame, COMPRESSION_LZ4, &storage), &arena, &batch));
    assert_int_equal(batch.partition, 2);
    assert_int_equal(batch.record_count, 50);
    assert_int_equal(batch.batch_start, round * 50 + 1);
    assert_int_equal(batch.batch_end, round * 50 + 50);
    struct sight sight = {.next = round * 50};
    for (uint32_t i = 0; i < 50; i++) {
      assert_int_equal(batch.records[i].sequence, round * 50 + i + 1);
      assert_int_equal(hash_fnv1a64(batch.records[i].key) % 3, 2);
      assert_int_equal(batch.records[i].producer_id.length, PRODUCER_LENGTH);
      assert_memory_equal(batch.records[i].producer_id.data + PRODUCER_LENGTH - 3, "001", 3);
      see(&sight, batch.records[i].payload);
    }
    assert_int_equal(sight.wrong, 0);
    arena_release(&arena);
  }
  buffer_release(&storage);
  load_close(&load);
}

static void a_prepared_single_is_numbered(void **state) {
  (void)state;
  struct bench_options options = batches;
  options.batch = 1;
  struct load load;
  load_open(&load, &options, COMPRESSION_NONE);
  struct buffer storage = {0};
  for (uint64_t round = 0; round < 2; round++) {
    const char *problem;
    struct buffer *frame = load_next(&load, 0, 1, 0, &problem);
    assert_non_null(frame);
    struct arena arena = {0};
    struct request_fields request;
    assert_null(request_decode(open_request(frame, COMPRESSION_NONE, &storage), &arena, &request));
    assert_true(slice_equals_text(*request_find(&request, "seqNum"),
                                  round == 0 ? "00000000000000000001" : "00000000000000000002"));
    assert_true(slice_equals_text(*request_find(&request, "partition"), "1"));
    struct sight sight = {.next = round};
    see(&sight, *request_find(&request, "message"));
    assert_int_equal(sight.wrong, 0);
    arena_release(&arena);
  }
  buffer_release(&storage);
  load_close(&load);
}

static void a_damaged_payload_is_noticed(void **state) {
  (void)state;
  uint8_t payload[40] = {0};
  uint32_t producer;
  uint64_t sequence;
  mark_payload(payload, sizeof payload, 7, 1234567890123);
  assert_true(load_read_payload(slice_of(payload, sizeof payload), &producer, &sequence));
  assert_int_equal(producer, 7);
  assert_int_equal(sequence, 1234567890123);
  payload[30] ^= 1;
  assert_false(load_read_payload(slice_of(payload, sizeof payload), &producer, &sequence));
  assert_false(load_read_payload(slice_of(payload, 8), &producer, &sequence));
}

static void encode_offsets(struct buffer *out, const uint64_t *offsets, uint32_t count) {
  struct batch_writer writer;
  batch_writer_begin(&writer, out, slice_text("t"), 0);
  for (uint32_t i = 0; i < count; i++) {
    struct record record = {.offset = offsets[i], .payload = slice_text("payload")};
    assert_null(batch_writer_add(&writer, &record));
  }
  batch_writer_finish(&writer);
}

static void offsets_are_followed(void **state) {
  (void)state;
  struct buffer bytes = {0};
  encode_offsets(&bytes, (const uint64_t[]){10, 11, 14}, 3);
  struct scan scan = {.expected = 10};
  assert_true(scan_batch(buffer_slice(&bytes), &scan));
  assert_int_equal(scan.records, 3);
  assert_int_equal(scan.gaps, 2);
  assert_int_equal(scan.bytes, 21);
  assert_int_equal(scan.expected, 15);
  assert_false(scan_batch(buffer_slice(&bytes), &scan));
  buffer_release(&bytes);
}

static void no_cut_batch_is_accepted(void **state) {
  (void)state;
  struct buffer bytes = {0};
  encode_offsets(&bytes, (const uint64_t[]){0, 1}, 2);
  for (size_t length = 0; length < bytes.length; length++) {
    struct scan scan = {.expected = 0};
    uint8_t *exact = memory_allocate(length + 1);
    memcpy(exact, bytes.data, length);
    assert_false(scan_batch(slice_of(exact, length), &scan));
    free(exact);
  }
  buffer_append_u8(&bytes, 0);
  struct scan scan = {.expected = 0};
  assert_false(scan_batch(buffer_slice(&bytes), &scan));
  buffer_release(&bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(percentiles_are_close),
      cmocka_unit_test(extreme_values_have_a_bucket),
      cmocka_unit_test(a_prepared_batch_is_numbered_and_keyed),
      cmocka_unit_test(a_prepared_single_is_numbered),
      cmocka_unit_test(a_damaged_payload_is_noticed),
      cmocka_unit_test(offsets_are_followed),
      cmocka_unit_test(no_cut_batch_is_accepted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
