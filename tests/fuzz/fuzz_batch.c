/* CBV2 batches and single records. Input may be encoded in more ways than ours (empty sections,
 * version 3 without need), so the first re-encoding may differ; the second may not. */
#include "crs2/wire/batch.h"
#include "fuzz.h"

static void check_batch(struct slice payload) {
  struct arena arena = {0};
  struct buffer first = {0}, second = {0};
  struct batch batch, again;
  if (!batch_decode(payload, &arena, &batch)) {
    FUZZ_CHECK(batch_is_batch(payload));
    FUZZ_CHECK(!batch_encode(&batch, &first));
    FUZZ_CHECK(!batch_decode(buffer_slice(&first), &arena, &again));
    FUZZ_CHECK(again.record_count == batch.record_count);
    FUZZ_CHECK(slice_equals(again.topic, batch.topic) && again.partition == batch.partition);
    FUZZ_CHECK(!batch_encode(&again, &second));
    FUZZ_CHECK(slice_equals(buffer_slice(&first), buffer_slice(&second)));
  }
  buffer_release(&first);
  buffer_release(&second);
  arena_release(&arena);
}

static void check_record(struct slice bytes) {
  struct record record, again;
  struct slice topic, topic_again;
  int32_t partition, partition_again;
  if (record_decode(bytes, &record, &topic, &partition)) return;
  struct buffer out = {0};
  FUZZ_CHECK(!record_encode(&record, topic, partition, &out));
  FUZZ_CHECK(out.length <= bytes.length);
  FUZZ_CHECK(!record_decode(buffer_slice(&out), &again, &topic_again, &partition_again));
  FUZZ_CHECK(slice_equals(topic, topic_again) && partition == partition_again);
  FUZZ_CHECK(again.presence == record_canonical_presence(&record));
  FUZZ_CHECK(slice_equals(again.payload, record.payload) && again.offset == record.offset);
  buffer_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  check_batch(slice_of(data, size));
  check_record(slice_of(data, size));
  return 0;
}
