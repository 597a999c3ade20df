/* The lanes: queues of publishes, each with a PostgreSQL session of its own. Decides what leaves
 * together and what is said to whom afterwards; append_group.c does the encoding. Must never report
 * success before a commit. */
#include "log/append.h"

#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "base/turn.h"
#include "db/connection.h"
#include "db/database.h"
#include "db/health.h"
#include "log/announce.h"
#include "log/append_group.h"
#include "log/tail_cache.h"

#define GROUP_MAX_PARTITIONS 256u /* keeps the shared lock table far from full */
#define SWEEP_INTERVAL 0.1        /* seconds between looks at deadlines, while anything queues */
#define HOLD_BACK_US 200000       /* between looks for a synchronous standby that is missing */
#define MAX_CONFLICTS 10u         /* of one item with other transactions, one after the other */

struct item_queue {
  struct append_item *head;
  struct append_item **tail;
};

struct lane {
  struct db_batch batch; /* first: callbacks get it */
  struct append *append;
  struct db_connection *connection;
  bool was_ready;
  bool in_flight;
  bool waits_for_replicas; /* acks=all; the others are durable on the primary only */
  bool is_held_back;       /* its last group found a synchronous standby missing */
  int64_t held_back_until_us;
  struct item_queue queue;
  struct append_group group;
};

struct append {
  struct append_options options;
  struct lane *lanes; /* the plain ones, then as many that wait for replicas */
  unsigned lane_count;
  unsigned pending;
  uint64_t arrivals;
  struct turn turn; /* groups what arrived in this turn of the loop */
  ev_timer sweep_timer;
  bool closing;
  char setup_lock_timeout[64];
  const char *setup[2][6]; /* by waits_for_replicas */
  struct metric_series *group_records;
  struct metric_series *group_items;
  struct metric_series *records_total;
  struct metric_series *retries_total;
};

static void pump(struct lane *lane);

/* ------------------------------------------------------------------ queues and answers */

static void queue_push(struct item_queue *queue, struct append_item *item) {
  item->next = NULL;
  *queue->tail = item;
  queue->tail = &item->next;
}

/* Puts a chain back in front, in its order. */
static void queue_push_front(struct item_queue *queue, struct append_item **items, unsigned count) {
  for (unsigned i = count; i-- > 0;) {
    items[i]->next = queue->head;
    if (queue->head == NULL) queue->tail = &items[i]->next;
    queue->head = items[i];
  }
}

static void answer(struct append *append, struct append_item *item,
                   const struct append_result *result) {
  append->pending--;
  item->on_done(item, result);
}

static void answer_failure(struct append *append, struct append_item *item,
                           enum append_status status, const char *reason) {
  if (item->maybe_appended) status = APPEND_UNKNOWN;
  answer(append, item, &(struct append_result){.status = status, .reason = reason});
}

/* Fails everything that waits in a lane. The queue is detached first: callbacks may submit again.
 */
static void fail_queue(struct lane *lane, enum append_status status, const char *reason) {
  struct append_item *item = lane->queue.head;
  lane->queue.head = NULL;
  lane->queue.tail = &lane->queue.head;
  while (item != NULL) {
    struct append_item *next = item->next;
    answer_failure(lane->append, item, status, reason);
    item = next;
  }
}

/* ------------------------------------------------------------------ choosing a group */

static bool belongs_to_group(const struct append_group *group, const struct append_item *item,
                             size_t bytes, unsigned partitions,
                             const struct append_options *options) {
  if (group->item_count == 0) return true;
  return !item->alone && item->row_count == 1 && bytes + item->bytes <= options->group_max_bytes &&
         group->item_count < options->group_max_items && partitions < GROUP_MAX_PARTITIONS;
}

/* Moves items from the queue to the group. An item of several rows leaves alone, since its refusal
 * has to take all its rows back. */
static void choose_group(struct lane *lane) {
  struct append_group *group = &lane->group;
  const struct append_options *options = &lane->append->options;
  size_t bytes = 0;
  unsigned partitions = 0;
  struct append_item **place = &lane->queue.head;
  while (*place != NULL) {
    struct append_item *item = *place;
    if (!belongs_to_group(group, item, bytes, partitions, options)) {
      if (item->alone || item->row_count > 1 || group->item_count >= options->group_max_items)
        break;
      place = &item->next;
      continue;
    }
    *place = item->next;
    append_group_add(group, item);
    bytes += item->bytes;
    /* At most: items of one partition, or of one transaction, may count more than once. */
    partitions += item->transaction ? 2 : 1;
    if (item->alone || item->row_count > 1) break;
  }
  lane->queue.tail = &lane->queue.head;
  while (*lane->queue.tail) lane->queue.tail = &(*lane->queue.tail)->next;
}

static void pump(struct lane *lane) {
  if (lane->in_flight || lane->queue.head == NULL) return;
  if (lane->is_held_back && clock_monotonic_us() < lane->held_back_until_us) return;
  if (!db_connection_can_send(lane->connection)) {
    if (db_connection_state(lane->connection) == DB_DOWN) {
      fail_queue(lane, APPEND_UNAVAILABLE, "PostgreSQL is not available");
    }
    return;
  }
  choose_group(lane);
  struct append_group *group = &lane->group;
  append_group_encode(group, lane->waits_for_replicas, lane->append->options.min_insync_replicas);
  lane->in_flight = true;
  db_connection_send(lane->connection, &lane->batch, group->calls, group->call_count);
}

/* ------------------------------------------------------------------ outcomes */

static enum append_status status_of_answer(int status) {
  static const enum append_status statuses[] = {APPEND_OK,
                                                APPEND_DUPLICATE,
                                                APPEND_STALE,
                                                APPEND_NO_PARTITION,
                                                APPEND_TOO_FEW_REPLICAS,
                                                APPEND_STALE_EPOCH,
                                                APPEND_SEQUENCE_GAP,
                                                APPEND_WRONG_FIRST_SEQUENCE,
                                                APPEND_ORIGINAL_UNKNOWN,
                                                APPEND_HELD_BACK,
                                                APPEND_NO_TRANSACTION,
                                                APPEND_FENCED,
                                                APPEND_NOT_OPEN,
                                                APPEND_OVERDUE,
                                                APPEND_CONFLICTING,
                                                APPEND_OVER_CAPACITY,
                                                APPEND_RESERVED,
                                                APPEND_OTHER_PARTITION,
                                                APPEND_VERSION_CONFLICT};
  if (status < 0 || (size_t)status >= sizeof statuses / sizeof *statuses) return APPEND_FAILED;
  return statuses[status];
}

static void publish_row(struct lane *lane, const struct append_row *row,
                        const struct append_item *item) {
  struct append *append = lane->append;
  if (row->status != 0 || row->appended_count == 0) return;
  metric_add(append->records_total, row->appended_count);
  /* A row too large for the cache is not even copied: that alone would hold the loop. Readers of
   * what is undecided ask PostgreSQL anyway. */
  if (item->transaction == NULL && (uint32_t)row->appended_count == row->columns->record_count &&
      tail_cache_takes(append->options.cache, columns_memory(row->columns))) {
    struct log_batch *batch = log_batch_from_columns(row->columns, item->log_id, item->partition,
                                                     row->base_offset, row->appended_at);
    tail_cache_insert(append->options.cache, batch);
    log_batch_release(batch);
  }
  announce_end(append->options.announce, item->log_id, item->partition, row->last_offset + 1);
}

/* The items of one row got consecutive offsets in their order. */
static void answer_row(struct lane *lane, const struct append_row *row,
                       const struct append_row *last) {
  struct append_result result = {.status = status_of_answer(row->status),
                                 .last_offset = last->last_offset,
                                 .partition = lane->group.items[row->first_item]->partition,
                                 .current = row->current,
                                 .expected = row->expected,
                                 .reason = ""};
  if (result.status == APPEND_DUPLICATE && lane->group.items[row->first_item]->transaction) {
    result.partition = (int32_t)row->current;
  }
  if (!row->answered) {
    result.status = APPEND_FAILED;
    result.reason = "the append function gave no answer";
  }
  int64_t offset = row->base_offset;
  for (unsigned i = 0; i < row->item_count; i++) {
    struct append_item *item = lane->group.items[row->first_item + i];
    if (row->item_count > 1 && result.status == APPEND_OK) {
      offset += item->rows->record_count;
      result.last_offset = offset - 1;
    }
    answer(lane->append, item, &result);
  }
}

/* Each event of a row has an answer of its own; those that were appended got consecutive offsets.
 */
static void answer_events(struct lane *lane, const struct append_row *row) {
  int64_t offset = row->base_offset;
  for (unsigned i = 0; i < row->item_count; i++) {
    struct append_item *item = lane->group.items[row->first_item + i];
    struct append_result result = append_event_result(&row->event_answers[i], item->partition);
    if (result.status == APPEND_OK) result.last_offset = offset++;
    answer(lane->append, item, &result);
  }
}

bool append_waits_for_standby(const struct append *append) {
  for (unsigned i = 0; i < append->lane_count; i++) {
    if (append->lanes[i].is_held_back && append->lanes[i].queue.head) return true;
  }
  return false;
}

/* A synchronous standby is missing. Had the items been appended, their commit would wait for it
 * inside PostgreSQL and keep the partitions locked meanwhile; so they wait here, and only for as
 * long as their deadlines allow. */
static void hold_back(struct lane *lane, struct append_item **items, unsigned count) {
  if (!append_waits_for_standby(lane->append)) {
    log_event(LOG_WARN,
              "a synchronous standby is missing; publishes with acks=all wait until it is back or "
              "synchronous_standby_names no longer asks for it",
              NULL);
  }
  queue_push_front(&lane->queue, items, count);
  lane->is_held_back = true;
  lane->held_back_until_us = clock_monotonic_us() + HOLD_BACK_US;
}

/* Answers the group's rows, but for those that were held back: their items move to the front.
 * Returns how many these are. */
static unsigned answer_rows(struct lane *lane) {
  struct append_group *group = &lane->group;
  unsigned held = 0;
  for (unsigned i = 0; i < group->row_count;) {
    const struct append_row *row = &group->rows[i];
    unsigned next = i + 1;
    while (next < group->row_count && group->rows[next].item_count == 0) next++;
    if (row->answered && status_of_answer(row->status) == APPEND_HELD_BACK) {
      for (unsigned j = 0; j < row->item_count; j++) {
        group->items[held++] = group->items[row->first_item + j];
      }
    } else if (row->event_answers) {
      answer_events(lane, row);
    } else {
      answer_row(lane, row, &group->rows[next - 1]);
    }
    i = next;
  }
  return held;
}

static void group_committed(struct lane *lane) {
  struct append_group *group = &lane->group;
  unsigned records = 0;
  for (unsigned i = 0; i < group->row_count; i++) {
    publish_row(lane, &group->rows[i], group->items[group->rows[i].first_item]);
    records += group->rows[i].columns->record_count;
  }
  metric_observe(lane->append->group_records, records);
  metric_observe(lane->append->group_items, group->item_count);
  unsigned held = answer_rows(lane);
  lane->is_held_back = false;
  if (held) hold_back(lane, group->items, held);
}

/* A refusal raised by pgcursus.append() in strict mode: the status is the message, the values are
 * the detail. */
static bool parse_strict_refusal(const struct db_failure *failure, struct append_result *result) {
  if (strcmp(failure->sqlstate, "PC002") != 0) return false;
  long long current = 0, expected = 0;
  const char *place = strstr(failure->detail, "\"current\"");
  if (place) sscanf(place, "\"current\"%*[ :]%lld", &current);
  place = strstr(failure->detail, "\"expected\"");
  if (place) sscanf(place, "\"expected\"%*[ :]%lld", &expected);
  *result =
      (struct append_result){.status = status_of_answer((int)strtol(failure->message, NULL, 10)),
                             .current = current,
                             .expected = expected,
                             .reason = ""};
  return true;
}

/* Errors after which the same append may well succeed later: locks, timeouts, resources, an ending
 * or read-only server, conflicts. All of them rolled the transaction back. */
static bool is_transient(const char *sqlstate) {
  static const char *const prefixes[] = {"08", "40", "53", "55", "57", "58", "25006"};
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
    if (strncmp(sqlstate, prefixes[i], strlen(prefixes[i])) == 0) return true;
  }
  return false;
}

/* The server itself is in trouble, so that every item would meet the same end. */
static bool is_server_wide(const char *sqlstate) {
  return strncmp(sqlstate, "53", 2) == 0 || strncmp(sqlstate, "57P", 3) == 0 ||
         strncmp(sqlstate, "58", 2) == 0 || strcmp(sqlstate, "25006") == 0;
}

/* PostgreSQL ended the session (a shutdown, an administrator, a demotion) and rolled back. */
static bool is_session_end(const char *sqlstate) {
  return strncmp(sqlstate, "57P", 3) == 0 || strcmp(sqlstate, "25006") == 0;
}

/* Another transaction was in the way: of two that begin the same stream in different partitions one
 * waits for the other and then fails; looking again tells it where the stream is. */
static bool is_worth_repeating(struct append_item *item, const struct db_failure *failure) {
  return strncmp(failure->sqlstate, "40", 2) == 0 && ++item->conflicts < MAX_CONFLICTS;
}

static void answer_refused(struct append *append, struct append_item *item,
                           const struct db_failure *failure) {
  struct append_result result;
  if (parse_strict_refusal(failure, &result)) {
    answer(append, item, &result);
    return;
  }
  bool transient = is_transient(failure->sqlstate);
  log_event(LOG_WARN, "PostgreSQL refused an append", "sqlstate", failure->sqlstate, "reason",
            failure->message, NULL);
  if (strcmp(failure->sqlstate, "55P03") == 0) {
    answer_failure(append, item, APPEND_UNAVAILABLE,
                   "another transaction holds the partition for too long");
    return;
  }
  answer_failure(append, item, transient ? APPEND_UNAVAILABLE : APPEND_FAILED, failure->message);
}

/* The transaction is rolled back, so nobody's records are there. The items of the row that failed
 * are answered (or tried one by one when several share it); their neighbours go again. */
static void group_refused(struct lane *lane, const struct db_failure *failure) {
  struct append_group *group = &lane->group;
  struct append_item **items = group->items;
  unsigned count = group->item_count;
  struct append_result refusal;
  if (parse_strict_refusal(failure, &refusal) && refusal.status == APPEND_HELD_BACK) {
    hold_back(lane, items, count);
    return;
  }
  if (failure->call < group->first_row_call && count > 1 && !is_server_wide(failure->sqlstate)) {
    /* A transaction is being ended for long; whose it is shows when each goes alone. */
    for (unsigned i = 0; i < count; i++) items[i]->alone |= items[i]->transaction != NULL;
    metric_add(lane->append->retries_total, count);
    queue_push_front(&lane->queue, items, count);
    return;
  }
  unsigned failed_row = failure->call - group->first_row_call;
  bool is_known = failed_row < group->row_count;
  unsigned first = is_known ? group->rows[failed_row].first_item : 0;
  unsigned culprits = is_known ? group->rows[failed_row].item_count : count;
  if (is_known && culprits == 0)
    culprits = 1; /* a later row of an item that is alone in its group */
  if (is_session_end(failure->sqlstate) && !lane->append->closing) {
    culprits = 0; /* nobody's fault: they wait for the session to come back */
  } else if (is_server_wide(failure->sqlstate)) {
    first = 0;
    culprits = count;
  } else if (culprits > 1) {
    for (unsigned i = 0; i < culprits; i++) items[first + i]->alone = true;
    culprits = 0;
  } else if (is_worth_repeating(items[first], failure) && !lane->append->closing) {
    items[first]->alone = true;
    culprits = 0;
  }
  metric_add(lane->append->retries_total, count - culprits);
  queue_push_front(&lane->queue, items + first + culprits, count - first - culprits);
  queue_push_front(&lane->queue, items, first);
  for (unsigned i = 0; i < culprits; i++) answer_refused(lane->append, items[first + i], failure);
}

/* The connection is gone and so is the answer. What carries sequences is sent again, the append
 * function will tell; the rest must be told that nobody knows. */
static void group_unknown(struct lane *lane, const struct db_failure *failure) {
  struct append_group *group = &lane->group;
  unsigned kept = 0;
  for (unsigned i = 0; i < group->item_count; i++) {
    struct append_item *item = group->items[i];
    item->maybe_appended = true;
    if (item->may_repeat && !lane->append->closing) {
      group->items[kept++] = item;
    } else {
      answer_failure(lane->append, item, APPEND_UNKNOWN, failure->message);
    }
  }
  metric_add(lane->append->retries_total, kept);
  queue_push_front(&lane->queue, group->items, kept);
}

static void on_group_result(struct db_batch *batch, unsigned call, const PGresult *result) {
  struct lane *lane = (struct lane *)batch;
  append_group_take_result(&lane->group, call, result);
}

static void on_group_done(struct db_batch *batch, enum db_outcome outcome,
                          const struct db_failure *failure) {
  struct lane *lane = (struct lane *)batch;
  switch (outcome) {
    case DB_COMMITTED:
      group_committed(lane);
      break;
    case DB_REFUSED:
      group_refused(lane, failure);
      break;
    case DB_UNKNOWN:
    case DB_UNSENT:
      group_unknown(lane, failure);
      break;
  }
  append_group_reset(&lane->group);
  lane->in_flight = false;
  pump(lane);
}

/* ------------------------------------------------------------------ the loop */

static void on_turn_end(void *owner) {
  struct append *append = owner;
  for (unsigned i = 0; i < append->lane_count; i++) pump(&append->lanes[i]);
  if (append->pending && !ev_is_active(&append->sweep_timer)) {
    ev_timer_again(append->options.database->loop, &append->sweep_timer);
  }
}

static void sweep_lane(struct lane *lane, int64_t now) {
  struct append_item **place = &lane->queue.head;
  struct append_item *expired = NULL;
  while (*place != NULL) {
    struct append_item *item = *place;
    if (item->deadline_us > now) {
      place = &item->next;
      continue;
    }
    *place = item->next;
    item->next = expired;
    expired = item;
  }
  lane->queue.tail = place;
  while (expired != NULL) {
    struct append_item *next = expired->next;
    answer_failure(lane->append, expired, APPEND_TIMED_OUT, "the request's time ran out");
    expired = next;
  }
}

static void on_sweep(struct ev_loop *loop, ev_timer *timer, int events) {
  struct append *append = timer->data;
  (void)events;
  int64_t now = clock_monotonic_us();
  for (unsigned i = 0; i < append->lane_count; i++) {
    sweep_lane(&append->lanes[i], now);
    pump(&append->lanes[i]); /* it may have been held back */
  }
  if (append->pending == 0) ev_timer_stop(loop, timer);
}

static struct lane *lane_of(struct append *append, const struct append_item *item) {
  /* Neighbouring partitions of one topic go to different lanes. */
  uint64_t number = (uint64_t)item->log_id * 7u + (uint64_t)item->partition;
  return &append->lanes[number % append->options.lanes +
                        (item->wait_for_replicas ? append->options.lanes : 0)];
}

void append_submit(struct append *append, struct append_item *item) {
  struct lane *lane = lane_of(append, item);
  item->arrival = append->arrivals++;
  item->alone = false;
  item->conflicts = 0;
  item->maybe_appended = false;
  queue_push(&lane->queue, item);
  append->pending++;
  turn_request(&append->turn);
}

unsigned append_pending(const struct append *append) {
  return append->pending;
}

static void on_lane_state(struct db_connection *connection, void *owner, bool ready,
                          const char *reason) {
  struct lane *lane = owner;
  (void)connection;
  db_health_report(lane->append->options.database->health, lane->was_ready, ready, reason);
  lane->was_ready = ready;
  if (!lane->append->closing && !lane->in_flight) pump(lane);
}

/* ------------------------------------------------------------------ life */

static void register_metrics(struct append *append) {
  static const double sizes[] = {1,   2,   5,    10,   20,   50,    100,
                                 200, 500, 1000, 2000, 5000, 10000, 50000};
  unsigned count = sizeof sizes / sizeof *sizes;
  append->group_records =
      metric_with(metric_histogram("pgcursus_append_group_records", "Records committed together.",
                                   NULL, NULL, sizes, count),
                  NULL, NULL);
  append->group_items =
      metric_with(metric_histogram("pgcursus_append_group_publishes",
                                   "Publishes committed together.", NULL, NULL, sizes, count),
                  NULL, NULL);
  append->records_total = metric_with(metric_counter("pgcursus_records_appended_total",
                                                     "Records appended by this node.", NULL, NULL),
                                      NULL, NULL);
  append->retries_total = metric_with(
      metric_counter("pgcursus_append_retries_total",
                     "Publishes sent to PostgreSQL again after a failed or lost transaction.", NULL,
                     NULL),
      NULL, NULL);
}

static void open_lane(struct append *append, struct lane *lane, bool waits_for_replicas) {
  const struct append_options *options = &append->options;
  lane->append = append;
  lane->waits_for_replicas = waits_for_replicas;
  lane->batch.on_result = on_group_result;
  lane->batch.on_done = on_group_done;
  lane->queue.tail = &lane->queue.head;
  db_health_add_session(options->database->health);
  const struct db_connection_options connection_options = {
      .database = options->database,
      .setup = append->setup[waits_for_replicas],
      .statements = append_statements,
      .statement_count = APPEND_STATEMENT_COUNT,
      .answer_limit_ms = database_answer_limit_ms(options->database),
      .on_state = on_lane_state,
      .owner = lane,
  };
  lane->connection = db_connection_open(&connection_options);
}

struct append *append_open(const struct append_options *options) {
  struct append *append = memory_allocate_zeroed(1, sizeof *append);
  append->options = *options;
  snprintf(append->setup_lock_timeout, sizeof append->setup_lock_timeout, "SET lock_timeout = %lld",
           (long long)options->lock_timeout_ms);
  for (unsigned kind = 0; kind < 2; kind++) {
    const char **setup = append->setup[kind];
    *setup++ = options->database->set_statement_timeout;
    *setup++ = append->setup_lock_timeout;
    *setup++ = "SET default_transaction_isolation = 'read committed'";
    *setup++ = DB_SETUP_PLANNER;
    *setup++ = kind ? "SET synchronous_commit = on" : "SET synchronous_commit = local";
  }
  register_metrics(append);
  turn_init(&append->turn, options->database->loop, on_turn_end, append);
  ev_timer_init(&append->sweep_timer, on_sweep, 0., SWEEP_INTERVAL);
  append->sweep_timer.data = append;
  append->lane_count = options->lanes * 2;
  append->lanes = memory_allocate_zeroed(append->lane_count, sizeof *append->lanes);
  for (unsigned i = 0; i < append->lane_count; i++) {
    open_lane(append, &append->lanes[i], i >= options->lanes);
  }
  return append;
}

void append_close(struct append *append) {
  append->closing = true;
  turn_stop(&append->turn);
  ev_timer_stop(append->options.database->loop, &append->sweep_timer);
  for (unsigned i = 0; i < append->lane_count; i++) {
    struct lane *lane = &append->lanes[i];
    fail_queue(lane, APPEND_UNAVAILABLE, "the node is stopping");
    db_connection_close(lane->connection);
    append_group_release(&lane->group);
  }
  free(append->lanes);
  free(append);
}
