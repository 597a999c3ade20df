/* The cache of topic definitions. Never the authority: PostgreSQL is. */
#include "log/topics.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/clock.h"
#include "base/memory.h"

#define TRUST_WITHOUT_LISTENING_US 1000000

struct cached {
  char *name;
  struct topic *topic; /* NULL: only the turn counter is kept */
  int64_t loaded_at_us;
  uint64_t turn;
  UT_hash_handle hh;
};

struct topics {
  struct topics_options options;
  struct cached *cached;
  bool listening;
  uint64_t changes; /* counts what was forgotten, so that a load begun before is not cached */
};

/* ------------------------------------------------------------------ one topic */

static char *copy_text(const PGresult *rows, int row, int column) {
  struct slice bytes = db_get_bytes(rows, row, column);
  char *text = memory_allocate(bytes.length + 1);
  if (bytes.length) memcpy(text, bytes.data, bytes.length);
  text[bytes.length] = '\0';
  return text;
}

struct topic *topic_from_row(const PGresult *rows, int row) {
  struct topic *topic = memory_allocate_zeroed(1, sizeof *topic);
  topic->references = 1;
  topic->name = copy_text(rows, row, TOPIC_NAME);
  topic->log_id = db_get_int8(rows, row, TOPIC_LOG_ID);
  topic->partition_count = db_get_int4(rows, row, TOPIC_PARTITION_COUNT);
  topic->replication_factor = db_get_int4(rows, row, TOPIC_REPLICATION_FACTOR);
  topic->idempotent = db_get_bool(rows, row, TOPIC_IDEMPOTENT);
  topic->event_sourcing = db_get_bool(rows, row, TOPIC_EVENT_SOURCING);
  topic->aggregate_replay = db_get_bool(rows, row, TOPIC_AGGREGATE_REPLAY);
  topic->min_in_sync_replicas = db_get_int4(rows, row, TOPIC_MIN_IN_SYNC_REPLICAS);
  topic->cleanup_policy = copy_text(rows, row, TOPIC_CLEANUP_POLICY);
  topic->retention_hours = db_get_int8(rows, row, TOPIC_RETENTION_HOURS);
  topic->retention_bytes = db_get_int8(rows, row, TOPIC_RETENTION_BYTES);
  topic->partitioner = copy_text(rows, row, TOPIC_PARTITIONER);
  topic->auth_policy = copy_text(rows, row, TOPIC_AUTH_POLICY);
  topic->read_acl = copy_text(rows, row, TOPIC_READ_ACL);
  topic->write_acl = copy_text(rows, row, TOPIC_WRITE_ACL);
  topic->revision = db_get_int8(rows, row, TOPIC_REVISION);
  topic->lifecycle_epoch = db_get_int8(rows, row, TOPIC_LIFECYCLE_EPOCH);
  topic->places_by_key = strcmp(topic->partitioner, "hash_key") == 0;
  return topic;
}

struct topic *topic_from_list_row(const PGresult *rows, int row) {
  struct topic *topic = memory_allocate_zeroed(1, sizeof *topic);
  topic->references = 1;
  topic->name = copy_text(rows, row, TOPIC_LIST_NAME);
  topic->auth_policy = copy_text(rows, row, TOPIC_LIST_AUTH_POLICY);
  topic->read_acl = copy_text(rows, row, TOPIC_LIST_READ_ACL);
  topic->log_id = db_get_int8(rows, row, TOPIC_LIST_LOG_ID);
  topic->partition_count = db_get_int4(rows, row, TOPIC_LIST_PARTITION_COUNT);
  topic->revision = db_get_int8(rows, row, TOPIC_LIST_REVISION);
  return topic;
}

struct topic *topic_retain(struct topic *topic) {
  topic->references++;
  return topic;
}

void topic_release(struct topic *topic) {
  if (topic == NULL || --topic->references > 0) return;
  free(topic->name);
  free(topic->cleanup_policy);
  free(topic->partitioner);
  free(topic->auth_policy);
  free(topic->read_acl);
  free(topic->write_acl);
  free(topic);
}

/* ------------------------------------------------------------------ policy */

static bool list_contains(const char *list, const char *name) {
  size_t length = strlen(name);
  for (const char *item = list; *item;) {
    size_t item_length = strcspn(item, ",");
    if (item_length == length && memcmp(item, name, length) == 0) return true;
    item += item_length;
    if (*item == ',') item++;
  }
  return false;
}

bool topic_policy_allows(const char *auth_policy, const char *acl, enum topic_operation operation,
                         const char *principal) {
  if (strcmp(auth_policy, "open") == 0) return true;
  if (strcmp(auth_policy, "deny_write") == 0) return operation == TOPIC_READ_ACCESS;
  if (strcmp(auth_policy, "deny_read") == 0) return operation == TOPIC_WRITE_ACCESS;
  if (principal == NULL) return false;
  return list_contains(acl, principal) || list_contains(acl, "*");
}

bool topic_allows(const struct topic *topic, enum topic_operation operation,
                  const char *principal) {
  const char *acl = operation == TOPIC_READ_ACCESS ? topic->read_acl : topic->write_acl;
  return topic_policy_allows(topic->auth_policy, acl, operation, principal);
}

int64_t topic_effective_min_in_sync(const struct topic *topic, int64_t broker_minimum) {
  int64_t minimum = topic->min_in_sync_replicas ? topic->min_in_sync_replicas : broker_minimum;
  return minimum < 1 ? 1 : minimum;
}

/* ------------------------------------------------------------------ the cache */

struct topics *topics_create(const struct topics_options *options) {
  struct topics *topics = memory_allocate_zeroed(1, sizeof *topics);
  topics->options = *options;
  return topics;
}

static struct cached *find_cached(struct topics *topics, struct slice name) {
  struct cached *cached;
  HASH_FIND(hh, topics->cached, name.data, name.length, cached);
  return cached;
}

struct topic *topics_find(struct topics *topics, struct slice name) {
  if (name.length == 0) return NULL;
  struct cached *cached = find_cached(topics, name);
  if (cached == NULL || cached->topic == NULL) return NULL;
  if (!topics->listening &&
      clock_monotonic_us() - cached->loaded_at_us > TRUST_WITHOUT_LISTENING_US) {
    return NULL;
  }
  return cached->topic;
}

static struct cached *find_or_add(struct topics *topics, const struct topic *topic) {
  struct slice name = slice_text(topic->name);
  struct cached *cached = find_cached(topics, name);
  if (cached) return cached;
  cached = memory_allocate_zeroed(1, sizeof *cached);
  cached->name = memory_copy_text(topic->name);
  HASH_ADD_KEYPTR(hh, topics->cached, cached->name, name.length, cached);
  return cached;
}

void topics_put(struct topics *topics, struct topic *topic) {
  struct cached *cached = find_or_add(topics, topic);
  /* An older answer must not replace a newer one. */
  if (cached->topic && cached->topic->log_id == topic->log_id &&
      cached->topic->revision > topic->revision) {
    return;
  }
  topic_retain(topic);
  topic_release(cached->topic);
  cached->topic = topic;
  cached->loaded_at_us = clock_monotonic_us();
}

void topics_forget(struct topics *topics, struct slice name) {
  topics->changes++;
  struct cached *cached = name.length ? find_cached(topics, name) : NULL;
  if (cached == NULL) return;
  topic_release(cached->topic);
  cached->topic = NULL;
}

void topics_forget_all(struct topics *topics) {
  topics->changes++;
  struct cached *cached, *next;
  HASH_ITER(hh, topics->cached, cached, next) {
    topic_release(cached->topic);
    cached->topic = NULL;
  }
}

/* Names that are gone keep only their place; a topic that does not exist must leave nothing behind.
 */
static void drop_entry(struct topics *topics, struct slice name) {
  struct cached *cached = find_cached(topics, name);
  if (cached == NULL) return;
  HASH_DEL(topics->cached, cached);
  topic_release(cached->topic);
  free(cached->name);
  free(cached);
}

void topics_set_listening(struct topics *topics, bool listening) {
  topics->listening = listening;
  topics_forget_all(topics); /* what changed while nobody listened is unknown */
}

int32_t topics_next_partition(struct topics *topics, const struct topic *topic) {
  struct cached *cached = find_or_add(topics, topic);
  return (int32_t)(cached->turn++ % (uint64_t)topic->partition_count);
}

void topics_free(struct topics *topics) {
  if (topics == NULL) return;
  struct cached *cached, *next;
  HASH_ITER(hh, topics->cached, cached, next) {
    HASH_DEL(topics->cached, cached);
    topic_release(cached->topic);
    free(cached->name);
    free(cached);
  }
  free(topics);
}

/* ------------------------------------------------------------------ loading */

static void on_loaded(struct control_call *call, const struct control_result *result) {
  struct topic_load *load = (struct topic_load *)call;
  struct topics *topics = load->topics;
  if (result->status != CONTROL_OK) {
    load->on_done(load, result->status, NULL, result->code);
    return;
  }
  if (PQntuples(result->rows) == 0) {
    drop_entry(topics, slice_of(call->parameters[0].data, (size_t)call->parameters[0].length));
    load->on_done(load, CONTROL_OK, NULL, "");
    return;
  }
  struct topic *topic = topic_from_row(result->rows, 0);
  /* A change announced while this was on its way may be newer than what was read. */
  if (load->changes == topics->changes) topics_put(topics, topic);
  load->on_done(load, CONTROL_OK, topic, "");
  topic_release(topic);
}

void topics_load(struct topics *topics, struct topic_load *load, struct slice name) {
  load->topics = topics;
  load->changes = topics->changes;
  load->call.statement = CONTROL_TOPIC_DEFINITION;
  load->call.is_read_only = true;
  load->call.parameters[0] = db_bytes(name);
  load->call.on_done = on_loaded;
  control_submit(topics->options.control, &load->call);
}
