/* Readers and their queries. Owns the read sessions; must never hold a reader for data that may
 * come later: waiting is the caller's business (wake.h). */
#include "log/read.h"

#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "base/turn.h"
#include "db/array.h"
#include "db/connection.h"
#include "db/database.h"
#include "db/health.h"
#include "log/fetch.h"
#include "log/tail_cache.h"
#include "log/wake.h"

#define QUERIES_PER_SESSION 4u    /* in flight; more wait and are shared meanwhile */
#define QUERY_MAX_BYTES (8 << 20) /* a longer read is made of several queries */
#define TICK_SECONDS 0.1

struct query_key {
  int64_t log_id;
  int64_t partition;
  int64_t offset;
  int64_t committed; /* as wide as the rest, so that the key has no padding */
};

/* One fetch, on its way or waiting for a session. */
struct query {
  struct db_batch batch; /* first: callbacks get it */
  struct read_pool *pool;
  struct query_key key;
  int64_t max_records, max_bytes;
  struct read_request *readers;
  struct query *next; /* waiting to be sent */
  union db_scalar scalars[FETCH_PARAMETERS];
  struct db_parameter parameters[FETCH_PARAMETERS];
  struct db_call call;
  struct fetch_answer answer;
  UT_hash_handle hh;
};

struct read_session {
  struct read_pool *pool;
  struct db_connection *connection;
  bool was_ready;
};

/* The slow look at every waited-for partition: one query for all of them. */
struct poll {
  struct db_batch batch; /* first */
  struct read_pool *pool;
  struct db_array logs, partitions;
  uint32_t count;
  struct db_parameter parameters[2];
  struct db_call call;
  bool in_flight;
};

struct read_pool {
  struct read_options options;
  struct read_session *sessions;
  struct read_request *arrived;
  struct read_request **arrived_tail;
  struct query *unsent;                  /* hash by key of queries not yet sent */
  struct query *waiting, **waiting_tail; /* the same queries, in order */
  struct turn turn;                      /* reads of one turn share queries */
  ev_timer tick;
  ev_timer poll_timer;
  bool closing;
  struct poll poll;
  const char *setup[5];
  struct metric_series *queries_total;
  struct metric_series *cache_hits_total;
};

/* ------------------------------------------------------------------ readers */

static bool wants_more(const struct read_request *request) {
  return request->records < request->max_records && request->bytes < request->max_bytes;
}

/* Takes a batch when it continues what the reader has. False when it does not, when no more is
 * wanted, and when it is not decided whether a reader of committed records may see it. */
static bool take_batch(struct read_request *request, struct log_batch *batch) {
  if (!wants_more(request) || batch->last_offset < request->next_offset) return false;
  if (request->committed && log_batch_is_undecided(batch)) return false;
  if (request->batch_count == request->batch_capacity) {
    request->batch_capacity = request->batch_capacity ? request->batch_capacity * 2 : 8;
    request->batches =
        memory_resize(request->batches, request->batch_capacity * sizeof *request->batches);
  }
  request->batches[request->batch_count++] = log_batch_retain(batch);
  /* Where compaction left holes, fewer records are skipped than offsets: at worst one batch more is
   * taken. */
  int64_t skipped = request->next_offset - batch->base_offset;
  int64_t records = (int64_t)batch->record_count - (skipped > 0 ? skipped : 0);
  request->records += records > 0 ? records : 0;
  request->bytes += (int64_t)batch->memory;
  request->next_offset = batch->last_offset + 1;
  return true;
}

static void finish_reader(struct read_request *request, struct read_result *result) {
  result->batches = request->batches;
  result->batch_count = request->batch_count;
  struct log_batch **batches = request->batches;
  unsigned count = request->batch_count;
  request->batches = NULL;
  request->on_done(request, result);
  for (unsigned i = 0; i < count; i++) log_batch_release(batches[i]);
  free(batches);
}

static void fail_reader(struct read_request *request, enum read_status status, const char *reason) {
  for (unsigned i = 0; i < request->batch_count; i++) log_batch_release(request->batches[i]);
  request->batch_count = 0;
  finish_reader(request, &(struct read_result){.status = status, .reason = reason});
}

/* ------------------------------------------------------------------ queries */

static struct query *find_or_add_query(struct read_pool *pool, const struct read_request *request) {
  struct query_key key = {.log_id = request->log_id,
                          .partition = request->partition,
                          .offset = request->next_offset,
                          .committed = request->committed};
  struct query *query;
  HASH_FIND(hh, pool->unsent, &key, sizeof key, query);
  if (query) return query;
  query = memory_allocate_zeroed(1, sizeof *query);
  query->pool = pool;
  query->key = key;
  HASH_ADD(hh, pool->unsent, key, sizeof query->key, query);
  *pool->waiting_tail = query;
  pool->waiting_tail = &query->next;
  return query;
}

static void join_query(struct read_pool *pool, struct read_request *request) {
  struct query *query = find_or_add_query(pool, request);
  int64_t records = request->max_records - request->records;
  int64_t bytes = request->max_bytes - request->bytes;
  if (bytes > QUERY_MAX_BYTES) bytes = QUERY_MAX_BYTES;
  if (records > query->max_records) query->max_records = records;
  if (bytes > query->max_bytes) query->max_bytes = bytes;
  request->next = query->readers;
  query->readers = request;
}

/* What is undecided never comes from the cache: a reader of committed records is served below the
 * stable offset as far as it is known. That offset never falls, and it lies beyond every batch that
 * begins below or at it and whose own transaction, if any, is decided. */
static void look_in_cache(struct read_pool *pool, struct read_request *request) {
  struct tail_cache *cache = pool->options.cache;
  int64_t known = request->committed ? tail_cache_stable(cache, request->log_id, request->partition)
                                     : INT64_MAX;
  int64_t stable = known;
  while (wants_more(request) && request->next_offset <= stable) {
    struct log_batch *batch =
        tail_cache_find(cache, request->log_id, request->partition, request->next_offset);
    if (batch == NULL) break;
    if (!take_batch(request, batch)) break;
    if (request->next_offset > stable) stable = request->next_offset;
  }
  if (stable > known) {
    tail_cache_raise_stable(cache, request->log_id, request->partition, stable);
  }
}

static bool has_everything(const struct read_request *request) {
  return !wants_more(request) || (request->known_end && request->next_offset >= request->known_end);
}

/* Serves a reader from the cache when it has everything; else joins it to a query for the rest. */
static void serve(struct read_pool *pool, struct read_request *request) {
  if (!request->needs_bounds) look_in_cache(pool, request);
  if (!request->needs_bounds && has_everything(request)) {
    metric_add(pool->cache_hits_total, 1);
    finish_reader(request, &(struct read_result){.status = READ_OK, .reason = ""});
    return;
  }
  join_query(pool, request);
}

static void free_query(struct query *query) {
  fetch_answer_release(&query->answer);
  free(query);
}

static void fail_readers(struct read_request *request, enum read_status status,
                         const char *reason) {
  while (request) {
    struct read_request *next = request->next;
    fail_reader(request, status, reason);
    request = next;
  }
}

static void fail_query(struct query *query, enum read_status status, const char *reason) {
  fail_readers(query->readers, status, reason);
  free_query(query);
}

/* Removes the oldest query that waits. */
static struct query *take_waiting(struct read_pool *pool) {
  struct query *query = pool->waiting;
  pool->waiting = query->next;
  if (pool->waiting == NULL) pool->waiting_tail = &pool->waiting;
  HASH_DEL(pool->unsent, query);
  return query;
}

/* ------------------------------------------------------------------ answers */

static void on_query_result(struct db_batch *batch, unsigned call, const PGresult *result) {
  struct query *query = (struct query *)batch;
  (void)call;
  fetch_read_result(result, query->key.log_id, (int32_t)query->key.partition, &query->answer);
}

static void answer_reader(struct read_pool *pool, struct read_request *request,
                          const struct fetch_answer *answer) {
  unsigned before = request->batch_count;
  for (unsigned i = 0; i < answer->batch_count; i++) take_batch(request, answer->batches[i]);
  bool progressed = request->batch_count > before;
  int64_t limit = request->committed ? answer->stable_offset : answer->end_offset;
  if (progressed && wants_more(request) && request->next_offset < limit) {
    serve(pool, request);
    return;
  }
  finish_reader(request, &(struct read_result){.status = READ_OK,
                                               .bounds_known = true,
                                               .earliest_offset = answer->earliest_offset,
                                               .end_offset = answer->end_offset,
                                               .stable_offset = answer->stable_offset,
                                               .reason = ""});
}

static void query_committed(struct query *query) {
  struct read_pool *pool = query->pool;
  if (query->answer.malformed) {
    fail_query(query, READ_FAILED, "the stored records cannot be read");
    return;
  }
  if (!query->answer.log_is_current) {
    tail_cache_drop_log(pool->options.cache, query->key.log_id);
    fail_query(query, READ_STALE, "the topic was deleted or truncated");
    return;
  }
  tail_cache_trim(pool->options.cache, query->key.log_id, (int32_t)query->key.partition,
                  query->answer.earliest_offset);
  for (unsigned i = 0; i < query->answer.batch_count; i++) {
    tail_cache_insert(pool->options.cache, query->answer.batches[i]);
  }
  tail_cache_raise_stable(pool->options.cache, query->key.log_id, (int32_t)query->key.partition,
                          query->answer.stable_offset);
  struct read_request *request = query->readers;
  query->readers = NULL;
  while (request) {
    struct read_request *next = request->next;
    answer_reader(pool, request, &query->answer);
    request = next;
  }
  free_query(query);
}

/* The session ended before the answer. Asking again changes nothing, so the readers do, in a new
 * query. */
static void repeat_query(struct query *query) {
  struct read_request *request = query->readers;
  query->readers = NULL;
  while (request) {
    struct read_request *next = request->next;
    join_query(query->pool, request);
    request = next;
  }
  free_query(query);
}

static void pump(struct read_pool *pool);

static void on_query_done(struct db_batch *batch, enum db_outcome outcome,
                          const struct db_failure *failure) {
  struct query *query = (struct query *)batch;
  struct read_pool *pool = query->pool;
  if (outcome == DB_COMMITTED) {
    query_committed(query);
  } else if (!pool->closing &&
             (outcome == DB_UNKNOWN || strncmp(failure->sqlstate, "57P", 3) == 0)) {
    repeat_query(query);
  } else if (outcome == DB_REFUSED && strncmp(failure->sqlstate, "57", 2) != 0 &&
             strncmp(failure->sqlstate, "53", 2) != 0 && strncmp(failure->sqlstate, "08", 2) != 0) {
    fail_query(query, READ_FAILED, failure->message);
  } else {
    fail_query(query, READ_UNAVAILABLE, failure->message);
  }
  if (!pool->closing) pump(pool);
}

/* ------------------------------------------------------------------ sending */

static struct read_session *choose_session(struct read_pool *pool) {
  struct read_session *best = NULL;
  for (unsigned i = 0; i < pool->options.connections; i++) {
    struct read_session *session = &pool->sessions[i];
    if (!db_connection_can_send(session->connection)) continue;
    if (db_connection_in_flight(session->connection) >= QUERIES_PER_SESSION) continue;
    if (best == NULL ||
        db_connection_in_flight(session->connection) < db_connection_in_flight(best->connection)) {
      best = session;
    }
  }
  return best;
}

static bool everything_is_down(const struct read_pool *pool) {
  for (unsigned i = 0; i < pool->options.connections; i++) {
    if (db_connection_state(pool->sessions[i].connection) != DB_DOWN) return false;
  }
  return true;
}

static void send_query(struct read_session *session, struct query *query) {
  struct db_parameter *p = query->parameters;
  union db_scalar *s = query->scalars;
  p[0] = db_int8(&s[0], query->key.log_id);
  p[1] = db_int4(&s[1], (int32_t)query->key.partition);
  p[2] = db_int8(&s[2], query->key.offset);
  p[3] = db_int8(&s[3], query->max_records);
  p[4] = db_int8(&s[4], query->max_bytes);
  p[5] = db_int8(&s[5], tail_cache_stable(session->pool->options.cache, query->key.log_id,
                                          (int32_t)query->key.partition));
  p[6] = db_bool(&s[6], query->key.committed != 0);
  query->call = (struct db_call){.statement = STATEMENT_FETCH, .parameters = query->parameters};
  query->batch.on_result = on_query_result;
  query->batch.results_on_worker = true;
  query->batch.on_done = on_query_done;
  metric_add(session->pool->queries_total, 1);
  db_connection_send(session->connection, &query->batch, &query->call, 1);
}

static void pump(struct read_pool *pool) {
  if (pool->waiting == NULL) return;
  if (everything_is_down(pool)) {
    while (pool->waiting) {
      fail_query(take_waiting(pool), READ_UNAVAILABLE, "PostgreSQL is not available");
    }
    return;
  }
  struct read_session *session;
  while (pool->waiting && (session = choose_session(pool)) != NULL) {
    send_query(session, take_waiting(pool));
  }
  if (pool->waiting && !ev_is_active(&pool->tick))
    ev_timer_again(pool->options.database->loop, &pool->tick);
}

static void on_turn_end(void *owner) {
  struct read_pool *pool = owner;
  struct read_request *request = pool->arrived;
  pool->arrived = NULL;
  pool->arrived_tail = &pool->arrived;
  while (request) {
    struct read_request *next = request->next;
    serve(pool, request);
    request = next;
  }
  pump(pool);
}

void read_submit(struct read_pool *pool, struct read_request *request) {
  request->batches = NULL;
  request->batch_count = request->batch_capacity = 0;
  request->next_offset = request->offset;
  request->records = request->bytes = 0;
  request->next = NULL;
  *pool->arrived_tail = request;
  pool->arrived_tail = &request->next;
  turn_request(&pool->turn);
}

/* ------------------------------------------------------------------ deadlines */

static void expire_readers(struct query *query, int64_t now) {
  struct read_request **place = &query->readers;
  while (*place) {
    struct read_request *request = *place;
    if (request->deadline_us > now) {
      place = &request->next;
      continue;
    }
    *place = request->next;
    fail_reader(request, READ_TIMED_OUT, "the request's time ran out");
  }
}

static void on_tick(struct ev_loop *loop, ev_timer *timer, int events) {
  struct read_pool *pool = timer->data;
  (void)events;
  int64_t now = clock_monotonic_us();
  for (struct query *query = pool->waiting; query; query = query->next) expire_readers(query, now);
  pump(pool);
  if (pool->waiting == NULL) ev_timer_stop(loop, timer);
}

/* ------------------------------------------------------------------ the slow look */

static void add_partition(void *context, int64_t log_id, int32_t partition) {
  struct poll *poll = context;
  db_array_add_int8(&poll->logs, log_id);
  db_array_add_int4(&poll->partitions, partition);
}

static void on_poll_result(struct db_batch *batch, unsigned call, const PGresult *result) {
  struct poll *poll = (struct poll *)batch;
  (void)call;
  struct wake *wake = poll->pool->options.wake;
  for (int row = 0; row < PQntuples(result); row++) {
    if (PQgetisnull(result, row, 2)) {
      wake_signal_log(wake, db_get_int8(result, row, 0));
    } else {
      wake_signal(wake, db_get_int8(result, row, 0), db_get_int4(result, row, 1),
                  db_get_int8(result, row, 2));
    }
  }
}

static void on_poll_done(struct db_batch *batch, enum db_outcome outcome,
                         const struct db_failure *failure) {
  struct poll *poll = (struct poll *)batch;
  (void)outcome;
  (void)failure;
  poll->in_flight = false;
}

static void on_poll(struct ev_loop *loop, ev_timer *timer, int events) {
  struct read_pool *pool = timer->data;
  struct poll *poll = &pool->poll;
  (void)loop;
  (void)events;
  size_t count = wake_partition_count(pool->options.wake);
  struct read_session *session = choose_session(pool);
  if (count == 0 || poll->in_flight || session == NULL) return;
  db_array_begin(&poll->logs, DB_INT8);
  db_array_begin(&poll->partitions, DB_INT4);
  wake_each_partition(pool->options.wake, add_partition, poll);
  poll->parameters[0] = db_array_parameter(&poll->logs);
  poll->parameters[1] = db_array_parameter(&poll->partitions);
  poll->call = (struct db_call){.statement = STATEMENT_ENDS, .parameters = poll->parameters};
  poll->in_flight = true;
  db_connection_send(session->connection, &poll->batch, &poll->call, 1);
}

/* ------------------------------------------------------------------ life */

static void on_state(struct db_connection *connection, void *owner, bool ready,
                     const char *reason) {
  struct read_session *session = owner;
  (void)connection;
  db_health_report(session->pool->options.database->health, session->was_ready, ready, reason);
  session->was_ready = ready;
  if (!session->pool->closing) pump(session->pool);
}

static void open_session(struct read_pool *pool, struct read_session *session) {
  const struct read_options *options = &pool->options;
  session->pool = pool;
  db_health_add_session(options->database->health);
  const struct db_connection_options connection_options = {
      .database = options->database,
      .setup = pool->setup,
      .statements = read_statements,
      .statement_count = READ_STATEMENT_COUNT,
      .answer_limit_ms = database_answer_limit_ms(options->database),
      .on_state = on_state,
      .owner = session,
  };
  session->connection = db_connection_open(&connection_options);
}

static void start_watchers(struct read_pool *pool) {
  double interval = (double)pool->options.poll_interval_ms / 1000.0;
  turn_init(&pool->turn, pool->options.database->loop, on_turn_end, pool);
  ev_timer_init(&pool->tick, on_tick, 0., TICK_SECONDS);
  ev_timer_init(&pool->poll_timer, on_poll, interval, interval);
  pool->tick.data = pool->poll_timer.data = pool;
  ev_timer_start(pool->options.database->loop, &pool->poll_timer);
}

struct read_pool *read_pool_open(const struct read_options *options) {
  struct read_pool *pool = memory_allocate_zeroed(1, sizeof *pool);
  pool->options = *options;
  pool->arrived_tail = &pool->arrived;
  pool->waiting_tail = &pool->waiting;
  pool->poll.pool = pool;
  pool->poll.batch.on_result = on_poll_result;
  pool->poll.batch.on_done = on_poll_done;
  pool->setup[0] = options->database->set_statement_timeout;
  pool->setup[1] = "SET default_transaction_isolation = 'read committed'";
  pool->setup[2] = "SET default_transaction_read_only = on";
  pool->setup[3] = DB_SETUP_PLANNER;
  pool->queries_total = metric_with(metric_counter("pgcursus_read_queries_total",
                                                   "Fetch queries sent to PostgreSQL.", NULL, NULL),
                                    NULL, NULL);
  pool->cache_hits_total =
      metric_with(metric_counter("pgcursus_read_cache_hits_total",
                                 "Reads served wholly from the tail cache.", NULL, NULL),
                  NULL, NULL);
  start_watchers(pool);
  pool->sessions = memory_allocate_zeroed(options->connections, sizeof *pool->sessions);
  for (unsigned i = 0; i < options->connections; i++) open_session(pool, &pool->sessions[i]);
  return pool;
}

void read_pool_close(struct read_pool *pool) {
  pool->closing = true;
  turn_stop(&pool->turn);
  ev_timer_stop(pool->options.database->loop, &pool->tick);
  ev_timer_stop(pool->options.database->loop, &pool->poll_timer);
  fail_readers(pool->arrived, READ_UNAVAILABLE, "the node is stopping");
  while (pool->waiting) fail_query(take_waiting(pool), READ_UNAVAILABLE, "the node is stopping");
  for (unsigned i = 0; i < pool->options.connections; i++) {
    db_connection_close(pool->sessions[i].connection);
  }
  db_array_release(&pool->poll.logs);
  db_array_release(&pool->poll.partitions);
  free(pool->sessions);
  free(pool);
}
