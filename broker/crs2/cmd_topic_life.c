/* ALTER_TOPIC_CONFIG, DELETE and TRUNCATE (commands-1 2.2 to 2.4). What can be checked without the
 * database is checked here, in order; the rest by the SQL function of the same name. */
#include <string.h>

#include "base/text.h"
#include "crs2/call.h"
#include "crs2/commands.h"
#include "crs2/crs2.h"
#include "crs2/fields.h"
#include "crs2/handlers.h"
#include "db/control.h"
#include "log/topics.h"

/* One change in flight. */
struct topic_change {
  struct control_call control; /* first */
  struct call *call;
  struct slice topic;
  const char *failure; /* the code when PostgreSQL fails for no reason of the protocol's */
  bool failure_names_topic;
  void (*answer)(struct topic_change *change, const PGresult *rows);
};

static void fail_unexplained(struct topic_change *change, const char *reason) {
  const struct error_field fields[] = {FIELD_SLICE("topic", change->topic),
                                       FIELD_TEXT("reason", reason)};
  unsigned skipped = change->failure_names_topic ? 0 : 1;
  call_fail_with(change->call, change->failure, fields + skipped, 2 - skipped, NULL);
}

/* What this node knows of the topic is worth nothing now, whatever became of the change. Nor is the
 * answer kept: it may be older than a change by somebody else that was announced meanwhile. */
static void on_change_done(struct control_call *control, const struct control_result *result) {
  struct topic_change *change = (struct topic_change *)control;
  topics_forget(change->call->crs2->topics, change->topic);
  if (result->status == CONTROL_FAILED) {
    fail_unexplained(change, result->code);
  } else if (result->status != CONTROL_OK) {
    call_fail_control(change->call, result);
  } else if (PQntuples(result->rows) != 1) {
    fail_unexplained(change, "the database gave no answer");
  } else {
    change->answer(change, result->rows);
  }
}

static struct topic_change *create_change(struct call *call, enum control_statement statement,
                                          const char *failure,
                                          void (*answer)(struct topic_change *, const PGresult *)) {
  struct topic_change *change = arena_allocate_zeroed(&call->arena, sizeof *change);
  change->call = call;
  change->topic = call_field(call, "topic");
  change->failure = failure;
  change->failure_names_topic = statement != CONTROL_ALTER_TOPIC;
  change->answer = answer;
  change->control.statement = statement;
  change->control.parameters[0] = db_bytes(change->topic);
  change->control.deadline_us = call->deadline_us;
  change->control.on_done = on_change_done;
  return change;
}

static void submit(struct topic_change *change) {
  control_submit(change->call->crs2->control, &change->control);
}

/* True when the call has been answered: the name is bad, or the broker's own. */
static bool refuse_name(struct call *call, const char *internal_code) {
  struct slice topic = call_field(call, "topic");
  const char *reason = field_check_topic_name(topic);
  if (reason) {
    call_fail(call, "invalid_topic_name", FIELD_SLICE("topic", topic),
              FIELD_TEXT("reason", reason));
    return true;
  }
  if (internal_code && slice_equals_text(topic, INTERNAL_TOPIC)) {
    call_fail(call, internal_code, FIELD_SLICE("topic", topic));
    return true;
  }
  return false;
}

/* ------------------------------------------------------------------ ALTER_TOPIC_CONFIG */

static void answer_alter(struct topic_change *change, const PGresult *rows) {
  struct call *call = change->call;
  struct topic *topic = topic_from_row(rows, 0);
  int64_t effective = topic_effective_min_in_sync(topic, call->crs2->config->min_insync_replicas);
  if (topic->min_in_sync_replicas) {
    call_reply_format(call,
                      "OK topic=%s min_in_sync_replicas=%d effective_min_in_sync_replicas=%lld",
                      topic->name, topic->min_in_sync_replicas, (long long)effective);
  } else {
    call_reply_format(
        call, "OK topic=%s min_in_sync_replicas=default effective_min_in_sync_replicas=%lld",
        topic->name, (long long)effective);
  }
  topic_release(topic);
}

void handle_alter_topic_config(struct call *call) {
  if (text_trim(call_field(call, "topic")).length == 0) {
    call_fail_command(call, "missing_topic");
    return;
  }
  if (refuse_name(call, NULL)) return;
  struct slice text = text_trim(call_field(call, "min_in_sync_replicas"));
  if (text.length == 0) {
    call_fail_command(call, "missing_min_in_sync_replicas");
    return;
  }
  struct topic_change *change =
      create_change(call, CONTROL_ALTER_TOPIC, "alter_topic_config_failed", answer_alter);
  int64_t minimum = 0;
  if (field_equals_ignoring_case(text, "default")) {
    change->control.parameters[1] = db_null();
  } else if (field_parse_int(text, &minimum) && minimum >= 1) {
    change->control.parameters[1] = db_int8(&change->control.scalars[1], minimum);
  } else {
    call_fail(call, "invalid_min_in_sync_replicas",
              FIELD_SLICE("value", call_field(call, "min_in_sync_replicas")));
    return;
  }
  submit(change);
}

/* ------------------------------------------------------------------ DELETE */

static void answer_delete(struct topic_change *change, const PGresult *rows) {
  call_reply_format(change->call, "OK topic=%.*s deleted=%s", (int)change->topic.length,
                    (const char *)change->topic.data, db_get_bool(rows, 0, 0) ? "true" : "false");
}

void handle_delete(struct call *call) {
  if (call_field(call, "topic").length == 0) {
    call_fail(call, "missing_topic",
              FIELD_TEXT("expected", "DELETE topic=<name> [if_exists=<bool>]"));
    return;
  }
  if (refuse_name(call, "internal_topic_delete_forbidden")) return;
  bool if_exists = false;
  if (call_has_field(call, "if_exists") &&
      !field_parse_bool(call_field(call, "if_exists"), &if_exists)) {
    call_fail(call, "invalid_if_exists", FIELD_SLICE("value", call_field(call, "if_exists")));
    return;
  }
  struct topic_change *change =
      create_change(call, CONTROL_DELETE_TOPIC, "delete_topic_failed", answer_delete);
  change->control.parameters[1] = db_bool(&change->control.scalars[1], if_exists);
  submit(change);
}

/* ------------------------------------------------------------------ TRUNCATE */

static void answer_truncate(struct topic_change *change, const PGresult *rows) {
  struct topic *topic = topic_from_row(rows, 0);
  call_reply_format(change->call,
                    "OK topic=%s truncated=true revision=%lld lifecycle_epoch=%lld leo=0 hwm=0",
                    topic->name, (long long)topic->revision, (long long)topic->lifecycle_epoch);
  topic_release(topic);
}

void handle_truncate(struct call *call) {
  if (call_field(call, "topic").length == 0) {
    call_fail(call, "missing_topic",
              FIELD_TEXT("expected", "TRUNCATE topic=<name> expected_revision=<N>"));
    return;
  }
  if (refuse_name(call, "internal_topic_truncate_forbidden")) return;
  struct slice text = call_field(call, "expected_revision");
  if (text.length == 0) {
    call_fail_command(call, "missing_expected_revision");
    return;
  }
  uint64_t revision;
  if (!field_parse_u64(text, &revision) || revision == 0) {
    call_fail(call, "invalid_expected_revision", FIELD_SLICE("value", text));
    return;
  }
  struct topic_change *change =
      create_change(call, CONTROL_TRUNCATE_TOPIC, "truncate_topic_failed", answer_truncate);
  /* As text: it may exceed what bigint holds. */
  change->control.parameters[1] =
      db_bytes(slice_text(arena_format(&call->arena, "%llu", (unsigned long long)revision)));
  submit(change);
}
