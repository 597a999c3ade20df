/* CREATE: makes a topic or patches the fields that are given (commands-1 2.1). Checks 1 to 13 need
 * no database and are made here, in order; the rest is made by pgcursus.create_topic(). */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "crs2/call.h"
#include "crs2/commands.h"
#include "crs2/crs2.h"
#include "crs2/fields.h"
#include "crs2/handlers.h"
#include "db/control.h"
#include "log/topics.h"

#define EXPECTED \
  "CREATE topic=<name> [partitions=<N>] [replication_factor=<N>] [idempotent=<bool>] ..."

/* Positions of the parameters of pgcursus.create_topic(). */
enum create_parameter {
  CREATE_TOPIC,
  CREATE_PARTITIONS,
  CREATE_REPLICATION_FACTOR,
  CREATE_IDEMPOTENT,
  CREATE_EVENT_SOURCING,
  CREATE_AGGREGATE_REPLAY,
  CREATE_MIN_IN_SYNC_REPLICAS,
  CREATE_CLEANUP_POLICY,
  CREATE_RETENTION_HOURS,
  CREATE_RETENTION_BYTES,
  CREATE_PARTITIONER,
  CREATE_AUTH_POLICY,
  CREATE_READ_ACL,
  CREATE_WRITE_ACL,
  CREATE_DEFAULT_REPLICATION_FACTOR,
  CREATE_DEFAULT_CLEANUP_POLICY,
  CREATE_MAX_TOPICS,
  CREATE_MAX_PARTITIONS_PER_TOPIC,
  CREATE_MAX_PARTITIONS,
};

struct creation {
  struct control_call control; /* first */
  struct call *call;
  struct slice topic;
};

/* Each reader leaves the parameter NULL when the field is absent. False: the call has been
 * answered. */

static bool read_count(struct creation *creation, const char *name, enum create_parameter place,
                       const char *code) {
  struct call *call = creation->call;
  if (!call_has_field(call, name)) return true;
  int64_t value;
  if (!field_parse_int(call_field(call, name), &value) || value < 1) {
    call_fail(call, code, FIELD_TEXT("reason", "must be a positive integer"));
    return false;
  }
  /* More partitions than that are beyond any capacity limit, which the database reports; a
   * replication factor has no other limit. */
  if (value > INT32_MAX && place == CREATE_REPLICATION_FACTOR) {
    call_fail(call, code, FIELD_TEXT("reason", "must be at most 2147483647"));
    return false;
  }
  if (value > INT32_MAX) value = INT32_MAX;
  creation->control.parameters[place] = db_int4(&creation->control.scalars[place], (int32_t)value);
  return true;
}

static bool fail_value(struct call *call, const char *code, const char *name) {
  call_fail(call, code, FIELD_SLICE("value", call_field(call, name)));
  return false;
}

static bool read_flag(struct creation *creation, const char *name, enum create_parameter place,
                      const char *code) {
  struct call *call = creation->call;
  if (!call_has_field(call, name)) return true;
  bool value;
  if (!field_parse_bool(call_field(call, name), &value)) return fail_value(call, code, name);
  creation->control.parameters[place] = db_bool(&creation->control.scalars[place], value);
  return true;
}

static bool read_min_in_sync_replicas(struct creation *creation) {
  static const char name[] = "min_in_sync_replicas";
  struct call *call = creation->call;
  if (!call_has_field(call, name)) return true;
  int64_t value;
  if (!field_parse_int(call_field(call, name), &value) || value < 1) {
    return fail_value(call, "invalid_min_in_sync_replicas", name);
  }
  creation->control.parameters[CREATE_MIN_IN_SYNC_REPLICAS] =
      db_int8(&creation->control.scalars[CREATE_MIN_IN_SYNC_REPLICAS], value);
  return true;
}

static bool read_number(struct creation *creation, const char *name, enum create_parameter place,
                        const char *code) {
  struct call *call = creation->call;
  if (!call_has_field(call, name)) return true;
  int64_t value;
  if (!field_parse_int(call_field(call, name), &value)) return fail_value(call, code, name);
  creation->control.parameters[place] = db_int8(&creation->control.scalars[place], value);
  return true;
}

static bool fail_policy(struct call *call, const char *field, const char *reason) {
  call_fail(call, "invalid_topic_policy", FIELD_TEXT("field", field), FIELD_TEXT("reason", reason));
  return false;
}

/* "delete", "compact" or both, in any order and letter case; NULL when it is something else. */
static const char *canonical_cleanup_policy(struct arena *arena, struct slice text) {
  bool deletes = false, compacts = false;
  struct slice csv = field_canonical_csv(arena, text);
  for (size_t start = 0; start < csv.length;) {
    const uint8_t *comma = memchr(csv.data + start, ',', csv.length - start);
    size_t end = comma ? (size_t)(comma - csv.data) : csv.length;
    struct slice item = slice_of(csv.data + start, end - start);
    if (field_equals_ignoring_case(item, "delete")) {
      deletes = true;
    } else if (field_equals_ignoring_case(item, "compact")) {
      compacts = true;
    } else {
      return NULL;
    }
    start = end + 1;
  }
  if (deletes && compacts) return "delete,compact";
  return deletes ? "delete" : compacts ? "compact" : NULL;
}

static bool read_cleanup_policy(struct creation *creation) {
  struct call *call = creation->call;
  if (!call_has_field(call, "cleanup_policy")) return true;
  const char *policy = canonical_cleanup_policy(&call->arena, call_field(call, "cleanup_policy"));
  if (policy == NULL) {
    return fail_policy(call, "cleanup_policy", "must be delete, compact or delete,compact");
  }
  creation->control.parameters[CREATE_CLEANUP_POLICY] = db_bytes(slice_text(policy));
  return true;
}

/* One of a few words, in any letter case. */
static bool read_choice(struct creation *creation, const char *name, enum create_parameter place,
                        const char *const *words, const char *reason) {
  struct call *call = creation->call;
  if (!call_has_field(call, name)) return true;
  struct slice value = text_trim(call_field(call, name));
  for (; *words; words++) {
    if (!field_equals_ignoring_case(value, *words)) continue;
    creation->control.parameters[place] = db_bytes(slice_text(*words));
    return true;
  }
  return fail_policy(call, name, reason);
}

/* A binary text[] of the items. */
static struct slice text_array(struct arena *arena, struct slice csv) {
  struct buffer array = {0};
  uint32_t count = 0;
  buffer_append_u32(&array, csv.length ? 1 : 0);
  buffer_append_u32(&array, 0);
  buffer_append_u32(&array, DB_TEXT);
  if (csv.length) {
    size_t count_position = array.length;
    buffer_append_u32(&array, 0);
    buffer_append_u32(&array, 1);
    for (size_t start = 0; start < csv.length; count++) {
      const uint8_t *comma = memchr(csv.data + start, ',', csv.length - start);
      size_t end = comma ? (size_t)(comma - csv.data) : csv.length;
      buffer_append_u32(&array, (uint32_t)(end - start));
      buffer_append(&array, csv.data + start, end - start);
      start = end + 1;
    }
    buffer_patch_u32(&array, count_position, count);
  }
  uint8_t *copy = arena_allocate(arena, array.length);
  memcpy(copy, array.data, array.length);
  struct slice result = slice_of(copy, array.length);
  buffer_release(&array);
  return result;
}

static bool read_list(struct creation *creation, const char *name, enum create_parameter place) {
  struct call *call = creation->call;
  if (!call_has_field(call, name)) return true;
  struct slice value = call_field(call, name);
  if (!field_is_text(value)) {
    return fail_policy(call, name, "principals must be UTF-8 without NUL");
  }
  struct slice csv = field_canonical_csv(&call->arena, value);
  creation->control.parameters[place] = db_bytes(text_array(&call->arena, csv));
  return true;
}

/* Checks 1 to 13, in order. */
static bool read_fields(struct creation *creation) {
  static const char *const partitioners[] = {"hash_key", "round_robin", NULL};
  static const char *const auth_policies[] = {"open", "deny_write", "deny_read", "acl", NULL};
  struct call *call = creation->call;
  creation->topic = call_field(call, "topic");
  if (creation->topic.length == 0) {
    call_fail(call, "missing_topic", FIELD_TEXT("expected", EXPECTED));
    return false;
  }
  const char *reason = field_check_topic_name(creation->topic);
  if (reason) {
    call_fail(call, "invalid_topic_name", FIELD_SLICE("topic", creation->topic),
              FIELD_TEXT("reason", reason));
    return false;
  }
  creation->control.parameters[CREATE_TOPIC] = db_bytes(creation->topic);
  return read_count(creation, "partitions", CREATE_PARTITIONS, "invalid_partitions") &&
         read_count(creation, "replication_factor", CREATE_REPLICATION_FACTOR,
                    "invalid_replication_factor") &&
         read_flag(creation, "idempotent", CREATE_IDEMPOTENT, "invalid_idempotent") &&
         read_flag(creation, "event_sourcing", CREATE_EVENT_SOURCING, "invalid_event_sourcing") &&
         read_flag(creation, "aggregate_replay", CREATE_AGGREGATE_REPLAY,
                   "invalid_aggregate_replay") &&
         read_min_in_sync_replicas(creation) && read_cleanup_policy(creation) &&
         read_number(creation, "retention_hours", CREATE_RETENTION_HOURS,
                     "invalid_retention_hours") &&
         read_number(creation, "retention_bytes", CREATE_RETENTION_BYTES,
                     "invalid_retention_bytes") &&
         read_choice(creation, "partitioner", CREATE_PARTITIONER, partitioners,
                     "must be hash_key or round_robin") &&
         read_choice(creation, "auth_policy", CREATE_AUTH_POLICY, auth_policies,
                     "must be open, deny_write, deny_read or acl") &&
         read_list(creation, "read_acl", CREATE_READ_ACL) &&
         read_list(creation, "write_acl", CREATE_WRITE_ACL);
}

static void add_limits(struct creation *creation) {
  const struct config *config = creation->call->crs2->config;
  struct db_parameter *p = creation->control.parameters;
  union db_scalar *s = creation->control.scalars;
  p[CREATE_DEFAULT_REPLICATION_FACTOR] =
      db_int4(&s[CREATE_DEFAULT_REPLICATION_FACTOR], (int32_t)config->default_replication_factor);
  p[CREATE_DEFAULT_CLEANUP_POLICY] = db_bytes(slice_text(config->log_cleanup_policy));
  p[CREATE_MAX_TOPICS] = db_int8(&s[CREATE_MAX_TOPICS], config->max_topics);
  p[CREATE_MAX_PARTITIONS_PER_TOPIC] =
      db_int8(&s[CREATE_MAX_PARTITIONS_PER_TOPIC], config->max_partitions_per_topic);
  p[CREATE_MAX_PARTITIONS] = db_int8(&s[CREATE_MAX_PARTITIONS], config->max_partitions);
}

static void answer(struct call *call, const struct topic *topic) {
  int64_t effective = topic_effective_min_in_sync(topic, call->crs2->config->min_insync_replicas);
  const char *own = topic->min_in_sync_replicas
                        ? arena_format(&call->arena, "%d", topic->min_in_sync_replicas)
                        : "default";
  call_reply_format(
      call,
      "OK topic=%s partitions=%d cleanup_policy=%s partitioner=%s auth_policy=%s read_acl=%s "
      "write_acl=%s retention_hours=%lld retention_bytes=%lld revision=%lld replication_factor=%d "
      "idempotent=%s event_sourcing=%s lifecycle_epoch=%lld min_in_sync_replicas=%s "
      "effective_min_in_sync_replicas=%lld%s",
      topic->name, topic->partition_count, topic->cleanup_policy, topic->partitioner,
      topic->auth_policy, topic->read_acl, topic->write_acl, (long long)topic->retention_hours,
      (long long)topic->retention_bytes, (long long)topic->revision, topic->replication_factor,
      topic->idempotent ? "true" : "false", topic->event_sourcing ? "true" : "false",
      (long long)topic->lifecycle_epoch, own, (long long)effective,
      topic->aggregate_replay ? " aggregate_replay=true" : "");
}

static void on_created(struct control_call *control, const struct control_result *result) {
  struct creation *creation = (struct creation *)control;
  struct call *call = creation->call;
  topics_forget(call->crs2->topics, creation->topic);
  if (result->status != CONTROL_OK && result->status != CONTROL_FAILED) {
    call_fail_control(call, result);
    return;
  }
  if (result->status == CONTROL_FAILED || PQntuples(result->rows) != 1) {
    call_fail(call, "create_topic_failed", FIELD_SLICE("topic", creation->topic),
              FIELD_TEXT("reason", result->status == CONTROL_FAILED
                                       ? result->code
                                       : "the database gave no definition back"));
    return;
  }
  struct topic *topic = topic_from_row(result->rows, 0);
  answer(call, topic);
  topic_release(topic);
}

void handle_create(struct call *call) {
  struct creation *creation = arena_allocate_zeroed(&call->arena, sizeof *creation);
  creation->call = call;
  if (!read_fields(creation)) return;
  add_limits(creation);
  creation->control.statement = CONTROL_CREATE_TOPIC;
  creation->control.deadline_us = call->deadline_us;
  creation->control.on_done = on_created;
  control_submit(call->crs2->control, &creation->control);
}
