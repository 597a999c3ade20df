/* The tail cache: what is found where, what goes first, and that its memory is what it says. */
#include "log/tail_cache.h"

#include "base/memory.h"
#include "log_fixture.h"
#include "unit.h"

static struct tail_cache *cache;

static int open_cache(void **state) {
  (void)state;
  cache = tail_cache_create(64 << 10);
  return 0;
}

static int close_cache(void **state) {
  (void)state;
  tail_cache_free(cache);
  return 0;
}

/* `count` records from `base_offset` on. */
static size_t insert(int64_t log_id, int32_t partition, int64_t base_offset, unsigned count,
                     size_t size) {
  struct log_batch *batch = batch_of_size(base_offset, count, size);
  batch->log_id = log_id;
  batch->partition = partition;
  tail_cache_insert(cache, batch);
  size_t memory = batch->memory;
  log_batch_release(batch);
  return memory;
}

static int64_t find(int64_t log_id, int32_t partition, int64_t offset) {
  struct log_batch *batch = tail_cache_find(cache, log_id, partition, offset);
  return batch ? batch->base_offset : -1;
}

static void a_batch_is_found_by_each_of_its_offsets(void **state) {
  (void)state;
  insert(1, 0, 10, 5, 1);
  insert(1, 0, 15, 1, 1);
  insert(1, 0, 20, 5, 1);
  static const struct {
    int64_t offset, base;
  } cases[] = {{0, -1},  {9, -1},  {10, 10}, {12, 10}, {14, 10}, {15, 15},
               {16, -1}, {19, -1}, {20, 20}, {24, 20}, {25, -1}, {INT64_MAX, -1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(find(1, 0, cases[i].offset), cases[i].base);
  }
}

static void partitions_and_logs_are_told_apart(void **state) {
  (void)state;
  insert(1, 0, 0, 1, 1);
  insert(1, 1, 5, 1, 1);
  insert(2, 0, 9, 1, 1);
  assert_int_equal(find(1, 0, 5), -1);
  assert_int_equal(find(1, 1, 5), 5);
  assert_int_equal(find(2, 0, 9), 9);
  assert_int_equal(find(3, 0, 0), -1);
}

static void batches_may_come_in_any_order(void **state) {
  (void)state;
  uint64_t noise = 8;
  int64_t order[64];
  for (unsigned i = 0; i < 64; i++) order[i] = i;
  for (unsigned i = 63; i > 0; i--) {
    size_t j = noise_below(&noise, i + 1);
    int64_t kept = order[i];
    order[i] = order[j];
    order[j] = kept;
  }
  for (unsigned i = 0; i < 64; i++) {
    insert(1, 0, order[i] * 2, 2, 1);
    for (unsigned j = 0; j < 64; j++) {
      int64_t base = order[j] * 2;
      assert_int_equal(find(1, 0, base + 1), j <= i ? base : -1);
    }
  }
}

static void the_oldest_insertion_goes_first_wherever_it_is(void **state) {
  (void)state;
  insert(1, 0, 500, 1, 15000);
  insert(1, 1, 0, 1, 15000);
  insert(1, 0, 100, 1, 15000);
  insert(1, 0, 900, 1, 15000);
  assert_int_equal(find(1, 0, 500), 500);
  insert(1, 1, 1, 1, 15000); /* no room: 500 was first */
  assert_int_equal(find(1, 0, 500), -1);
  assert_int_equal(find(1, 0, 100), 100);
  assert_int_equal(find(1, 0, 900), 900);
  assert_int_equal(find(1, 1, 0), 0);
  insert(1, 1, 2, 1, 15000);
  assert_int_equal(find(1, 1, 0), -1);
  assert_int_equal(find(1, 1, 2), 2);
}

static void memory_stays_within_the_limit_and_returns_to_nothing(void **state) {
  (void)state;
  uint64_t noise = 21;
  for (int64_t i = 0; i < 3000; i++) {
    int32_t partition = (int32_t)noise_below(&noise, 3);
    insert(1 + i % 2, partition, i * 10, 1 + (unsigned)noise_below(&noise, 9),
           1 + noise_below(&noise, 200));
    assert_true(tail_cache_memory(cache) <= 64 << 10);
    assert_int_not_equal(find(1 + i % 2, partition, i * 10), -1);
  }
  assert_true(tail_cache_memory(cache) > 32 << 10);
  tail_cache_drop_log(cache, 1);
  tail_cache_drop_log(cache, 2);
  assert_int_equal(tail_cache_memory(cache), 0);
}

static void memory_counts_the_batches(void **state) {
  (void)state;
  size_t first = insert(1, 0, 0, 1, 1000), second = insert(1, 0, 1, 1, 2000);
  assert_in_range(tail_cache_memory(cache), first + second, first + second + 200);
}

static void a_batch_that_is_there_is_not_inserted_again(void **state) {
  (void)state;
  insert(1, 0, 10, 5, 1);
  size_t memory = tail_cache_memory(cache);
  insert(1, 0, 10, 5, 1);
  assert_int_equal(tail_cache_memory(cache), memory);
}

static void a_batch_too_large_is_left_out(void **state) {
  (void)state;
  insert(1, 0, 0, 1, 10);
  insert(1, 0, 1, 1, 20 << 10);
  assert_int_equal(find(1, 0, 1), -1);
  assert_int_equal(find(1, 0, 0), 0);
  assert_false(tail_cache_takes(cache, 20 << 10));
  assert_true(tail_cache_takes(cache, 10 << 10));
}

static void a_cache_without_memory_keeps_nothing(void **state) {
  (void)state;
  struct tail_cache *nothing = tail_cache_create(0);
  struct log_batch *batch = batch_of_size(0, 1, 1);
  tail_cache_insert(nothing, batch);
  assert_null(tail_cache_find(nothing, 1, 0, 0));
  assert_int_equal(tail_cache_memory(nothing), 0);
  log_batch_release(batch);
  tail_cache_free(nothing);
  tail_cache_free(NULL);
}

static void dropping_a_log_leaves_the_others(void **state) {
  (void)state;
  for (int64_t i = 0; i < 10; i++) {
    for (int64_t log_id = 1; log_id <= 3; log_id++) insert(log_id, (int32_t)(i % 2), i, 1, 1);
  }
  tail_cache_drop_log(cache, 2);
  tail_cache_drop_log(cache, 99);
  for (int64_t i = 0; i < 10; i++) {
    assert_int_equal(find(1, (int32_t)(i % 2), i), i);
    assert_int_equal(find(2, (int32_t)(i % 2), i), -1);
    assert_int_equal(find(3, (int32_t)(i % 2), i), i);
  }
}

static void a_retained_batch_outlives_its_eviction(void **state) {
  (void)state;
  insert(1, 0, 0, 1, 100);
  struct log_batch *batch = log_batch_retain(tail_cache_find(cache, 1, 0, 0));
  tail_cache_drop_log(cache, 1);
  assert_int_equal(batch->record_count, 1);
  log_batch_release(batch);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_cache, close_cache)

static enum transaction_decision decision_after(enum transaction_decision decision) {
  struct log_batch *batch = batch_of_size(0, 1, 1);
  batch->transaction_id = 7;
  batch->decision = decision;
  tail_cache_insert(cache, batch);
  log_batch_release(batch);
  return tail_cache_find(cache, 1, 0, 0)->decision;
}

static void a_cached_batch_learns_its_decision_once(void **state) {
  (void)state;
  assert_int_equal(decision_after(TRANSACTION_UNDECIDED), TRANSACTION_UNDECIDED);
  assert_int_equal(decision_after(TRANSACTION_DECIDED_ABORT), TRANSACTION_DECIDED_ABORT);
  assert_int_equal(decision_after(TRANSACTION_UNDECIDED), TRANSACTION_DECIDED_ABORT);
}

static void the_stable_offset_never_falls_and_outlives_the_batches(void **state) {
  (void)state;
  assert_int_equal(tail_cache_stable(cache, 1, 0), 0);
  tail_cache_raise_stable(cache, 1, 0, 5);
  tail_cache_raise_stable(cache, 1, 0, 3);
  assert_int_equal(tail_cache_stable(cache, 1, 0), 5);
  assert_int_equal(tail_cache_stable(cache, 1, 1), 0);
  insert(1, 0, 0, 1, 1);
  for (int64_t i = 0; i < 100; i++) insert(2, 0, i, 1, 1000);
  assert_int_equal(find(1, 0, 0), -1);
  assert_int_equal(tail_cache_stable(cache, 1, 0), 5);
  insert(1, 0, 9, 1, 1);
  assert_int_equal(find(1, 0, 9), 9);
  tail_cache_drop_log(cache, 1);
  assert_int_equal(tail_cache_stable(cache, 1, 0), 0);
}

static void what_was_trimmed_is_forgotten_and_not_taken_again(void **state) {
  (void)state;
  insert(1, 0, 0, 5, 1);
  insert(1, 0, 5, 5, 1);
  insert(1, 0, 10, 5, 1);
  insert(1, 1, 0, 5, 1);
  tail_cache_trim(cache, 1, 0, 10);
  assert_int_equal(find(1, 0, 4), -1);
  assert_int_equal(find(1, 0, 9), -1);
  assert_int_equal(find(1, 0, 10), 10);
  assert_int_equal(find(1, 1, 0), 0);
  insert(1, 0, 5, 5, 1); /* by a query that began before */
  assert_int_equal(find(1, 0, 5), -1);
  tail_cache_trim(cache, 1, 0, 3); /* news that is late */
  insert(1, 0, 5, 5, 1);
  assert_int_equal(find(1, 0, 5), -1);
  tail_cache_trim(cache, 2, 0, 10); /* before anything of it was read */
  insert(2, 0, 9, 1, 1);
  insert(2, 0, 10, 1, 1);
  assert_int_equal(find(2, 0, 9), -1);
  assert_int_equal(find(2, 0, 10), 10);
}

static void who_hears_no_news_keeps_nothing(void **state) {
  (void)state;
  insert(1, 0, 0, 1, 1);
  tail_cache_set_listening(cache, false);
  assert_int_equal(find(1, 0, 0), -1);
  assert_false(tail_cache_takes(cache, 1));
  insert(1, 0, 0, 1, 1);
  assert_int_equal(find(1, 0, 0), -1);
  tail_cache_set_listening(cache, true);
  insert(1, 0, 0, 1, 1);
  assert_int_equal(find(1, 0, 0), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_batch_is_found_by_each_of_its_offsets),
      TEST(partitions_and_logs_are_told_apart),
      TEST(batches_may_come_in_any_order),
      TEST(the_oldest_insertion_goes_first_wherever_it_is),
      TEST(memory_stays_within_the_limit_and_returns_to_nothing),
      TEST(memory_counts_the_batches),
      TEST(a_batch_that_is_there_is_not_inserted_again),
      TEST(a_batch_too_large_is_left_out),
      TEST(a_cache_without_memory_keeps_nothing),
      TEST(dropping_a_log_leaves_the_others),
      TEST(a_retained_batch_outlives_its_eviction),
      TEST(a_cached_batch_learns_its_decision_once),
      TEST(the_stable_offset_never_falls_and_outlives_the_batches),
      TEST(what_was_trimmed_is_forgotten_and_not_taken_again),
      TEST(who_hears_no_news_keeps_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
