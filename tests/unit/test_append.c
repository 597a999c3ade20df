/* The lanes: what leaves together, who is told what, and when. PostgreSQL is played by the test. */
#include <ev.h>

#include "base/clock.h"
#include "base/log.h"
#include "db_fixture.h"
#include "log/announce.h"
#include "log/append.h"
#include "log/append_group.h"
#include "log/tail_cache.h"
#include "log/wake.h"
#include "log_fixture.h"
#include "unit.h"

enum { MOST = 32, LONG_AGO = 1 };

/* One publish and what it was told. */
struct publish {
  struct append_item item; /* first */
  unsigned answers;
  unsigned order; /* of its answer among all */
  enum append_status status;
  int64_t last_offset, current, expected;
  int32_t partition;
  char reason[80];
};

static struct tail_cache *cache;
static struct wake *wake;
static struct append *append;

/* The announcer's place is taken: nobody else is to be told here. */
void announce_end(struct announce *announce, int64_t log_id, int32_t partition,
                  int64_t end_offset) {
  (void)announce;
  wake_signal(wake, log_id, partition, end_offset);
}

static struct publish publishes[MOST];
static unsigned used, answers;
static struct db_connection *lane;

static int open_with(unsigned lanes, size_t max_bytes, unsigned max_items) {
  db_fixture_begin();
  cache = tail_cache_create(1 << 20);
  wake = wake_create();
  used = answers = 0;
  memset(publishes, 0, sizeof publishes);
  append = append_open(&(struct append_options){.database = &database,
                                                .cache = cache,

                                                .lanes = lanes,
                                                .group_max_bytes = max_bytes,
                                                .group_max_items = max_items,
                                                .min_insync_replicas = 1,
                                                .lock_timeout_ms = 1000});
  lane = db_fixture[0];
  db_fixture_connect();
  return 0;
}

static int open_one(void **state) {
  (void)state;
  return open_with(1, 1 << 20, 10);
}

static int open_wide(void **state) {
  (void)state;
  return open_with(1, 1 << 20, 24);
}

static int close_all(void **state) {
  (void)state;
  if (append) append_close(append);
  append = NULL;
  for (unsigned i = 0; i < used; i++) columns_free_list(publishes[i].item.rows);
  tail_cache_free(cache);
  wake_free(wake);
  db_fixture_end();
  return 0;
}

static void on_done(struct append_item *item, const struct append_result *result) {
  struct publish *publish = (struct publish *)item;
  publish->answers++;
  publish->order = answers++;
  publish->status = result->status;
  publish->last_offset = result->last_offset;
  publish->partition = result->partition;
  publish->current = result->current;
  publish->expected = result->expected;
  snprintf(publish->reason, sizeof publish->reason, "%s", result->reason);
}

static struct publish *prepare(int32_t partition, struct columns *rows) {
  struct publish *publish = &publishes[used++];
  publish->item = (struct append_item){.log_id = 1,
                                       .revision = 1,
                                       .partition = partition,
                                       .deadline_us = clock_monotonic_us() + 60000000,
                                       .rows = rows,
                                       .on_done = on_done};
  for (; rows; rows = rows->next) {
    publish->item.row_count++;
    publish->item.bytes += columns_memory(rows);
  }
  return publish;
}

static struct publish *submit(struct publish *publish) {
  append_submit(append, &publish->item);
  return publish;
}

/* A plain publish of one record. */
static struct publish *plain(int32_t partition) {
  return prepare(partition, row_of_size(1, 1));
}

/* One that carries sequences: it may be sent again. */
static struct publish *idempotent(int32_t partition) {
  struct publish *publish = plain(partition);
  publish->item.rows->idempotent = true;
  publish->item.may_repeat = true;
  return publish;
}

static PGresult *answer(int status, int64_t base_offset, int count) {
  PGresult *result = db_fixture_result(7);
  db_fixture_set_int4(result, 0, 0, status);
  db_fixture_set_int8(result, 0, 1, base_offset);
  db_fixture_set_int8(result, 0, 2, base_offset + count - 1);
  db_fixture_set_int4(result, 0, 3, status == 0 ? count : 0);
  db_fixture_set_int8(result, 0, 4, 0);
  db_fixture_set_int8(result, 0, 5, 33);
  db_fixture_set_int8(result, 0, 6, 44);
  return result;
}

/* Commits the group in flight: row i begins at offset 100 i. */
static void commit(void) {
  PGresult *results[MOST] = {NULL};
  const struct sent *sent = &lane->sent[0];
  unsigned count = sent->count, rows = 0;
  for (unsigned i = 0; i < count; i++) {
    if (sent->calls[i].statement != STATEMENT_APPEND) continue;
    results[i] = answer(0, 100 * rows++, (int)db_fixture_number(sent, i, 3));
  }
  db_fixture_commit(lane, results, count);
}

/* The append calls of the group in flight. */
static unsigned rows_in_flight(void) {
  unsigned rows = 0;
  if (lane->in_flight == 0) return 0;
  for (unsigned i = 0; i < lane->sent[0].count; i++) {
    rows += lane->sent[0].calls[i].statement == STATEMENT_APPEND;
  }
  return rows;
}

static void assert_told(const struct publish *publish, enum append_status status) {
  assert_int_equal(publish->answers, 1);
  assert_int_equal(publish->status, status);
}

/* ---- grouping ---- */

static void what_arrives_in_one_turn_leaves_in_one_group(void **state) {
  (void)state;
  for (int32_t i = 0; i < 5; i++) submit(plain(i));
  assert_int_equal(lane->batches, 0); /* never before submit has returned */
  turn();
  assert_int_equal(lane->batches, 1);
  assert_int_equal(rows_in_flight(), 5);
  assert_int_equal(append_pending(append), 5);
}

static void what_arrives_while_a_group_is_in_flight_leaves_with_the_next(void **state) {
  (void)state;
  submit(plain(0));
  turn();
  for (int32_t i = 0; i < 4; i++) submit(plain(i));
  turn();
  assert_int_equal(lane->batches, 1);
  commit();
  assert_int_equal(lane->batches, 2);
  assert_int_equal(rows_in_flight(), 4);
  commit();
  assert_int_equal(answers, 5);
  assert_int_equal(append_pending(append), 0);
}

static void nothing_is_told_before_the_commit(void **state) {
  (void)state;
  struct publish *publish = submit(plain(0));
  turn();
  const struct sent sent = lane->sent[0];
  for (unsigned i = 0; i < sent.count; i++) {
    PGresult *result = answer(0, 0, 1);
    sent.batch->on_result(sent.batch, i, result);
    PQclear(result);
  }
  turn();
  assert_int_equal(answers, 0);
  assert_int_equal(tail_cache_memory(cache), 0);
  db_fixture_lose(lane);
  assert_told(publish, APPEND_UNKNOWN);
  assert_int_equal(tail_cache_memory(cache), 0);
}

static void items_of_a_shared_row_get_consecutive_offsets_in_order(void **state) {
  (void)state;
  struct publish *first = submit(prepare(0, row_of_size(2, 1)));
  struct publish *second = submit(prepare(0, row_of_size(3, 1)));
  struct publish *third = submit(plain(0));
  turn();
  assert_int_equal(rows_in_flight(), 1);
  commit();
  assert_int_equal(first->last_offset, 1);
  assert_int_equal(second->last_offset, 4);
  assert_int_equal(third->last_offset, 5);
  assert_true(first->order < second->order && second->order < third->order);
}

static int open_small_groups(void **state) {
  (void)state;
  return open_with(1, 3000, 3);
}

static void a_group_is_bounded_by_its_items(void **state) {
  (void)state;
  for (int32_t i = 0; i < 7; i++) submit(plain(i));
  turn();
  static const unsigned want[] = {3, 3, 1};
  for (unsigned i = 0; i < 3; i++) {
    assert_int_equal(rows_in_flight(), want[i]);
    commit();
  }
  assert_int_equal(answers, 7);
}

static void a_group_is_bounded_by_its_bytes_and_one_item_always_goes(void **state) {
  (void)state;
  struct publish *large = submit(prepare(0, row_of_size(1, 10000)));
  submit(plain(1));
  turn();
  assert_int_equal(rows_in_flight(), 1);
  commit();
  assert_told(large, APPEND_OK);
  assert_int_equal(rows_in_flight(), 1);
}

static void smaller_items_pass_one_that_is_too_large_which_then_leads(void **state) {
  (void)state;
  submit(plain(0));
  struct publish *large = submit(prepare(1, row_of_size(1, 10000)));
  struct publish *small = submit(plain(2));
  turn();
  assert_int_equal(rows_in_flight(), 2);
  commit();
  assert_told(small, APPEND_OK);
  assert_int_equal(large->answers, 0);
  commit();
  assert_told(large, APPEND_OK);
}

static struct publish *several_rows(int32_t partition) {
  struct columns *rows = row_of_size(2, 1);
  rows->next = row_of_size(1, 1);
  return prepare(partition, rows);
}

static void an_item_of_several_rows_leaves_alone(void **state) {
  (void)state;
  submit(plain(0));
  struct publish *rows = submit(several_rows(1));
  submit(plain(2));
  turn();
  assert_int_equal(rows_in_flight(), 1);
  commit();
  assert_int_equal(rows_in_flight(), 2);
  commit();
  assert_told(rows, APPEND_OK);
  assert_int_equal(rows->last_offset, 100); /* of its last row */
  assert_int_equal(rows_in_flight(), 1);
}

static struct publish *replicated(int32_t partition) {
  struct publish *publish = plain(partition);
  publish->item.wait_for_replicas = true;
  return publish;
}

static void kinds_of_durability_have_lanes_of_their_own(void **state) {
  (void)state;
  for (int32_t i = 0; i < 6; i++) submit(i % 2 ? plain(i) : replicated(i));
  turn();
  for (unsigned waits = 0; waits < 2; waits++) {
    lane = db_fixture[waits];
    const struct sent *sent = &lane->sent[0];
    assert_int_equal(sent->calls[0].statement == STATEMENT_NOTE_STANDBYS, waits);
    assert_int_equal(rows_in_flight(), 3);
    for (unsigned i = waits; i < sent->count; i++) {
      assert_int_equal(db_fixture_number(sent, i, 6), waits);
    }
    const char *const *setup = lane->options.setup;
    while (setup[1]) setup++;
    assert_string_equal(*setup,
                        waits ? "SET synchronous_commit = on" : "SET synchronous_commit = local");
    commit();
  }
  assert_int_equal(answers, 6);
}

/* Commits the group in flight, with these statuses for its rows. */
static void commit_with(const int *statuses) {
  PGresult *results[MOST] = {NULL};
  unsigned count = lane->sent[0].count;
  for (unsigned i = 1; i < count; i++) results[i] = answer(statuses[i - 1], 0, 1);
  db_fixture_commit(lane, results, count);
}

static void wait_until_sent(void) {
  run_until(lane->in_flight);
  assert_int_equal(lane->in_flight, 1);
}

static void what_a_missing_standby_holds_back_is_sent_again_in_order(void **state) {
  (void)state;
  lane = db_fixture[1];
  for (int32_t i = 0; i < 4; i++) submit(replicated(i));
  turn();
  commit_with((const int[]){9, 4, 9, 3});
  assert_int_equal(answers, 2);
  assert_told(&publishes[1], APPEND_TOO_FEW_REPLICAS);
  assert_told(&publishes[3], APPEND_NO_PARTITION);
  assert_true(append_waits_for_standby(append));
  assert_int_equal(lane->in_flight, 0); /* not at once */
  submit(replicated(0));
  turn();
  assert_int_equal(lane->in_flight, 0); /* a newcomer does not pass either */
  submit(plain(0));
  turn();
  assert_int_equal(db_fixture[0]->in_flight, 1); /* who does not ask for the standby goes on */

  wait_until_sent();
  assert_int_equal(rows_in_flight(), 2); /* those of one partition share a row */
  commit();
  assert_false(append_waits_for_standby(append));
  assert_told(&publishes[0], APPEND_OK);
  assert_told(&publishes[2], APPEND_OK);
  assert_told(&publishes[4], APPEND_OK);
  assert_true(publishes[0].order < publishes[4].order);
}

static void a_held_back_item_of_several_rows_is_sent_again(void **state) {
  (void)state;
  lane = db_fixture[1];
  struct publish *rows = several_rows(0);
  rows->item.wait_for_replicas = true;
  submit(rows);
  turn();
  db_fixture_refuse(lane, 1, "PC002", "9", "{\"current\": null, \"expected\": null}");
  assert_int_equal(answers, 0);
  wait_until_sent();
  commit();
  assert_told(rows, APPEND_OK);
}

static void what_is_held_back_beyond_its_deadline_is_surely_not_appended(void **state) {
  (void)state;
  lane = db_fixture[1];
  struct publish *publish = replicated(0);
  submit(publish);
  turn();
  commit_with((const int[]){9});
  publish->item.deadline_us = LONG_AGO;
  run_until(publish->answers);
  assert_told(publish, APPEND_TIMED_OUT);
  assert_false(append_waits_for_standby(append));
}

static int open_lanes(void **state) {
  (void)state;
  return open_with(4, 1 << 20, 10);
}

static void a_partition_keeps_its_lane(void **state) {
  (void)state;
  for (int32_t i = 0; i < 4; i++) submit(plain(i));
  turn();
  for (unsigned i = 0; i < 4; i++) assert_int_equal(db_fixture[i]->in_flight, 1);
  for (int32_t i = 0; i < 4; i++) submit(plain(i)); /* waits for its own lane */
  turn();
  for (unsigned i = 0; i < 4; i++) assert_int_equal(db_fixture[i]->batches, 1);
}

/* ---- what follows a commit ---- */

static void on_wake(struct wake_waiter *waiter) {
  waiter->offset = -1;
}

static void what_was_appended_is_cached_and_wakes_who_waits(void **state) {
  (void)state;
  struct wake_waiter waiter = {.on_wake = on_wake, .offset = 0};
  wake_add(wake, &waiter, 1, 0);
  submit(prepare(0, row_of_size(2, 1)));
  turn();
  assert_int_equal(waiter.offset, 0);
  commit();
  assert_int_equal(waiter.offset, -1);
  assert_non_null(tail_cache_find(cache, 1, 0, 1));
  assert_null(tail_cache_find(cache, 1, 0, 2));
}

static void a_row_that_was_stored_in_part_is_not_cached(void **state) {
  (void)state;
  struct publish *publish = prepare(0, row_of_size(3, 1));
  publish->item.rows->idempotent = true;
  submit(publish);
  turn();
  PGresult *results[1] = {answer(0, 0, 2)};
  db_fixture_commit(lane, results, 1);
  assert_told(publish, APPEND_OK);
  assert_int_equal(tail_cache_memory(cache), 0);
}

static void refusals_of_the_function_reach_their_items(void **state) {
  (void)state;
  static const enum append_status want[] = {APPEND_OK,
                                            APPEND_DUPLICATE,
                                            APPEND_STALE,
                                            APPEND_NO_PARTITION,
                                            APPEND_TOO_FEW_REPLICAS,
                                            APPEND_STALE_EPOCH,
                                            APPEND_SEQUENCE_GAP,
                                            APPEND_WRONG_FIRST_SEQUENCE,
                                            APPEND_ORIGINAL_UNKNOWN,
                                            APPEND_NO_TRANSACTION,
                                            APPEND_FENCED,
                                            APPEND_NOT_OPEN,
                                            APPEND_OVERDUE,
                                            APPEND_CONFLICTING,
                                            APPEND_OVER_CAPACITY,
                                            APPEND_RESERVED,
                                            APPEND_OTHER_PARTITION,
                                            APPEND_VERSION_CONFLICT,
                                            APPEND_FAILED};
  enum { CASES = sizeof want / sizeof *want };
  PGresult *results[CASES] = {NULL};
  for (int i = 0; i < CASES; i++) {
    submit(plain(i));
    /* 9 never reaches an item, and the last is no status. */
    results[i] = answer(i < 9 ? i : i < CASES - 1 ? i + 1 : 99, 100, 1);
  }
  turn();
  db_fixture_commit(lane, results, CASES);
  for (unsigned i = 0; i < CASES; i++) {
    assert_told(&publishes[i], want[i]);
    assert_int_equal(publishes[i].current, 33);
    assert_int_equal(publishes[i].expected, 44);
  }
  assert_int_equal(publishes[1].last_offset, 100);
}

static const struct append_transaction transaction = {
    .transactional_id = {(const uint8_t *)"tx", 2},
    .requested_partition = -1,
    .client_sequence = 1};

static struct publish *transactional(int32_t partition) {
  struct publish *publish = plain(partition);
  publish->item.transaction = &transaction;
  publish->item.may_repeat = true;
  return publish;
}

static void a_transaction_whose_end_takes_long_holds_up_nobody_else(void **state) {
  (void)state;
  struct publish *other = submit(plain(0));
  struct publish *held = submit(transactional(1));
  turn();
  db_fixture_refuse(lane, 0, "55P03", "lock timeout", ""); /* the locks */
  assert_int_equal(other->answers + held->answers, 0);
  commit(); /* of the other alone */
  assert_told(other, APPEND_OK);
  assert_int_equal(held->answers, 0);
  db_fixture_refuse(lane, 0, "55P03", "lock timeout", "");
  assert_told(held, APPEND_UNAVAILABLE);
}

static void records_of_transactions_are_not_cached_and_wake_who_waits(void **state) {
  (void)state;
  struct wake_waiter waiter = {.on_wake = on_wake, .offset = 0};
  wake_add(wake, &waiter, 1, 0);
  struct publish *publish = submit(transactional(0));
  turn();
  PGresult *result = answer(0, 0, 1);
  db_fixture_commit(lane, &result, 1);
  assert_told(publish, APPEND_OK);
  assert_int_equal(publish->partition, 0);
  assert_int_equal(waiter.offset, -1);
  assert_int_equal(tail_cache_memory(cache), 0);
}

static void a_repeated_record_tells_the_partition_where_it_is(void **state) {
  (void)state;
  struct publish *publish = submit(transactional(0));
  turn();
  PGresult *result = answer(1, 0, 1);
  db_fixture_commit(lane, &result, 1);
  assert_told(publish, APPEND_DUPLICATE);
  assert_int_equal(publish->partition, 33);
}

static void a_call_without_an_answer_is_no_success(void **state) {
  (void)state;
  struct publish *publish = submit(plain(0));
  turn();
  PGresult *results[1] = {NULL};
  db_fixture_commit(lane, results, 1);
  assert_told(publish, APPEND_FAILED);
}

/* ---- refused groups ---- */

static void the_neighbours_of_a_refused_item_go_again(void **state) {
  (void)state;
  for (int32_t i = 0; i < 5; i++) submit(idempotent(i));
  turn();
  db_fixture_refuse(lane, 2, "22003", "out of range", "");
  assert_told(&publishes[2], APPEND_FAILED);
  assert_string_equal(publishes[2].reason, "out of range");
  assert_int_equal(answers, 1);
  assert_int_equal(rows_in_flight(), 4);
  commit();
  for (unsigned i = 0; i < 5; i++) {
    if (i != 2) assert_told(&publishes[i], APPEND_OK);
  }
}

static void items_of_a_refused_shared_row_are_tried_one_by_one(void **state) {
  (void)state;
  submit(plain(0));
  for (unsigned i = 0; i < 3; i++) submit(plain(1));
  submit(plain(2));
  turn();
  assert_int_equal(rows_in_flight(), 3);
  db_fixture_refuse(lane, 1, "22021", "bad bytes", ""); /* the second row */
  assert_int_equal(answers, 0);
  unsigned groups = 0;
  for (; lane->in_flight; groups++) {
    unsigned last = lane->sent[0].count - 1;
    bool is_culprit = publishes[1].answers == 1 && publishes[2].answers == 0;
    if (is_culprit) {
      assert_int_equal(db_fixture_number(&lane->sent[0], last, 2), 1);
      db_fixture_refuse(lane, last, "22021", "bad bytes", "");
      continue;
    }
    commit();
  }
  for (unsigned i = 0; i < 5; i++) {
    assert_told(&publishes[i], i == 2 ? APPEND_FAILED : APPEND_OK);
  }
  assert_int_equal(groups, 5); /* {0}, three alone, {2} */
  assert_true(publishes[1].order < publishes[2].order && publishes[2].order < publishes[3].order);
}

static void an_error_at_the_commit_is_nobodys_and_all_are_tried_alone(void **state) {
  (void)state;
  for (int32_t i = 0; i < 3; i++) submit(idempotent(i));
  turn();
  db_fixture_refuse(lane, 3, "40001", "conflict", "");
  for (unsigned i = 0; i < 3; i++) {
    assert_int_equal(rows_in_flight(), 1);
    commit();
  }
  for (unsigned i = 0; i < 3; i++) assert_told(&publishes[i], APPEND_OK);
}

static void a_transient_error_of_one_item_is_worth_another_try_of_its_sender(void **state) {
  (void)state;
  static const char *const states[] = {"55P03", "57014"};
  for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
    struct publish *publish = submit(idempotent(0));
    turn();
    db_fixture_refuse(lane, lane->sent[0].count - 1, states[i], "m", "");
    assert_told(publish, APPEND_UNAVAILABLE);
  }
}

static void a_conflict_of_one_item_is_repeated_alone_but_not_for_ever(void **state) {
  (void)state;
  struct publish *before = submit(plain(0)), *publish = submit(plain(1)), *after = submit(plain(2));
  turn();
  db_fixture_refuse(lane, 1, "40001", "m", "");
  commit(); /* those before it */
  assert_told(before, APPEND_OK);
  for (unsigned i = 0; i < 8; i++) {
    assert_int_equal(rows_in_flight(), 1);
    db_fixture_refuse(lane, 0, i % 2 ? "40001" : "40P01", "m", "");
    assert_int_equal(publish->answers, 0);
  }
  db_fixture_refuse(lane, 0, "40001", "m", "");
  assert_told(publish, APPEND_UNAVAILABLE);
  commit();
  assert_told(after, APPEND_OK);
}

static void an_error_of_the_server_is_everybodys(void **state) {
  (void)state;
  static const char *const states[] = {"53100", "53200", "58030"};
  for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
    unsigned first = used;
    for (int32_t j = 0; j < 3; j++) submit(idempotent(j));
    turn();
    db_fixture_refuse(lane, 0, states[i], "disk full", "");
    for (unsigned j = first; j < used; j++) assert_told(&publishes[j], APPEND_UNAVAILABLE);
    assert_int_equal(append_pending(append), 0);
  }
}

static void the_end_of_a_session_is_nobodys_and_all_go_again(void **state) {
  (void)state;
  static const char *const states[] = {"57P01", "57P03", "25006"};
  for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
    struct publish *publish = submit(plain(0));
    turn();
    db_fixture_refuse(lane, 1, states[i], "terminating connection", "");
    assert_int_equal(publish->answers, 0);
    assert_int_equal(append_pending(append), 1);
    commit();
    assert_told(publish, APPEND_OK);
  }
}

static void a_refusal_in_strict_mode_carries_its_numbers(void **state) {
  (void)state;
  struct publish *rows = submit(several_rows(0));
  turn();
  db_fixture_refuse(lane, 1, "PC002", "6", "{\"current\": 12, \"expected\": 7}");
  assert_told(rows, APPEND_SEQUENCE_GAP);
  assert_int_equal(rows->current, 12);
  assert_int_equal(rows->expected, 7);

  struct publish *stale = submit(several_rows(0));
  turn();
  db_fixture_refuse(lane, 0, "PC002", "2", "{\"current\": null, \"expected\": null}");
  assert_told(stale, APPEND_STALE);
}

/* ---- unknown outcomes ---- */

static void after_a_loss_only_what_may_repeat_is_sent_again(void **state) {
  (void)state;
  struct publish *repeats = submit(idempotent(0));
  struct publish *other = submit(plain(1));
  turn();
  db_fixture_lose(lane);
  assert_told(other, APPEND_UNKNOWN);
  assert_int_equal(repeats->answers, 0);
  assert_int_equal(append_pending(append), 1);
  db_fixture_make_ready(lane);
  assert_int_equal(rows_in_flight(), 1);
  PGresult *results[1] = {answer(1, 7, 1)}; /* it had been appended */
  db_fixture_commit(lane, results, 1);
  assert_told(repeats, APPEND_DUPLICATE);
  assert_int_equal(repeats->last_offset, 7);
}

static void a_cancelled_wait_for_a_standby_is_no_success(void **state) {
  (void)state;
  struct publish *publish = submit(plain(0));
  turn();
  db_fixture_leave_unknown(lane);
  assert_told(publish, APPEND_UNKNOWN);
}

static void what_may_have_been_appended_is_never_called_surely_not(void **state) {
  (void)state;
  struct publish *down = submit(idempotent(0));
  turn();
  db_fixture_lose(lane);
  db_fixture_make_down(lane);
  assert_told(down, APPEND_UNKNOWN);

  db_fixture_make_ready(lane);
  struct publish *refused = submit(idempotent(0));
  turn();
  db_fixture_lose(lane);
  db_fixture_make_ready(lane);
  db_fixture_refuse(lane, 0, "53100", "disk full", "");
  assert_told(refused, APPEND_UNKNOWN);

  struct publish *late = submit(idempotent(0));
  turn();
  db_fixture_lose(lane);
  late->item.deadline_us = LONG_AGO;
  run_until(late->answers);
  assert_told(late, APPEND_UNKNOWN);
}

/* ---- waiting ---- */

static void a_deadline_that_passes_in_the_queue_is_surely_not_appended(void **state) {
  (void)state;
  submit(plain(0));
  turn();
  struct publish *late = plain(1), *patient = plain(2);
  late->item.deadline_us = LONG_AGO;
  submit(late);
  submit(patient);
  turn();
  run_until(late->answers);
  assert_told(late, APPEND_TIMED_OUT);
  assert_int_equal(patient->answers, 0);
  commit();
  assert_int_equal(rows_in_flight(), 1);
  commit();
  assert_told(patient, APPEND_OK);
}

static void a_lane_that_is_connecting_keeps_its_queue_and_one_that_is_down_does_not(void **state) {
  (void)state;
  db_fixture_lose(lane);
  struct publish *publish = submit(plain(0));
  turn();
  assert_int_equal(publish->answers, 0);
  db_fixture_make_down(lane);
  assert_told(publish, APPEND_UNAVAILABLE);
  struct publish *next = submit(plain(0));
  turn();
  assert_told(next, APPEND_UNAVAILABLE);
  db_fixture_make_ready(lane);
  struct publish *again = submit(plain(0));
  turn();
  commit();
  assert_told(again, APPEND_OK);
}

/* ---- callbacks that act ---- */

static void submit_again(struct append_item *item, const struct append_result *result) {
  struct publish *publish = (struct publish *)item;
  on_done(item, result);
  if (publish->answers == 1) append_submit(append, item);
}

static void an_item_may_be_submitted_again_from_its_answer(void **state) {
  (void)state;
  struct publish *publish = plain(0);
  publish->item.on_done = submit_again;
  submit(publish);
  turn();
  PGresult *results[1] = {answer(2, 0, 0)};
  db_fixture_commit(lane, results, 1);
  assert_int_equal(publish->status, APPEND_STALE);
  turn();
  commit();
  assert_int_equal(publish->answers, 2);
  assert_int_equal(publish->status, APPEND_OK);
  assert_int_equal(append_pending(append), 0);

  db_fixture_make_down(lane);
  publish = plain(0);
  publish->item.on_done = submit_again;
  submit(publish);
  turn();
  turn();
  assert_int_equal(publish->answers, 2);
}

static void closing_tells_everybody(void **state) {
  (void)state;
  struct publish *in_flight = submit(idempotent(0));
  turn();
  struct publish *queued = submit(plain(1));
  append_close(append);
  append = NULL;
  assert_told(in_flight, APPEND_UNKNOWN);
  assert_told(queued, APPEND_UNAVAILABLE);
}

#define ONE(test) cmocka_unit_test_setup_teardown(test, open_one, close_all)

int main(void) {
  log_set_level(LOG_ERROR);
  const struct CMUnitTest tests[] = {
      ONE(what_arrives_in_one_turn_leaves_in_one_group),
      ONE(what_arrives_while_a_group_is_in_flight_leaves_with_the_next),
      ONE(nothing_is_told_before_the_commit),
      ONE(items_of_a_shared_row_get_consecutive_offsets_in_order),
      cmocka_unit_test_setup_teardown(a_group_is_bounded_by_its_items, open_small_groups,
                                      close_all),
      cmocka_unit_test_setup_teardown(a_group_is_bounded_by_its_bytes_and_one_item_always_goes,
                                      open_small_groups, close_all),
      cmocka_unit_test_setup_teardown(smaller_items_pass_one_that_is_too_large_which_then_leads,
                                      open_small_groups, close_all),
      ONE(an_item_of_several_rows_leaves_alone),
      ONE(kinds_of_durability_have_lanes_of_their_own),
      ONE(what_a_missing_standby_holds_back_is_sent_again_in_order),
      ONE(a_held_back_item_of_several_rows_is_sent_again),
      ONE(what_is_held_back_beyond_its_deadline_is_surely_not_appended),
      cmocka_unit_test_setup_teardown(a_partition_keeps_its_lane, open_lanes, close_all),
      ONE(what_was_appended_is_cached_and_wakes_who_waits),
      ONE(a_row_that_was_stored_in_part_is_not_cached),
      cmocka_unit_test_setup_teardown(refusals_of_the_function_reach_their_items, open_wide,
                                      close_all),
      ONE(a_transaction_whose_end_takes_long_holds_up_nobody_else),
      ONE(records_of_transactions_are_not_cached_and_wake_who_waits),
      ONE(a_repeated_record_tells_the_partition_where_it_is),
      ONE(a_call_without_an_answer_is_no_success),
      ONE(the_neighbours_of_a_refused_item_go_again),
      ONE(items_of_a_refused_shared_row_are_tried_one_by_one),
      ONE(an_error_at_the_commit_is_nobodys_and_all_are_tried_alone),
      ONE(a_transient_error_of_one_item_is_worth_another_try_of_its_sender),
      ONE(a_conflict_of_one_item_is_repeated_alone_but_not_for_ever),
      ONE(an_error_of_the_server_is_everybodys),
      ONE(the_end_of_a_session_is_nobodys_and_all_go_again),
      ONE(a_refusal_in_strict_mode_carries_its_numbers),
      ONE(after_a_loss_only_what_may_repeat_is_sent_again),
      ONE(a_cancelled_wait_for_a_standby_is_no_success),
      ONE(what_may_have_been_appended_is_never_called_surely_not),
      ONE(a_deadline_that_passes_in_the_queue_is_surely_not_appended),
      ONE(a_lane_that_is_connecting_keeps_its_queue_and_one_that_is_down_does_not),
      ONE(an_item_may_be_submitted_again_from_its_answer),
      ONE(closing_tells_everybody),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
