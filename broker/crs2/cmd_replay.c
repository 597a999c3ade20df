/* AGGREGATE_REPLAY_PROOF and AGGREGATE_EVENT_RANGE_READ (commands-2 6.3, 6.4): what the retained
 * log holds of one aggregate, and a part of it. Never touches a committed offset. */
#include <limits.h>
#include <string.h>

#include "base/cursor.h"
#include "base/text.h"
#include "crs2/aggregate.h"
#include "crs2/crs2.h"
#include "crs2/fields.h"
#include "crs2/handlers.h"

#define DEFAULT_MAX_RECORDS 1000

/* Of payloads and the rest of the events, as stored; the JSON of a range must fit a frame. */
#define RANGE_MAX_BYTES (FRAME_MAX_PAYLOAD - (1u << 20))

struct replay {
  struct aggregate aggregate; /* first */
  bool is_range;
  bool has_expected;
  int64_t expected_last_sequence;
  int64_t from_sequence;
  int64_t to_sequence;
  int64_t max_records;
};

/* ------------------------------------------------------------------ the proof's JSON */

static void append_text_member(struct buffer *out, const char *name, struct slice value) {
  if (value.length == 0) return;
  buffer_append_format(out, ",\"%s\":", name);
  text_append_json_string(out, value);
}

static void append_number_member(struct buffer *out, const char *name, int64_t value) {
  buffer_append_format(out, ",\"%s\":%lld", name, (long long)value);
}

static void append_proof(const struct aggregate *aggregate, const PGresult *rows,
                         struct buffer *out) {
  int64_t earliest = db_get_int8(rows, 0, PROOF_EARLIEST_SEQUENCE);
  int64_t latest = db_get_int8(rows, 0, PROOF_LATEST_SEQUENCE);
  int64_t count = db_get_int8(rows, 0, PROOF_EVENT_COUNT);
  const char *complete = db_get_bool(rows, 0, PROOF_IS_COMPLETE) ? "true" : "false";
  buffer_append_text(out, "{\"topic\":");
  text_append_json_string(out, aggregate->topic);
  append_number_member(out, "partition", aggregate->partition);
  buffer_append_text(out, ",\"match_id\":");
  text_append_json_string(out, aggregate->key);
  if (earliest) append_number_member(out, "earliest_retained_sequence", earliest);
  if (latest) append_number_member(out, "latest_retained_sequence", latest);
  if (count) {
    append_number_member(out, "first_offset", db_get_int8(rows, 0, PROOF_FIRST_OFFSET));
    append_number_member(out, "last_offset", db_get_int8(rows, 0, PROOF_LAST_OFFSET));
  }
  append_number_member(out, "event_count", count);
  append_text_member(out, "first_event_id", db_get_bytes(rows, 0, PROOF_FIRST_EVENT_ID));
  append_text_member(out, "last_event_id", db_get_bytes(rows, 0, PROOF_LAST_EVENT_ID));
  buffer_append_format(out, ",\"sequence_complete\":%s", complete);
  buffer_append_format(out, ",\"retention_complete_from_sequence_one\":%s", complete);
  append_number_member(out, "proof_hwm", db_get_int8(rows, 0, PROOF_HWM));
  append_text_member(out, "status", db_get_bytes(rows, 0, PROOF_STATUS));
  append_text_member(out, "diagnostic", db_get_bytes(rows, 0, PROOF_DIAGNOSTIC));
  buffer_append_u8(out, '}');
}

/* `aggregate_<command>_<status> proof=<json>`. */
static void fail_unproven(struct aggregate *aggregate, const PGresult *rows, const char *command) {
  struct call *call = aggregate->call;
  struct slice status = db_get_bytes(rows, 0, PROOF_STATUS);
  struct buffer json = {0};
  append_proof(aggregate, rows, &json);
  const char *code = arena_format(&call->arena, "aggregate_%s_%.*s", command, (int)status.length,
                                  (const char *)status.data);
  const char *proof = arena_copy_text(&call->arena, buffer_slice(&json));
  buffer_release(&json);
  call_fail(call, code, FIELD_TEXT("proof", proof));
}

static bool is_complete(const PGresult *rows) {
  return slice_equals_text(db_get_bytes(rows, 0, PROOF_STATUS), "complete");
}

static void answer_proof(struct aggregate *aggregate, const PGresult *rows) {
  if (!is_complete(rows)) {
    fail_unproven(aggregate, rows, "proof");
    return;
  }
  struct buffer out = {0};
  buffer_append_text(&out, "OK proof=");
  append_proof(aggregate, rows, &out);
  call_reply_bytes(aggregate->call, buffer_slice(&out));
  buffer_release(&out);
}

/* ------------------------------------------------------------------ the range's JSON */

static void fail_incomplete(struct replay *replay, int64_t returned) {
  struct call *call = replay->aggregate.call;
  call_fail(call, "aggregate_range_incomplete", FIELD_NUMBER(call, "from", replay->from_sequence),
            FIELD_NUMBER(call, "to", replay->to_sequence),
            FIELD_NUMBER(call, "returned", returned));
}

/* A column of the range; the elements follow its header. */
static struct cursor column_elements(const PGresult *rows, int column) {
  struct cursor cursor = cursor_over(db_get_bytes(rows, 0, column));
  cursor_take(&cursor, 20);
  return cursor;
}

static struct slice next_text(struct cursor *cursor) {
  uint32_t length = cursor_u32(cursor);
  return length == UINT32_MAX ? slice_of(NULL, 0) : cursor_take(cursor, length);
}

static int64_t next_number(struct cursor *cursor) {
  return cursor_u32(cursor) == 8 ? (int64_t)cursor_u64(cursor) : 0;
}

static void append_events(const struct replay *replay, const PGresult *rows, struct buffer *out) {
  int32_t count = db_get_int4(rows, 0, RANGE_COUNT);
  struct cursor sequences = column_elements(rows, RANGE_SEQUENCES);
  struct cursor offsets = column_elements(rows, RANGE_OFFSETS);
  struct cursor event_ids = column_elements(rows, RANGE_EVENT_IDS);
  struct cursor event_types = column_elements(rows, RANGE_EVENT_TYPES);
  struct cursor payloads = column_elements(rows, RANGE_PAYLOADS);
  for (int32_t i = 0; i < count && out->length <= FRAME_MAX_PAYLOAD; i++) {
    buffer_append_format(out, "%s{\"offset\":%lld,\"match_id\":", i ? "," : "",
                         (long long)next_number(&offsets));
    text_append_json_string(out, replay->aggregate.key);
    append_number_member(out, "event_sequence", next_number(&sequences));
    buffer_append_text(out, ",\"event_id\":");
    text_append_json_string(out, next_text(&event_ids));
    buffer_append_text(out, ",\"event_type\":");
    text_append_json_string(out, next_text(&event_types));
    buffer_append_text(out, ",\"payload\":");
    text_append_json_string(out, next_text(&payloads));
    buffer_append_u8(out, '}');
  }
}

/* How many events the range must hold. */
static int64_t wanted_events(const struct replay *replay) {
  int64_t span = replay->to_sequence - replay->from_sequence;
  return span >= replay->max_records ? replay->max_records : span + 1;
}

static void answer_range(struct aggregate *aggregate, const PGresult *rows) {
  struct replay *replay = (struct replay *)aggregate;
  if (!is_complete(rows)) {
    fail_unproven(aggregate, rows, "range");
    return;
  }
  int64_t returned = db_get_int4(rows, 0, RANGE_COUNT);
  if (returned < wanted_events(replay)) {
    fail_incomplete(replay, returned);
    return;
  }
  struct buffer out = {0};
  buffer_append_text(&out, "OK range={\"proof\":");
  append_proof(aggregate, rows, &out);
  buffer_append_text(&out, ",\"events\":[");
  append_events(replay, rows, &out);
  buffer_append_text(&out, "]}");
  if (out.length > RANGE_MAX_BYTES) {
    fail_incomplete(replay, 0);
  } else {
    call_reply_bytes(aggregate->call, buffer_slice(&out));
  }
  buffer_release(&out);
}

/* ------------------------------------------------------------------ fields */

static bool take_fields(struct replay *replay, struct call *call) {
  struct aggregate *aggregate = &replay->aggregate;
  aggregate->call = call;
  aggregate->needs_replay = true;
  aggregate->topic = call_field(call, "topic");
  aggregate->key = call_field(call, "match_id");
  if (aggregate->key.length == 0) aggregate->key = call_field(call, "key");
  if (aggregate->topic.length == 0) {
    call_fail_plain(call, "missing_topic");
    return false;
  }
  if (aggregate->key.length == 0) {
    call_fail_plain(call, "missing_match_id");
    return false;
  }
  return true;
}

static bool check_partition(struct aggregate *aggregate) {
  struct call *call = aggregate->call;
  int64_t partition;
  if (!call_has_field(call, "partition")) return true;
  struct slice text = call_field(call, "partition");
  if (field_parse_int(text, &partition) && partition == aggregate->partition) return true;
  call_fail(call, "aggregate_partition_mismatch",
            FIELD_NUMBER(call, "expected", aggregate->partition), FIELD_SLICE("got", text));
  return false;
}

/* A number of at least 1; absent, it stays as it is unless it is required. */
static bool read_positive(struct call *call, const char *name, bool is_required, int64_t *number) {
  if (!call_has_field(call, name)) return !is_required;
  return aggregate_parse_number(call_field(call, name), number) && *number >= 1;
}

static bool fail_plain(struct call *call, const char *code) {
  call_fail_plain(call, code);
  return false;
}

static bool read_range(struct replay *replay) {
  struct call *call = replay->aggregate.call;
  replay->max_records = DEFAULT_MAX_RECORDS;
  if (!read_positive(call, "from_sequence", true, &replay->from_sequence)) {
    return fail_plain(call, "invalid_from_sequence");
  }
  if (!read_positive(call, "to_sequence", true, &replay->to_sequence) ||
      replay->to_sequence < replay->from_sequence) {
    return fail_plain(call, "invalid_to_sequence");
  }
  if (!read_positive(call, "max_records", false, &replay->max_records)) {
    return fail_plain(call, "invalid_max_records");
  }
  /* More than this many do not fit a frame; and sums stay within a bigint. */
  if (replay->max_records > INT_MAX) replay->max_records = INT_MAX;
  return true;
}

/* ------------------------------------------------------------------ the two commands */

static void run_proof(struct aggregate *aggregate, const struct topic *topic) {
  struct replay *replay = (struct replay *)aggregate;
  struct call *call = aggregate->call;
  if (!check_partition(aggregate)) return;
  replay->has_expected = call_has_field(call, "expected_last_sequence");
  if (!read_positive(call, "expected_last_sequence", false, &replay->expected_last_sequence)) {
    call_fail_plain(call, "invalid_expected_last_sequence");
    return;
  }
  struct control_call *query = &aggregate->query;
  query->parameters[3] = replay->has_expected
                             ? db_int8(&query->scalars[3], replay->expected_last_sequence)
                             : db_null();
  aggregate_query(aggregate, call->crs2->queries, topic, CONTROL_AGGREGATE_PROOF);
}

void handle_aggregate_replay_proof(struct call *call) {
  struct replay *replay = arena_allocate_zeroed(&call->arena, sizeof *replay);
  if (!take_fields(replay, call)) return;
  replay->aggregate.run = run_proof;
  replay->aggregate.on_rows = answer_proof;
  aggregate_find(&replay->aggregate);
}

static void run_range(struct aggregate *aggregate, const struct topic *topic) {
  struct replay *replay = (struct replay *)aggregate;
  if (!check_partition(aggregate) || !read_range(replay)) return;
  struct control_call *query = &aggregate->query;
  query->parameters[3] = db_int8(&query->scalars[3], replay->from_sequence);
  query->parameters[4] = db_int8(&query->scalars[4], replay->to_sequence);
  query->parameters[5] = db_int8(&query->scalars[5], replay->max_records);
  query->parameters[6] = db_int8(&query->scalars[6], RANGE_MAX_BYTES);
  aggregate_query(aggregate, aggregate->call->crs2->queries, topic, CONTROL_AGGREGATE_RANGE);
}

void handle_aggregate_event_range_read(struct call *call) {
  struct replay *replay = arena_allocate_zeroed(&call->arena, sizeof *replay);
  if (!take_fields(replay, call)) return;
  replay->is_range = true;
  replay->aggregate.run = run_range;
  replay->aggregate.on_rows = answer_range;
  aggregate_find(&replay->aggregate);
}
