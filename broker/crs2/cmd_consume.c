/* CONSUME: reads records of one topic, or of every topic that a pattern matches, and waits for some
 * when there are none (commands-1 3.2).
 *
 * A consume goes round: register as a waiter, read each topic in turn, answer if anything came or
 * the time is over, else wait for a wake-up and go round again. */
#include <ev.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "crs2/call.h"
#include "crs2/commands.h"
#include "crs2/consume_answer.h"
#include "crs2/crs2.h"
#include "crs2/fields.h"
#include "crs2/handlers.h"
#include "crs2/positions.h"
#include "crs2/read_fields.h"
#include "crs2/session.h"
#include "log/committed.h"
#include "log/read.h"
#include "log/topics.h"
#include "log/wake.h"
#include "net/budget.h"

#define MAX_WAIT_MS 30000
#define MAX_PATTERN_BYTES 256
#define MAX_STALE_ROUNDS 20u

#define DEFAULT_GROUP "default-group"

struct source {
  struct wake_waiter waiter; /* first */
  struct consume *consume;
  struct topic *topic; /* retained */
  struct committed_request committed;
  int64_t start;                 /* where reading begins */
  uint64_t requested;            /* the same as the client is told */
  int64_t known_end;             /* the log's, as a wake-up told it; 0: not known */
  int64_t reached;               /* how far this round has read; -1: not at all */
  unsigned first_part, end_part; /* of the answer */
};

/* What the connection remembers of a source once its records have left. */
struct delivery {
  struct slice topic;
  int64_t reached;
  unsigned first_part, end_part;
};

struct consume {
  struct call *call;
  struct slice topic;
  bool is_pattern;
  bool is_uncommitted; /* isolation=read_uncommitted */
  int64_t partition;
  uint64_t requested_offset;
  int64_t offset; /* the same, within bigint */
  struct slice group;
  int64_t generation; /* -1: not given */
  int64_t max_records;
  int64_t wait_until_us; /* 0: do not wait */
  struct source *sources;
  unsigned source_count;
  unsigned current;    /* source being read */
  int64_t next_offset; /* of that source */
  unsigned stale_rounds;
  size_t request_bytes; /* of the memory budget, for the request itself */
  size_t promised;      /* likewise, to the read on its way */
  bool reading;
  bool woken; /* since this round began */
  bool cancelled;
  bool registered; /* the sources wait */
  struct ev_timer timer;
  struct read_request read;
  struct topic_load load;
  struct control_call list;
  unsigned starts_pending;            /* sources whose committed offset is being looked up */
  enum committed_status start_status; /* the worst of them */
  const char *start_reason;
  struct consume_answer answer;
  struct delivery *deliveries; /* in the arena */
  unsigned delivery_count;
  int64_t left_out; /* the first record that had no room, or -1 */
  bool is_built;
};

static void begin_round(struct consume *consume);
static void find_topics(struct consume *consume);

/* ------------------------------------------------------------------ ending */

static void unregister(struct consume *consume) {
  for (unsigned i = 0; i < consume->source_count; i++) {
    wake_remove(consume->call->crs2->wake, &consume->sources[i].waiter);
  }
  consume->registered = false;
  ev_timer_stop(consume->call->crs2->loop, &consume->timer);
}

static void drop_sources(struct consume *consume) {
  unregister(consume);
  for (unsigned i = 0; i < consume->source_count; i++) topic_release(consume->sources[i].topic);
  free(consume->sources);
  consume->sources = NULL;
  consume->source_count = 0;
}

/* Gives everything back but the answer; the call may then be answered. */
static void settle(struct consume *consume) {
  drop_sources(consume);
  consume->call->on_cancel = NULL;
}

static void settle_failed(struct consume *consume) {
  settle(consume);
  consume_answer_release(&consume->answer);
}

static void build_answer(struct call *call, struct buffer *out) {
  struct consume *consume = call->state;
  consume->left_out =
      consume_answer_build(&consume->answer, consume->topic, (int32_t)consume->partition, out);
  consume->is_built = true;
}

static struct position_key position_key(const struct consume *consume, struct slice topic) {
  return (struct position_key){.group = consume->group,
                               .member = call_field(consume->call, "member"),
                               .topic = topic,
                               .generation = consume->generation,
                               .partition = (int32_t)consume->partition};
}

/* Where the next CONSUME of this consumer goes on: behind what was read, or at the first record
 * that had no room. */
static int64_t next_position(const struct consume *consume, const struct delivery *delivery) {
  unsigned built = consume->answer.built_parts;
  if (consume->left_out < 0 || delivery->end_part <= built) return delivery->reached;
  if (delivery->first_part <= built) return consume->left_out;
  return consume->answer.parts[delivery->first_part].from_offset;
}

static void remember_positions(struct consume *consume) {
  struct session *session = consume->call->session;
  if (session == NULL || !consume->is_built) return;
  for (unsigned i = 0; i < consume->delivery_count; i++) {
    const struct delivery *delivery = &consume->deliveries[i];
    const struct position_key key = position_key(consume, delivery->topic);
    positions_put(session_positions(session), &key, next_position(consume, delivery));
  }
}

static void answer_built(struct call *call) {
  struct consume *consume = call->state;
  remember_positions(consume);
  consume_answer_release(&consume->answer);
}

/* The sources go before the answer is built. */
static void note_deliveries(struct consume *consume) {
  struct arena *arena = &consume->call->arena;
  consume->deliveries =
      arena_allocate_zeroed(arena, (consume->source_count + 1) * sizeof *consume->deliveries);
  for (unsigned i = 0; i < consume->source_count; i++) {
    const struct source *source = &consume->sources[i];
    if (source->reached < 0) continue;
    consume->deliveries[consume->delivery_count++] = (struct delivery){
        .topic = slice_text(arena_copy_text(arena, slice_text(source->topic->name))),
        .reached = source->reached,
        .first_part = source->first_part,
        .end_part = source->end_part};
  }
}

static void answer(struct consume *consume) {
  struct call *call = consume->call;
  note_deliveries(consume);
  settle(consume);
  /* The batches, and the frame that is made of them. */
  call_set_charge(call, consume->request_bytes + 2 * consume->answer.bytes);
  call_reply_built(call, consume->answer.bytes, build_answer, answer_built);
}

/* ------------------------------------------------------------------ reading */

static void read_current(struct consume *consume);

static void begin_source(struct consume *consume) {
  struct source *source = &consume->sources[consume->current];
  consume->next_offset = source->start;
  source->first_part = source->end_part = consume->answer.part_count;
}

static void next_source(struct consume *consume) {
  consume->current++;
  if (consume->current < consume->source_count) begin_source(consume);
}

static void fail_out_of_range(struct consume *consume, const struct read_result *result) {
  struct call *call = consume->call;
  unsigned long long requested = consume->sources[consume->current].requested;
  settle_failed(consume);
  call_fail(call, "OFFSET_OUT_OF_RANGE",
            FIELD_TEXT("requested", arena_format(&call->arena, "%llu", requested)),
            FIELD_NUMBER(call, "earliest", result->earliest_offset),
            FIELD_NUMBER(call, "latest", result->end_offset));
}

/* Checks 16 and 17. Retention may also overtake a reader that has passed over records it does not
 * see; one that has some is answered with them. */
static bool is_out_of_range(const struct consume *consume, const struct read_result *result) {
  const struct source *source = &consume->sources[consume->current];
  if (!result->bounds_known) return false;
  return consume->next_offset < result->earliest_offset ||
         (consume->next_offset == source->start && consume->is_uncommitted &&
          source->requested > (uint64_t)result->end_offset);
}

static void fail_read(struct consume *consume, const struct read_result *result) {
  struct call *call = consume->call;
  if (result->status == READ_TIMED_OUT && consume->wait_until_us) {
    answer(consume); /* a long poll that outlives the request's time is no error */
    return;
  }
  const char *reason = arena_copy_text(&call->arena, slice_text(result->reason));
  settle_failed(consume);
  if (result->status == READ_UNAVAILABLE) {
    call_fail(call, "coordinator_not_available", FIELD_TEXT("reason", reason));
  } else if (result->status == READ_TIMED_OUT) {
    call_fail(call, "request_timeout", FIELD_TEXT("outcome", "not_accepted"));
  } else {
    call_fail(call, "command_failed", FIELD_TEXT("reason", reason));
  }
}

static void look_again(struct consume *consume) {
  drop_sources(consume);
  consume_answer_release(&consume->answer);
  find_topics(consume);
}

/* The log went away between the look at the topic and the read: look again. */
static void read_stale(struct consume *consume) {
  struct topics *topics = consume->call->crs2->topics;
  for (unsigned i = 0; i < consume->source_count; i++) {
    topics_forget(topics, slice_text(consume->sources[i].topic->name));
  }
  if (++consume->stale_rounds > MAX_STALE_ROUNDS) {
    struct call *call = consume->call;
    settle_failed(consume);
    call_fail(call, "coordinator_not_available", FIELD_TEXT("reason", "the topic keeps changing"));
    return;
  }
  look_again(consume);
}

/* While a client waited, what its topics allow may have changed. */
static bool sources_are_current(const struct consume *consume) {
  for (unsigned i = 0; i < consume->source_count; i++) {
    const struct topic *topic = consume->sources[i].topic;
    const struct topic *known = topics_find(consume->call->crs2->topics, slice_text(topic->name));
    if (known == NULL || known->log_id != topic->log_id || known->revision != topic->revision) {
      return false;
    }
  }
  return true;
}

static void go_on(struct consume *consume) {
  if (sources_are_current(consume)) {
    begin_round(consume);
  } else {
    look_again(consume);
  }
}

static void end_round(struct consume *consume) {
  bool may_wait = consume->answer.records == 0 && consume->wait_until_us != 0 &&
                  !consume->cancelled && clock_monotonic_us() < consume->wait_until_us;
  if (!may_wait) {
    answer(consume);
  } else if (consume->woken) {
    go_on(consume);
  }
}

/* Where this reader's view of the log ends. */
static int64_t visible_end(const struct consume *consume, const struct read_result *result) {
  return consume->is_uncommitted ? result->end_offset : result->stable_offset;
}

/* What a read may bring counts from now on, or all who read at once would be given the same free
 * memory. What has come is charged. */
static void promise(struct consume *consume, size_t bytes) {
  struct memory_budget *budget = consume->call->crs2->budget;
  budget->promised += bytes - consume->promised;
  consume->promised = bytes;
}

static void on_read(struct read_request *request, const struct read_result *result) {
  struct consume *consume = (struct consume *)((char *)request - offsetof(struct consume, read));
  consume->reading = false;
  promise(consume, 0);
  if (result->status == READ_STALE) {
    read_stale(consume);
    return;
  }
  if (result->status != READ_OK) {
    fail_read(consume, result);
    return;
  }
  if (is_out_of_range(consume, result)) {
    fail_out_of_range(consume, result);
    return;
  }
  for (unsigned i = 0; i < result->batch_count; i++) {
    consume_answer_add(&consume->answer, result->batches[i], consume->next_offset,
                       consume->is_uncommitted);
    consume->next_offset = result->batches[i]->last_offset + 1;
  }
  call_set_charge(consume->call, consume->request_bytes + consume->answer.bytes);
  struct source *source = &consume->sources[consume->current];
  source->reached = consume->next_offset;
  source->end_part = consume->answer.part_count;
  bool is_full = consume_answer_is_full(&consume->answer, consume->max_records);
  /* Batches of which nothing is visible are passed over, or the reader would stand before them for
   * ever. */
  bool goes_on = result->batch_count > 0 && consume->answer.records == 0 &&
                 (!result->bounds_known || consume->next_offset < visible_end(consume, result));
  if (!is_full && !goes_on) next_source(consume);
  if (is_full || consume->cancelled || consume->current == consume->source_count) {
    end_round(consume);
  } else {
    read_current(consume);
  }
}

static void read_current(struct consume *consume) {
  struct topic *topic = consume->sources[consume->current].topic;
  int64_t room = consume_answer_room(&consume->answer, consume->call->crs2->budget);
  promise(consume, (size_t)room);
  consume->read = (struct read_request){
      .log_id = topic->log_id,
      .partition = (int32_t)consume->partition,
      .offset = consume->next_offset,
      .max_records = consume->max_records - (int64_t)consume->answer.records,
      .max_bytes = room,
      .committed = !consume->is_uncommitted,
      .known_end = consume->sources[consume->current].known_end,
      .deadline_us = consume->call->deadline_us,
      .on_done = on_read,
  };
  consume->reading = true;
  read_submit(consume->call->crs2->reads, &consume->read);
}

/* ------------------------------------------------------------------ waiting */

static void on_wake(struct wake_waiter *waiter) {
  struct source *source = (struct source *)waiter;
  struct consume *consume = source->consume;
  consume->woken = true;
  /* What is announced and cached needs no query; a log that changed is asked about. */
  source->known_end = waiter->end_offset < INT64_MAX ? waiter->end_offset : 0;
  if (!consume->reading) go_on(consume);
}

static void on_time_over(struct ev_loop *loop, ev_timer *timer, int events) {
  struct consume *consume = timer->data;
  (void)loop;
  (void)events;
  if (!consume->reading) answer(consume);
}

/* The client has gone, or the node stops: no more waiting. */
static void on_cancel(struct call *call) {
  struct consume *consume = call->state;
  consume->cancelled = true;
  if (consume->registered && !consume->reading) answer(consume);
}

static void start_waiting(struct consume *consume) {
  struct wake *wake = consume->call->crs2->wake;
  for (unsigned i = 0; i < consume->source_count; i++) {
    struct source *source = &consume->sources[i];
    if (source->waiter.partition) continue;
    source->waiter.on_wake = on_wake;
    source->waiter.offset = source->start;
    wake_add(wake, &source->waiter, source->topic->log_id, (int32_t)consume->partition);
  }
  if (consume->registered) return;
  consume->registered = true;
  double seconds = (double)(consume->wait_until_us - clock_monotonic_us()) / 1e6;
  ev_timer_init(&consume->timer, on_time_over, seconds > 0 ? seconds : 0., 0.);
  consume->timer.data = consume;
  ev_timer_start(consume->call->crs2->loop, &consume->timer);
}

static void begin_round(struct consume *consume) {
  consume->woken = false;
  consume->current = 0;
  for (unsigned i = 0; i < consume->source_count; i++) consume->sources[i].reached = -1;
  begin_source(consume);
  if (consume->wait_until_us) start_waiting(consume); /* before the read: nothing slips between */
  read_current(consume);
}

/* ------------------------------------------------------------------ finding the topics */

static bool allows(const struct consume *consume, const struct topic *topic) {
  return topic_allows(topic, TOPIC_READ_ACCESS, session_principal(consume->call->session));
}

static bool has_partition(const struct consume *consume, const struct topic *topic) {
  return consume->partition >= 0 && consume->partition < topic->partition_count;
}

/* Checks 13 and 14, for each topic in order. */
static bool check_topic(struct consume *consume, const struct topic *topic) {
  struct call *call = consume->call;
  if (!has_partition(consume, topic)) {
    settle_failed(consume);
    call_fail(call, "partition_not_found", FIELD_NUMBER(call, "partition", consume->partition));
    return false;
  }
  if (!allows(consume, topic)) {
    const char *name = arena_copy_text(&call->arena, slice_text(topic->name));
    settle_failed(consume);
    call_fail(call, "NOT_AUTHORIZED_FOR_TOPIC", FIELD_TEXT("operation", "read"),
              FIELD_TEXT("topic", name));
    return false;
  }
  return true;
}

static void add_source(struct consume *consume, struct topic *topic) {
  consume->sources =
      memory_resize(consume->sources, (consume->source_count + 1) * sizeof *consume->sources);
  consume->sources[consume->source_count++] = (struct source){.topic = topic_retain(topic)};
}

static void fail_starts(struct consume *consume) {
  struct call *call = consume->call;
  enum committed_status status = consume->start_status;
  const char *reason = consume->start_reason;
  settle_failed(consume);
  if (status == COMMITTED_TIMED_OUT) {
    call_fail(call, "request_timeout", FIELD_TEXT("outcome", "not_accepted"));
  } else if (status == COMMITTED_FAILED) {
    call_fail(call, "command_failed", FIELD_TEXT("reason", reason));
  } else {
    call_fail(call, "coordinator_not_available", FIELD_TEXT("reason", reason));
  }
}

/* The committed offset goes before the one in the request, and what this connection has delivered
 * beyond it before both. */
static void set_start(struct consume *consume, struct source *source, int64_t committed) {
  source->start = consume->offset;
  source->requested = consume->requested_offset;
  if (committed < 0) return;
  source->start = committed < INT64_MAX ? committed : INT64_MAX - 1;
  if (consume->call->session) {
    const struct position_key key = position_key(consume, slice_text(source->topic->name));
    int64_t position = positions_find(session_positions(consume->call->session), &key);
    if (position > committed) source->start = position;
  }
  source->requested = (uint64_t)source->start;
}

static void on_committed_known(struct committed_request *request, enum committed_status status,
                               int64_t next_offset, const char *reason) {
  struct source *source = (struct source *)((char *)request - offsetof(struct source, committed));
  struct consume *consume = source->consume;
  if (status != COMMITTED_OK && consume->start_status == COMMITTED_OK) {
    consume->start_status = status;
    consume->start_reason = arena_copy_text(&consume->call->arena, slice_text(reason));
  }
  set_start(consume, source, next_offset);
  if (--consume->starts_pending > 0) return;
  if (consume->start_status != COMMITTED_OK) {
    fail_starts(consume);
  } else {
    begin_round(consume);
  }
}

static void find_starts(struct consume *consume) {
  consume->start_status = COMMITTED_OK;
  consume->starts_pending = consume->source_count;
  for (unsigned i = 0; i < consume->source_count; i++) {
    struct source *source = &consume->sources[i];
    source->consume = consume;
    source->committed = (struct committed_request){.group = consume->group,
                                                   .log_id = source->topic->log_id,
                                                   .partition = (int32_t)consume->partition,
                                                   .deadline_us = consume->call->deadline_us,
                                                   .on_done = on_committed_known};
    committed_submit(consume->call->crs2->committed, &source->committed);
  }
}

static void start_reading(struct consume *consume) {
  for (unsigned i = 0; i < consume->source_count; i++) {
    if (!check_topic(consume, consume->sources[i].topic)) return;
  }
  find_starts(consume);
}

static void fail_not_found(struct consume *consume) {
  struct call *call = consume->call;
  settle_failed(consume);
  call_fail(call, "topic_not_found", FIELD_SLICE("topic", consume->topic));
}

static void on_topic_loaded(struct topic_load *load, enum control_status status,
                            struct topic *topic, const char *reason) {
  struct consume *consume = (struct consume *)((char *)load - offsetof(struct consume, load));
  if (status != CONTROL_OK) {
    settle_failed(consume);
    call_fail_control_status(consume->call, status, reason);
  } else if (topic == NULL) {
    fail_not_found(consume);
  } else {
    add_source(consume, topic);
    start_reading(consume);
  }
}

static void on_listed(struct control_call *list, const struct control_result *result) {
  struct consume *consume = (struct consume *)((char *)list - offsetof(struct consume, list));
  if (result->status != CONTROL_OK) {
    settle_failed(consume);
    call_fail_control(consume->call, result);
    return;
  }
  for (int row = 0; row < PQntuples(result->rows); row++) {
    if (!field_matches_pattern(consume->topic, db_get_bytes(result->rows, row, TOPIC_LIST_NAME)))
      continue;
    struct topic *topic = topic_from_list_row(result->rows, row);
    add_source(consume, topic);
    topic_release(topic);
  }
  if (consume->source_count == 0) {
    fail_not_found(consume);
  } else {
    start_reading(consume);
  }
}

static void find_topics(struct consume *consume) {
  struct crs2 *crs2 = consume->call->crs2;
  if (consume->is_pattern) {
    consume->list.statement = CONTROL_LIST_TOPICS;
    consume->list.is_read_only = true;
    consume->list.deadline_us = consume->call->deadline_us;
    consume->list.on_done = on_listed;
    control_submit(crs2->control, &consume->list);
    return;
  }
  if (field_check_topic_name(consume->topic) != NULL) {
    fail_not_found(consume);
    return;
  }
  /* A refusal must not rest on a cached definition: another node may just have changed it. */
  struct topic *topic = topics_find(crs2->topics, consume->topic);
  if (topic && has_partition(consume, topic) && allows(consume, topic)) {
    add_source(consume, topic);
    start_reading(consume);
    return;
  }
  consume->load.on_done = on_topic_loaded;
  consume->load.call.deadline_us = consume->call->deadline_us;
  topics_load(crs2->topics, &consume->load, consume->topic);
}

/* ------------------------------------------------------------------ fields */

static bool check_presence(struct call *call) {
  struct slice group = call_field(call, "group");
  if (call_field(call, "topic").length == 0 || call_field(call, "partition").length == 0 ||
      call_field(call, "offset").length == 0 || call_field(call, "member").length == 0) {
    call_fail_plain(call, "invalid_consume_syntax");
    return false;
  }
  if (group.length && !field_is_identifier(group)) {
    call_fail_command(call, "invalid_group");
    return false;
  }
  if (!field_is_identifier(call_field(call, "member"))) {
    call_fail_command(call, "invalid_member");
    return false;
  }
  return true;
}

/* Checks 8 and 9. */
static bool read_wait(struct call *call, int64_t *wait_ms) {
  *wait_ms = 0;
  if (!call_has_field(call, "wait_ms")) return true;
  if (!field_parse_int(call_field(call, "wait_ms"), wait_ms) || *wait_ms < 0) {
    return read_fields_fail_maximum(call, "invalid_wait_ms", "30000");
  }
  if (*wait_ms > MAX_WAIT_MS) {
    return read_fields_fail_above(call, "fetch_wait_too_large", "wait_ms", "30000");
  }
  return true;
}

void handle_consume(struct call *call) {
  struct consume *consume = arena_allocate_zeroed(&call->arena, sizeof *consume);
  int64_t wait_ms;
  consume->call = call;
  consume->request_bytes = call->charged;
  call->state = consume;
  struct read_fields fields;
  if (!check_presence(call) || !read_fields_parse(call, &fields) || !read_wait(call, &wait_ms)) {
    return;
  }
  consume->is_uncommitted = fields.is_uncommitted;
  consume->partition = fields.partition;
  consume->requested_offset = fields.requested_offset;
  consume->offset = fields.offset;
  consume->max_records = fields.max_records;
  consume->generation = fields.generation;
  consume->group = call_field(call, "group");
  if (consume->group.length == 0 || slice_equals_text(consume->group, "-")) {
    consume->group = slice_text(DEFAULT_GROUP);
  }
  consume->topic = call_field(call, "topic");
  consume->is_pattern = memchr(consume->topic.data, '*', consume->topic.length) != NULL ||
                        memchr(consume->topic.data, '?', consume->topic.length) != NULL;
  if (consume->is_pattern && consume->topic.length > MAX_PATTERN_BYTES) {
    call_fail(call, "command_failed",
              FIELD_TEXT("reason", "a topic pattern has at most 256 characters"));
    return;
  }
  if (wait_ms > 0) {
    int64_t until = clock_monotonic_us() + wait_ms * 1000;
    consume->wait_until_us = until < call->deadline_us ? until : call->deadline_us;
  }
  ev_timer_init(&consume->timer, on_time_over, 0., 0.);
  consume_answer_init(&consume->answer, consume->max_records);
  call->on_cancel = on_cancel;
  find_topics(consume);
}
