/* STREAM_VERSION, SAVE_SNAPSHOT and READ_SNAPSHOT (commands-2 5.3, 5.5, 5.6). */
#include "base/text.h"
#include "crs2/aggregate.h"
#include "crs2/crs2.h"
#include "crs2/fields.h"
#include "crs2/handlers.h"

/* A snapshot is read as a JSON string in one frame; this much of the frame is for the rest. */
#define SNAPSHOT_FRAME_RESERVE (1u << 20)

static struct aggregate *create(struct call *call) {
  return arena_allocate_zeroed(&call->arena, sizeof(struct aggregate));
}

/* ------------------------------------------------------------------ STREAM_VERSION */

static void answer_version(struct aggregate *aggregate, const PGresult *rows) {
  call_reply_format(aggregate->call, "OK version=%lld", (long long)db_get_int8(rows, 0, 0));
}

static void query_version(struct aggregate *aggregate, const struct topic *topic) {
  aggregate_query(aggregate, aggregate->call->crs2->queries, topic, CONTROL_STREAM_VERSION);
}

void handle_stream_version(struct call *call) {
  struct aggregate *aggregate = create(call);
  if (!aggregate_take_fields(aggregate, call)) return;
  aggregate->run = query_version;
  aggregate->on_rows = answer_version;
  aggregate_find(aggregate);
}

/* ------------------------------------------------------------------ SAVE_SNAPSHOT */

struct save_snapshot {
  struct aggregate aggregate; /* first */
  int64_t version;
};

static void answer_saved(struct aggregate *aggregate, const PGresult *rows) {
  const struct save_snapshot *save = (struct save_snapshot *)aggregate;
  int32_t partition = db_is_null(rows, 0, 0) ? aggregate->partition : db_get_int4(rows, 0, 0);
  call_reply_format(aggregate->call, "OK version=%lld partition=%d", (long long)save->version,
                    partition);
}

/* The length of the JSON string that readers will get: six bytes for a control character at most.
 */
static size_t json_length(struct slice payload) {
  size_t limit = FRAME_MAX_PAYLOAD - SNAPSHOT_FRAME_RESERVE;
  if (payload.length < limit / 6) return payload.length;
  struct buffer json = {0};
  text_append_json_string(&json, payload);
  size_t length = json.length;
  buffer_release(&json);
  return length;
}

static bool read_snapshot_fields(struct save_snapshot *save, struct slice *payload) {
  struct call *call = save->aggregate.call;
  struct slice version = call_field(call, "version");
  *payload = call_field(call, "message");
  if (version.length == 0) {
    call_fail_plain(call, "missing_version");
  } else if (!aggregate_parse_number(version, &save->version)) {
    call_fail_plain(call, "invalid_version");
  } else if (payload->length == 0) {
    call_fail_plain(call, "missing_message");
  } else if (json_length(*payload) > FRAME_MAX_PAYLOAD - SNAPSHOT_FRAME_RESERVE) {
    call_fail(call, "snapshot_save_failed",
              FIELD_TEXT("reason", "the snapshot is too large to be read in one frame"));
  } else {
    return true;
  }
  return false;
}

static void query_save(struct aggregate *aggregate, const struct topic *topic) {
  struct save_snapshot *save = (struct save_snapshot *)aggregate;
  struct slice payload;
  if (!read_snapshot_fields(save, &payload)) return;
  struct control_call *query = &aggregate->query;
  query->parameters[2] = db_int8(&query->scalars[2], save->version);
  query->parameters[3] = db_bytes(payload);
  aggregate_query(aggregate, aggregate->call->crs2->control, topic, CONTROL_SAVE_SNAPSHOT);
}

void handle_save_snapshot(struct call *call) {
  struct save_snapshot *save = arena_allocate_zeroed(&call->arena, sizeof *save);
  if (!aggregate_take_fields(&save->aggregate, call)) return;
  save->aggregate.run = query_save;
  save->aggregate.on_rows = answer_saved;
  aggregate_find(&save->aggregate);
}

/* ------------------------------------------------------------------ READ_SNAPSHOT */

static void answer_snapshot(struct aggregate *aggregate, const PGresult *rows) {
  if (PQntuples(rows) == 0) {
    call_reply_format(aggregate->call, "OK snapshot=null");
    return;
  }
  struct buffer out = {0};
  buffer_append_format(&out, "OK snapshot={\"version\":%lld,\"payload\":",
                       (long long)db_get_int8(rows, 0, SNAPSHOT_VERSION));
  text_append_json_string(&out, db_get_bytes(rows, 0, SNAPSHOT_PAYLOAD));
  buffer_append_u8(&out, '}');
  call_reply_bytes(aggregate->call, buffer_slice(&out));
  buffer_release(&out);
}

static void query_snapshot(struct aggregate *aggregate, const struct topic *topic) {
  aggregate_query(aggregate, aggregate->call->crs2->queries, topic, CONTROL_READ_SNAPSHOT);
}

void handle_read_snapshot(struct call *call) {
  struct aggregate *aggregate = create(call);
  if (!aggregate_take_fields(aggregate, call)) return;
  aggregate->run = query_snapshot;
  aggregate->on_rows = answer_snapshot;
  aggregate_find(aggregate);
}
