/* Reading: which readers share a query, what the cache answers, and how each of them ends. */
#include <ev.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "db_fixture.h"
#include "log/fetch.h"
#include "log/read.h"
#include "log/tail_cache.h"
#include "log/wake.h"
#include "log_fixture.h"
#include "unit.h"

enum { READERS = 40, BATCHES = 40, LONG_AGO = 1, FETCH_COLUMNS = 29 };

struct reader {
  struct read_request request; /* first */
  unsigned answers;
  enum read_status status;
  bool bounds_known;
  int64_t earliest, end, stable;
  unsigned batch_count;
  int64_t bases[BATCHES];
};

static struct tail_cache *cache;
static struct wake *wake;
static struct read_pool *pool;
static struct reader readers[READERS];
static unsigned used;

static int open_with(unsigned connections) {
  db_fixture_begin();
  cache = tail_cache_create(1 << 20);
  wake = wake_create();
  used = 0;
  memset(readers, 0, sizeof readers);
  pool = read_pool_open(&(struct read_options){.database = &database,
                                               .cache = cache,
                                               .wake = wake,
                                               .connections = connections,
                                               .poll_interval_ms = 20});
  db_fixture_connect();
  return 0;
}

static int open_one(void **state) {
  (void)state;
  return open_with(1);
}

static int open_two(void **state) {
  (void)state;
  return open_with(2);
}

static int close_all(void **state) {
  (void)state;
  if (pool) read_pool_close(pool);
  pool = NULL;
  tail_cache_free(cache);
  wake_free(wake);
  db_fixture_end();
  return 0;
}

static void on_done(struct read_request *request, const struct read_result *result) {
  struct reader *reader = (struct reader *)request;
  reader->answers++;
  reader->status = result->status;
  reader->bounds_known = result->bounds_known;
  reader->earliest = result->earliest_offset;
  reader->end = result->end_offset;
  reader->stable = result->stable_offset;
  reader->batch_count = result->batch_count;
  assert_non_null(result->reason);
  assert_true(result->batch_count <= BATCHES);
  for (unsigned i = 0; i < result->batch_count; i++) {
    reader->bases[i] = result->batches[i]->base_offset;
  }
}

static struct reader *read_from(int64_t offset, int64_t max_records, int64_t max_bytes) {
  struct reader *reader = &readers[used++];
  reader->request = (struct read_request){.log_id = 1,
                                          .offset = offset,
                                          .max_records = max_records,
                                          .max_bytes = max_bytes,
                                          .deadline_us = clock_monotonic_us() + 60000000,
                                          .on_done = on_done};
  read_submit(pool, &reader->request);
  return reader;
}

static struct reader *read_some(int64_t offset) {
  return read_from(offset, 100, 1 << 20);
}

static void assert_told(const struct reader *reader, enum read_status status) {
  assert_int_equal(reader->answers, 1);
  assert_int_equal(reader->status, status);
}

/* ---- what PostgreSQL answers ---- */

static void set_bounds(PGresult *rows, int row, int64_t earliest, int64_t end) {
  db_fixture_set_bool(rows, row, 0, true);
  db_fixture_set_int8(rows, row, 1, earliest);
  db_fixture_set_int8(rows, row, 2, end);
  db_fixture_set_int8(rows, row, 3, end);
}

/* One row: bounds, and no batch. */
static PGresult *nothing(int64_t earliest, int64_t end) {
  PGresult *rows = db_fixture_result(FETCH_COLUMNS);
  set_bounds(rows, 0, earliest, end);
  return rows;
}

/* `batches` rows of `count` records of `size` bytes, from `base` on. */
static PGresult *batches(int64_t base, unsigned count, unsigned records, size_t size, int64_t end) {
  PGresult *rows = db_fixture_result(FETCH_COLUMNS);
  struct columns *columns = row_of_size(records, size);
  for (unsigned i = 0; i < count; i++) {
    int row = (int)i;
    set_bounds(rows, row, 0, end);
    db_fixture_set_int8(rows, row, 4, base + i * records);
    db_fixture_set_int8(rows, row, 5, base + (i + 1) * records - 1);
    db_fixture_set_int4(rows, row, 6, (int32_t)records);
    db_fixture_set_int8(rows, row, 7, 0);
    db_fixture_set_int2(rows, row, 8, BATCH_DATA);
    db_fixture_set_bytes(rows, row, 17, buffer_slice(&columns->arrays[COLUMN_PAYLOADS]));
  }
  columns_free(columns);
  return rows;
}

static void answer_with(PGresult *rows) {
  db_fixture_commit(session, &rows, 1);
}

static int64_t asked(unsigned query, unsigned parameter) {
  return db_fixture_number(&session->sent[query], 0, parameter);
}

enum { ASKED_OFFSET = 2, ASKED_RECORDS, ASKED_BYTES, ASKED_STABLE, ASKED_COMMITTED };

/* ---- sharing ---- */

static void readers_of_one_range_share_a_query(void **state) {
  (void)state;
  struct reader *first = read_from(5, 10, 1000), *second = read_from(5, 20, 500);
  struct reader *other = read_from(6, 10, 1000);
  turn();
  assert_int_equal(session->in_flight, 2);
  assert_int_equal(asked(0, ASKED_OFFSET), 5);
  assert_int_equal(asked(0, ASKED_RECORDS), 20); /* enough for both */
  assert_int_equal(asked(0, ASKED_BYTES), 1000);
  answer_with(batches(5, 2, 10, 1, 25));
  assert_told(first, READ_OK);
  assert_told(second, READ_OK);
  assert_int_equal(first->batch_count, 1); /* each takes what it asked for */
  assert_int_equal(second->batch_count, 2);
  assert_int_equal(other->answers, 0);
}

static void a_reader_that_comes_after_a_query_was_sent_has_its_own(void **state) {
  (void)state;
  struct reader *early = read_some(0);
  turn();
  struct reader *late = read_some(0);
  turn();
  assert_int_equal(session->in_flight, 2);
  answer_with(nothing(0, 0));
  assert_told(early, READ_OK);
  assert_int_equal(late->answers, 0);
  answer_with(batches(0, 1, 1, 1, 1));
  assert_told(late, READ_OK);
  assert_int_equal(late->batch_count, 1);
}

static void queries_that_wait_are_shared_meanwhile(void **state) {
  (void)state;
  for (int64_t i = 0; i < 4; i++) read_some(i * 100);
  turn();
  assert_int_equal(session->in_flight, 4);
  struct reader *first = read_some(900);
  turn();
  struct reader *second = read_some(900);
  turn();
  assert_int_equal(session->in_flight, 4);
  answer_with(nothing(0, 0));
  assert_int_equal(session->in_flight, 4);
  assert_int_equal(asked(3, ASKED_OFFSET), 900);
  for (unsigned i = 0; i < 4; i++) answer_with(nothing(0, 0));
  assert_told(first, READ_OK);
  assert_told(second, READ_OK);
  assert_int_equal(session->in_flight, 0);
}

static void queries_go_to_the_session_with_less_to_do(void **state) {
  (void)state;
  for (int64_t i = 0; i < 6; i++) read_some(i);
  turn();
  assert_int_equal(db_fixture[0]->in_flight, 3);
  assert_int_equal(db_fixture[1]->in_flight, 3);
}

/* ---- the cache ---- */

static void cache_batch(int64_t base, unsigned count) {
  struct log_batch *batch = batch_of_size(base, count, 1);
  tail_cache_insert(cache, batch);
  log_batch_release(batch);
}

static void the_cache_answers_alone_when_it_has_everything(void **state) {
  (void)state;
  cache_batch(0, 10);
  cache_batch(10, 10);
  struct reader *reader = read_from(4, 10, 1 << 20);
  assert_int_equal(reader->answers, 0); /* never before submit has returned */
  turn();
  assert_told(reader, READ_OK);
  assert_false(reader->bounds_known);
  assert_int_equal(reader->batch_count, 2);
  assert_int_equal(session->batches, 0);
}

static void a_query_brings_what_the_cache_does_not_have(void **state) {
  (void)state;
  cache_batch(0, 10);
  struct reader *reader = read_from(4, 10, 1 << 20);
  turn();
  assert_int_equal(asked(0, ASKED_OFFSET), 10);
  assert_int_equal(asked(0, ASKED_RECORDS), 4);
  answer_with(batches(10, 1, 5, 1, 15));
  assert_told(reader, READ_OK);
  assert_true(reader->bounds_known);
  assert_int_equal(reader->end, 15);
  assert_int_equal(reader->batch_count, 2);
}

static void what_was_read_is_cached(void **state) {
  (void)state;
  read_from(0, 5, 1 << 20);
  turn();
  answer_with(batches(0, 1, 5, 1, 5));
  struct reader *reader = read_from(0, 5, 1 << 20);
  turn();
  assert_told(reader, READ_OK);
  assert_int_equal(session->batches, 1);
}

static void what_an_answer_says_is_gone_leaves_the_cache(void **state) {
  (void)state;
  cache_batch(0, 5);
  cache_batch(5, 5);
  read_from(20, 1, 1);
  turn();
  answer_with(nothing(5, 20));
  struct reader *gone = read_from(0, 5, 1 << 20), *there = read_from(5, 5, 1 << 20);
  turn();
  assert_told(there, READ_OK);
  assert_false(there->bounds_known);
  assert_int_equal(asked(0, ASKED_OFFSET), 0);
  answer_with(nothing(5, 20));
  assert_told(gone, READ_OK);
  assert_true(gone->bounds_known);
  assert_int_equal(gone->earliest, 5);
  assert_int_equal(gone->batch_count, 0);
}

/* ---- readers of committed records ---- */

static struct reader *read_committed(int64_t offset) {
  struct reader *reader = read_from(offset, 4, 1 << 20);
  reader->request.committed = true;
  return reader;
}

/* A row of four records at `base`, of transaction 7 in `state`, or of none. */
static PGresult *transactional(int64_t base, const char *state, int64_t stable, int64_t end) {
  PGresult *rows = batches(base, 1, 4, 1, end);
  db_fixture_set_int8(rows, 0, 3, stable);
  if (state) {
    db_fixture_set_int8(rows, 0, 13, 7);
    db_fixture_set_bytes(rows, 0, 14, slice_text(state));
    db_fixture_set_bytes(rows, 0, 15, slice_text("tx"));
  }
  return rows;
}

static void readers_of_both_isolations_do_not_share_a_query(void **state) {
  (void)state;
  read_committed(0);
  read_some(0);
  turn();
  assert_int_equal(session->in_flight, 2);
  assert_int_equal(asked(0, ASKED_COMMITTED), 1);
  assert_int_equal(asked(1, ASKED_COMMITTED), 0);
  answer_with(transactional(0, "committed", 4, 4));
  answer_with(batches(0, 1, 4, 1, 4));
}

static void nothing_comes_from_the_cache_that_is_not_known_to_be_stable(void **state) {
  (void)state;
  cache_batch(0, 4);
  cache_batch(4, 4);
  struct reader *reader = read_committed(4);
  turn();
  assert_int_equal(session->in_flight, 1);
  assert_int_equal(asked(0, ASKED_STABLE), 0);
  answer_with(transactional(4, NULL, 8, 8));
  assert_told(reader, READ_OK);
  /* Now it is, also before. */
  reader = read_committed(0);
  struct reader *other = read_committed(4);
  turn();
  assert_told(reader, READ_OK);
  assert_told(other, READ_OK);
  assert_int_equal(session->in_flight, 0);
  /* And the next query need not look for anything undecided below. */
  read_committed(8);
  turn();
  assert_int_equal(asked(0, ASKED_STABLE), 8);
  answer_with(nothing(0, 8));
}

static void what_follows_something_stable_without_a_transaction_is_stable(void **state) {
  (void)state;
  read_committed(0);
  turn();
  answer_with(transactional(0, "committed", 4, 4));
  cache_batch(4, 4);
  struct reader *reader = read_committed(4);
  turn();
  assert_told(reader, READ_OK);
  assert_int_equal(tail_cache_stable(cache, 1, 0), 8);
}

static void an_undecided_batch_is_asked_for_until_it_is_decided(void **state) {
  (void)state;
  struct reader *dirty = read_from(0, 4, 1 << 20);
  turn();
  answer_with(transactional(0, "open", 0, 4));
  assert_told(dirty, READ_OK);
  dirty = read_from(0, 4, 1 << 20); /* the cache has it */
  struct reader *held = read_committed(0);
  turn();
  assert_told(dirty, READ_OK);
  assert_int_equal(session->in_flight, 1);
  answer_with(nothing(0, 4));
  assert_told(held, READ_OK);
  assert_int_equal(held->batch_count, 0);
  struct reader *after = read_committed(0);
  turn();
  assert_int_equal(session->in_flight, 1);
  answer_with(transactional(0, "aborted", 5, 5));
  assert_told(after, READ_OK);
  assert_int_equal(after->batch_count, 1);
  after = read_committed(0); /* the cached batch has learnt it */
  turn();
  assert_told(after, READ_OK);
  assert_int_equal(session->in_flight, 0);
}

/* It cannot be, unless PostgreSQL lost what it had acknowledged. */
static void an_undecided_batch_is_never_given_to_a_reader_of_committed_records(void **state) {
  (void)state;
  struct reader *reader = read_committed(0);
  turn();
  answer_with(transactional(0, "open", 4, 4));
  assert_told(reader, READ_OK);
  assert_int_equal(reader->batch_count, 0);
}

/* ---- length ---- */

static void a_long_read_is_made_of_several_queries(void **state) {
  (void)state;
  struct reader *reader = read_from(0, 1000, 64 << 20);
  turn();
  assert_int_equal(asked(0, ASKED_BYTES), 8 << 20);
  answer_with(batches(0, 3, 10, 2 << 10, 50));
  assert_int_equal(reader->answers, 0);
  assert_int_equal(asked(0, ASKED_OFFSET), 30);
  assert_int_equal(asked(0, ASKED_RECORDS), 970);
  answer_with(batches(30, 2, 10, 2 << 10, 50));
  assert_told(reader, READ_OK); /* the end */
  assert_int_equal(reader->batch_count, 5);
  for (unsigned i = 0; i < 5; i++) assert_int_equal(reader->bases[i], i * 10);
}

static void a_read_ends_where_its_bytes_do_and_one_batch_always_comes(void **state) {
  (void)state;
  struct reader *reader = read_from(0, 1000, 1);
  turn();
  answer_with(batches(0, 3, 10, 100, 50));
  assert_told(reader, READ_OK);
  assert_int_equal(reader->batch_count, 1);
}

static void holes_do_not_make_a_reader_take_more_than_it_asked_for(void **state) {
  (void)state;
  /* Compaction left 2 of 100 records: offsets 0 and 99. */
  struct columns *columns = row_of_size(2, 1);
  static const uint32_t deltas[] = {1, 0, 23, 2, 1, 4, 0, 4, 99};
  struct buffer array = {0};
  for (size_t i = 0; i < sizeof deltas / sizeof *deltas; i++) buffer_append_u32(&array, deltas[i]);
  struct log_batch source = {.log_id = 1,
                             .last_offset = 99,
                             .record_count = 2,
                             .columns = {buffer_slice(&columns->arrays[COLUMN_PAYLOADS])},
                             .offset_deltas = buffer_slice(&array)};
  struct log_batch *batch = log_batch_copy(&source);
  tail_cache_insert(cache, batch);
  log_batch_release(batch);
  for (int64_t i = 1; i < 5; i++) cache_batch(i * 100, 100);
  struct reader *reader = read_from(90, 50, 1 << 20);
  turn();
  assert_told(reader, READ_OK);
  assert_int_equal(reader->batch_count, 2);
  columns_free(columns);
  buffer_release(&array);
}

static void nothing_to_read_tells_the_bounds(void **state) {
  (void)state;
  struct reader *reader = read_some(9);
  turn();
  answer_with(nothing(3, 9));
  assert_told(reader, READ_OK);
  assert_true(reader->bounds_known);
  assert_int_equal(reader->earliest, 3);
  assert_int_equal(reader->end, 9);
  assert_int_equal(reader->stable, 9);
  assert_int_equal(reader->batch_count, 0);
}

static void an_answer_without_progress_ends_the_read(void **state) {
  (void)state;
  struct reader *reader = read_some(0);
  turn();
  answer_with(nothing(0, 100)); /* says that there is more, but brings none */
  assert_told(reader, READ_OK);
  assert_int_equal(session->in_flight, 0);
}

/* ---- failures ---- */

static void a_log_that_is_gone_is_stale_and_leaves_the_cache(void **state) {
  (void)state;
  cache_batch(0, 10);
  struct reader *reader = read_from(0, 20, 1 << 20);
  turn();
  PGresult *rows = nothing(0, 0);
  db_fixture_set_bool(rows, 0, 0, false);
  answer_with(rows);
  assert_told(reader, READ_STALE);
  assert_int_equal(reader->batch_count, 0);
  assert_int_equal(tail_cache_memory(cache), 0);
}

static void damaged_rows_fail_the_read_only(void **state) {
  (void)state;
  struct reader *reader = read_some(0);
  turn();
  PGresult *rows = batches(0, 2, 5, 1, 10);
  db_fixture_set_bytes(rows, 1, 17, slice_text("damaged"));
  answer_with(rows);
  assert_told(reader, READ_FAILED);
  reader = read_some(0);
  turn();
  answer_with(db_fixture_result(FETCH_COLUMNS)); /* no row at all */
  assert_told(reader, READ_FAILED);
  assert_int_equal(tail_cache_memory(cache), 0);
}

static void errors_that_pass_are_told_from_those_that_do_not(void **state) {
  (void)state;
  static const struct {
    const char *sqlstate;
    enum read_status status;
  } cases[] = {{"57014", READ_UNAVAILABLE},
               {"53200", READ_UNAVAILABLE},
               {"08006", READ_UNAVAILABLE},
               {"42883", READ_FAILED},
               {"XX001", READ_FAILED}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct reader *reader = read_some(0);
    turn();
    db_fixture_refuse(session, 0, cases[i].sqlstate, "m", "");
    assert_told(reader, cases[i].status);
  }
}

static void readers_whose_session_ended_ask_again(void **state) {
  (void)state;
  cache_batch(0, 10);
  struct reader *first = read_from(0, 20, 1 << 20), *second = read_from(10, 5, 1 << 20);
  turn();
  db_fixture_refuse(session, 0, "57P01", "the server stops", "");
  db_fixture_lose(session);
  assert_int_equal(first->answers + second->answers, 0);
  db_fixture_make_ready(session);
  assert_int_equal(session->in_flight, 1);
  assert_int_equal(asked(0, ASKED_OFFSET), 10);
  answer_with(batches(10, 1, 10, 1, 20));
  assert_told(first, READ_OK);
  assert_int_equal(first->batch_count, 2);
  assert_told(second, READ_OK);
}

static void readers_wait_for_a_session_that_is_connecting(void **state) {
  (void)state;
  db_fixture_lose(session);
  struct reader *reader = read_some(0);
  turn();
  assert_int_equal(reader->answers, 0);
  db_fixture_make_ready(session);
  assert_int_equal(session->in_flight, 1);
  answer_with(nothing(0, 0));
  assert_told(reader, READ_OK);
}

static void readers_fail_when_all_sessions_are_down(void **state) {
  (void)state;
  db_fixture_make_down(db_fixture[0]);
  struct reader *first = read_some(0);
  turn();
  assert_int_equal(db_fixture[1]->in_flight, 1); /* one is enough */
  db_fixture_lose(db_fixture[1]);
  struct reader *second = read_some(0);
  turn();
  assert_int_equal(first->answers + second->answers, 0);
  db_fixture_make_down(db_fixture[1]);
  assert_told(first, READ_UNAVAILABLE);
  assert_told(second, READ_UNAVAILABLE);
  struct reader *third = read_some(0);
  turn();
  assert_told(third, READ_UNAVAILABLE);
}

static void a_deadline_that_passes_before_the_query_is_sent_ends_the_read(void **state) {
  (void)state;
  db_fixture_lose(session);
  struct reader *late = read_some(0), *patient = read_some(0);
  late->request.deadline_us = LONG_AGO;
  run_until(late->answers);
  assert_told(late, READ_TIMED_OUT);
  db_fixture_make_ready(session);
  answer_with(nothing(0, 0));
  assert_told(patient, READ_OK);
}

/* ---- callbacks and the end ---- */

static void read_again(struct read_request *request, const struct read_result *result) {
  struct reader *reader = (struct reader *)request;
  on_done(request, result);
  if (reader->answers < 3) read_submit(pool, request);
}

static void a_reader_may_read_on_from_its_answer(void **state) {
  (void)state;
  cache_batch(0, 10);
  struct reader *reader = read_from(0, 10, 1 << 20);
  reader->request.on_done = read_again;
  turn();
  assert_int_equal(reader->answers, 1);
  turn();
  turn();
  assert_int_equal(reader->answers, 3);
}

static void closing_tells_everybody(void **state) {
  (void)state;
  struct reader *told[7];
  for (int64_t i = 0; i < 5; i++) told[i] = read_some(i); /* four in flight, one waits */
  turn();
  told[5] = read_some(7); /* just arrived */
  cache_batch(100, 10);
  told[6] = read_from(100, 10, 1 << 20);
  read_pool_close(pool);
  pool = NULL;
  for (unsigned i = 0; i < 7; i++) assert_told(told[i], READ_UNAVAILABLE);
}

/* ---- the slow look ---- */

static unsigned woken;

static void on_wake(struct wake_waiter *waiter) {
  (void)waiter;
  woken++;
}

static void waited_for_partitions_are_looked_at(void **state) {
  (void)state;
  struct wake_waiter first = {.on_wake = on_wake, .offset = 5};
  struct wake_waiter second = {.on_wake = on_wake, .offset = 5};
  woken = 0;
  wake_add(wake, &first, 1, 0);
  wake_add(wake, &second, 1, 3);
  run_until(session->in_flight);
  assert_int_equal(session->in_flight, 1);
  assert_int_equal(session->sent[0].calls->statement, STATEMENT_ENDS);
  assert_int_equal(db_fixture_bytes(&session->sent[0], 0, 0).length, 20 + 2 * 12);
  assert_int_equal(db_fixture_bytes(&session->sent[0], 0, 1).length, 20 + 2 * 8);
  for (unsigned i = 0; i < 3; i++) ev_run(loop, EVRUN_ONCE);
  assert_int_equal(session->in_flight, 1); /* one look at a time */
  PGresult *rows = db_fixture_result(3);
  db_fixture_set_int8(rows, 0, 0, 1);
  db_fixture_set_int4(rows, 0, 1, 3);
  db_fixture_set_int8(rows, 0, 2, 6);
  answer_with(rows);
  assert_int_equal(woken, 1);
  wake_remove(wake, &first);
  assert_null(second.partition);
}

#define ONE(test) cmocka_unit_test_setup_teardown(test, open_one, close_all)
#define TWO(test) cmocka_unit_test_setup_teardown(test, open_two, close_all)

int main(void) {
  log_set_level(LOG_ERROR + 1);
  const struct CMUnitTest tests[] = {
      ONE(readers_of_one_range_share_a_query),
      ONE(a_reader_that_comes_after_a_query_was_sent_has_its_own),
      ONE(queries_that_wait_are_shared_meanwhile),
      TWO(queries_go_to_the_session_with_less_to_do),
      ONE(the_cache_answers_alone_when_it_has_everything),
      ONE(a_query_brings_what_the_cache_does_not_have),
      ONE(what_was_read_is_cached),
      ONE(what_an_answer_says_is_gone_leaves_the_cache),
      ONE(readers_of_both_isolations_do_not_share_a_query),
      ONE(nothing_comes_from_the_cache_that_is_not_known_to_be_stable),
      ONE(what_follows_something_stable_without_a_transaction_is_stable),
      ONE(an_undecided_batch_is_asked_for_until_it_is_decided),
      ONE(an_undecided_batch_is_never_given_to_a_reader_of_committed_records),
      ONE(a_long_read_is_made_of_several_queries),
      ONE(a_read_ends_where_its_bytes_do_and_one_batch_always_comes),
      ONE(holes_do_not_make_a_reader_take_more_than_it_asked_for),
      ONE(nothing_to_read_tells_the_bounds),
      ONE(an_answer_without_progress_ends_the_read),
      ONE(a_log_that_is_gone_is_stale_and_leaves_the_cache),
      ONE(damaged_rows_fail_the_read_only),
      ONE(errors_that_pass_are_told_from_those_that_do_not),
      ONE(readers_whose_session_ended_ask_again),
      ONE(readers_wait_for_a_session_that_is_connecting),
      TWO(readers_fail_when_all_sessions_are_down),
      ONE(a_deadline_that_passes_before_the_query_is_sent_ends_the_read),
      ONE(a_reader_may_read_on_from_its_answer),
      ONE(closing_tells_everybody),
      ONE(waited_for_partitions_are_looked_at),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
