/* From topic and key to a definition and a query, for every command on event streams. Refuses only
 * what a definition that was just read says; a cached one may be out of date. */
#include "crs2/aggregate.h"

#include <stddef.h>
#include <string.h>

#include "base/hash.h"
#include "crs2/commands.h"
#include "crs2/crs2.h"
#include "crs2/fields.h"
#include "crs2/handlers.h"

/* Definitions change rarely; more stale answers in a row than this mean that something else is
 * wrong. */
#define MAX_ATTEMPTS 50u

bool aggregate_take_fields(struct aggregate *aggregate, struct call *call) {
  aggregate->call = call;
  aggregate->topic = call_field(call, "topic");
  aggregate->key = call_field(call, "key");
  if (aggregate->topic.length == 0) {
    call_fail_plain(call, "missing_topic");
    return false;
  }
  if (aggregate->key.length == 0) {
    call_fail_plain(call, "missing_key");
    return false;
  }
  return true;
}

bool aggregate_parse_number(struct slice text, int64_t *number) {
  uint64_t value;
  if (!field_parse_u64(text, &value) || value > INT64_MAX) return false;
  *number = (int64_t)value;
  return true;
}

/* ------------------------------------------------------------------ the topic */

static void load_topic(struct aggregate *aggregate);

static void fail_not_found(struct aggregate *aggregate) {
  call_fail(aggregate->call, "topic_not_found", FIELD_SLICE("topic", aggregate->topic));
}

static void run(struct aggregate *aggregate, const struct topic *topic) {
  bool fits = aggregate->needs_replay ? topic->aggregate_replay : topic->event_sourcing;
  if (fits) {
    uint64_t hash = hash_fnv1a64(aggregate->key);
    aggregate->partition = (int32_t)(hash % (uint64_t)topic->partition_count);
    aggregate->run(aggregate, topic);
  } else if (!aggregate->is_fresh) {
    load_topic(aggregate);
  } else {
    call_fail(
        aggregate->call,
        aggregate->needs_replay ? "aggregate_replay_not_enabled" : "event_sourcing_not_enabled",
        FIELD_SLICE("topic", aggregate->topic));
  }
}

static void on_topic_loaded(struct topic_load *load, enum control_status status,
                            struct topic *topic, const char *reason) {
  struct aggregate *aggregate =
      (struct aggregate *)((char *)load - offsetof(struct aggregate, load));
  if (status != CONTROL_OK) {
    call_fail_control_status(aggregate->call, status, reason);
  } else if (topic == NULL) {
    fail_not_found(aggregate);
  } else {
    aggregate->is_fresh = true;
    run(aggregate, topic);
  }
}

static void load_topic(struct aggregate *aggregate) {
  aggregate->load.on_done = on_topic_loaded;
  aggregate->load.call.deadline_us = aggregate->call->deadline_us;
  topics_load(aggregate->call->crs2->topics, &aggregate->load, aggregate->topic);
}

void aggregate_find(struct aggregate *aggregate) {
  if (field_check_topic_name(aggregate->topic) != NULL) {
    fail_not_found(aggregate);
    return;
  }
  struct topic *topic = topics_find(aggregate->call->crs2->topics, aggregate->topic);
  if (topic) {
    run(aggregate, topic);
  } else {
    load_topic(aggregate);
  }
}

void aggregate_find_again(struct aggregate *aggregate) {
  if (++aggregate->attempts == MAX_ATTEMPTS) {
    call_fail_control_status(aggregate->call, CONTROL_UNAVAILABLE, "the topic keeps changing");
    return;
  }
  topics_forget(aggregate->call->crs2->topics, aggregate->topic);
  load_topic(aggregate);
}

/* ------------------------------------------------------------------ queries */

static void on_queried(struct control_call *query, const struct control_result *result) {
  struct aggregate *aggregate = (struct aggregate *)query;
  if (result->status == CONTROL_REFUSED && strcmp(result->code, "stale_log") == 0) {
    aggregate_find_again(aggregate);
  } else if (result->status != CONTROL_OK) {
    call_fail_control(aggregate->call, result);
  } else {
    aggregate->on_rows(aggregate, result->rows);
  }
}

void aggregate_query(struct aggregate *aggregate, struct control *control,
                     const struct topic *topic, enum control_statement statement) {
  struct control_call *query = &aggregate->query;
  query->statement = statement;
  query->is_read_only = statement != CONTROL_SAVE_SNAPSHOT;
  query->deadline_us = aggregate->call->deadline_us;
  query->on_done = on_queried;
  query->parameters[0] = db_int8(&query->scalars[0], topic->log_id);
  if (statement == CONTROL_AGGREGATE_PROOF || statement == CONTROL_AGGREGATE_RANGE) {
    query->parameters[1] = db_int4(&query->scalars[1], aggregate->partition);
    query->parameters[2] = db_bytes(aggregate->key);
  } else {
    query->parameters[1] = db_bytes(aggregate->key);
  }
  control_submit(control, query);
}
