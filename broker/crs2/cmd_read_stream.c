/* READ_STREAM and READ_STREAM_HISTORY (commands-2 5.4, 5.8): a JSON envelope and a batch, in two
 * STREAM frames. Some failures are an envelope alone (crs2-wire 13.5). */
#include <string.h>

#include "base/text.h"
#include "crs2/aggregate.h"
#include "crs2/crs2.h"
#include "crs2/fields.h"
#include "crs2/handlers.h"
#include "crs2/wire/batch.h"
#include "log/stream_page.h"

#define READ_MAX_EVENTS 4096
#define READ_DEFAULT_EVENTS 256
#define READ_MIN_BYTES 1024
#define READ_MAX_BYTES 33554432
#define READ_DEFAULT_BYTES (8 << 20)
#define READ_EVENT_OVERHEAD 256

#define HISTORY_MAX_RECORDS 1000
#define HISTORY_DEFAULT_RECORDS 100
#define HISTORY_MAX_BYTES (4 << 20)
#define HISTORY_DEFAULT_BYTES (1 << 20)
#define HISTORY_EVENT_OVERHEAD 64

/* What a frame may hold, with room for a compressed form that is larger than the plain one. */
#define FRAME_BUDGET (FRAME_MAX_PAYLOAD - (1u << 20))

/* What a batch adds to an event's strings: lengths, numbers, presence, two partitions. */
#define WIRE_EVENT_OVERHEAD 96u

struct read_stream {
  struct aggregate aggregate; /* first */
  bool is_history;
  bool is_paged;
  bool has_to_version;
  int64_t from_version;
  int64_t to_version;
  int64_t max_events;
  int64_t max_bytes;
  struct stream_page page;
  int32_t partition;
  const char *failure; /* an envelope that is the whole answer: its "error" */
};

/* ------------------------------------------------------------------ frames */

static void build_failure(struct call *call, struct buffer *out) {
  const struct read_stream *read = call->state;
  buffer_append_text(out, "{\"error\":");
  text_append_json_string(out, slice_text(read->failure));
  buffer_append_text(out, ",\"status\":\"ERROR\"}");
}

static bool fail_in_envelope(struct read_stream *read, const char *error) {
  read->failure = error;
  call_reply_stream_frames(read->aggregate.call, 1, 0, build_failure, NULL);
  return false;
}

static void append_paging(const struct read_stream *read, struct buffer *out) {
  const struct stream_page *page = &read->page;
  if (read->is_paged) {
    bool has_more = page->last_version < page->head_version;
    buffer_append_format(out, ",\"has_more\":%s", has_more ? "true" : "false");
    if (has_more) {
      buffer_append_format(out, ",\"next_version\":%lld", (long long)page->last_version + 1);
    }
  }
}

static void append_read_members(const struct read_stream *read, struct buffer *out) {
  const struct stream_page *page = &read->page;
  buffer_append_format(out, ",\"count\":%u", page->event_count);
  if (page->has_snapshot) {
    buffer_append_format(
        out, ",\"snapshot\":{\"version\":%lld,\"payload\":", (long long)page->snapshot_version);
    text_append_json_string(out, buffer_slice(&page->snapshot_payload));
    buffer_append_u8(out, '}');
  }
  append_paging(read, out);
}

/* The version after the last event that is returned; 0 when there is none. */
static int64_t next_history_version(const struct read_stream *read) {
  struct stream_page_iterator iterator;
  struct log_record record;
  int64_t next = 0;
  stream_page_begin(&iterator, &read->page);
  while (stream_page_next(&iterator, &record)) next = record.aggregate_version + 1;
  return next;
}

static void append_history_members(const struct read_stream *read, struct buffer *out) {
  const struct stream_page *page = &read->page;
  int64_t upper = read->has_to_version ? read->to_version : page->head_version;
  int64_t wanted = page->last_version - page->first_version + 1;
  int64_t next = next_history_version(read);
  const char *completeness = page->event_count == wanted ? "complete"
                             : page->event_count == 0    ? "unknown"
                                                         : "partial";
  bool has_more = page->event_count == wanted && wanted > 0 && next <= upper;
  if (next) buffer_append_format(out, ",\"next_version\":%lld", (long long)next);
  buffer_append_format(out, ",\"head_version\":%lld,\"completeness\":\"%s\",\"has_more\":%s",
                       (long long)page->head_version, completeness, has_more ? "true" : "false");
}

static void build_envelope(const struct read_stream *read, struct buffer *out) {
  buffer_append_text(out, "{\"status\":\"OK\",\"topic\":");
  text_append_json_string(out, read->aggregate.topic);
  buffer_append_text(out, ",\"key\":");
  text_append_json_string(out, read->aggregate.key);
  buffer_append_format(out, ",\"partition\":%d", read->partition);
  if (read->is_history) {
    append_history_members(read, out);
  } else {
    append_read_members(read, out);
  }
  buffer_append_u8(out, '}');
}

static void build_batch(const struct read_stream *read, struct buffer *out) {
  struct batch_writer writer;
  batch_writer_begin(&writer, out, read->aggregate.topic, read->partition);
  struct stream_page_iterator iterator;
  struct log_record record;
  bool goes_on = true;
  stream_page_begin(&iterator, &read->page);
  while (goes_on && stream_page_next(&iterator, &record)) {
    const struct record wire = {.offset = (uint64_t)record.offset,
                                .payload = record.payload,
                                .producer_id = record.producer_id,
                                .sequence = (uint64_t)record.sequence,
                                .epoch = record.producer_epoch,
                                .key = read->aggregate.key,
                                .event_type = record.event_type,
                                .schema_version = (uint32_t)record.schema_version,
                                .aggregate_version = (uint64_t)record.aggregate_version,
                                .metadata = record.metadata,
                                .event_id = record.event_id,
                                .payload_digest = record.payload_digest};
    goes_on = batch_writer_add(&writer, &wire) == NULL;
  }
  batch_writer_finish(&writer);
}

static void build_frame(struct call *call, struct buffer *out) {
  const struct read_stream *read = call->state;
  if (call->frame_index == 0) {
    build_envelope(read, out);
  } else {
    build_batch(read, out);
  }
}

static void free_page(struct call *call) {
  struct read_stream *read = call->state;
  stream_page_release(&read->page);
}

/* ------------------------------------------------------------------ the answer */

static size_t wire_size(const struct read_stream *read) {
  const struct stream_page *page = &read->page;
  size_t each = WIRE_EVENT_OVERHEAD + read->aggregate.topic.length + read->aggregate.key.length;
  return page->memory + page->event_count * each;
}

static void fail_stream_index(struct read_stream *read) {
  struct call *call = read->aggregate.call;
  const struct stream_page *page = &read->page;
  call_fail(call, "stream_index_failed",
            FIELD_TEXT("reason",
                       arena_format(&call->arena,
                                    "versions %lld to %lld are wanted, and %u of them are retained",
                                    (long long)page->first_version, (long long)page->last_version,
                                    page->event_count)));
}

/* True when an answer to READ_STREAM can be given; else the call has been answered. */
static bool check_page(struct read_stream *read) {
  struct call *call = read->aggregate.call;
  const struct stream_page *page = &read->page;
  bool is_cut = page->last_version < page->head_version;
  if (page->next_bytes && read->is_paged) {
    call_fail(call, "event_exceeds_page_budget", FIELD_NUMBER(call, "version", page->first_version),
              FIELD_NUMBER(call, "bytes", page->next_bytes),
              FIELD_NUMBER(call, "maximum", read->max_bytes));
  } else if ((is_cut && !read->is_paged) || wire_size(read) > FRAME_BUDGET) {
    call_fail_plain(call, "stream_requires_pagination");
  } else if (page->event_count != page->last_version - page->first_version + 1) {
    fail_stream_index(read);
  } else {
    return true;
  }
  return false;
}

static bool check_history(struct read_stream *read) {
  struct call *call = read->aggregate.call;
  const struct stream_page *page = &read->page;
  if (read->has_to_version && read->to_version > page->head_version) {
    return fail_in_envelope(read, "invalid_to_version");
  }
  if (page->next_bytes) {
    return fail_in_envelope(
        read, arena_format(&call->arena, "record_too_large version=%lld offset=%lld",
                           (long long)page->first_version, (long long)page->next_offset));
  }
  return true;
}

static void answer(struct aggregate *aggregate, const PGresult *rows) {
  struct read_stream *read = (struct read_stream *)aggregate;
  struct call *call = aggregate->call;
  stream_page_release(&read->page);
  if (!stream_page_read(rows, &read->page)) {
    call_fail(call, "stream_index_failed", FIELD_TEXT("reason", "the stored events are damaged"));
    return;
  }
  read->partition = read->page.partition < 0 ? aggregate->partition : read->page.partition;
  if (!(read->is_history ? check_history(read) : check_page(read))) return;
  size_t size = wire_size(read) + read->page.snapshot_payload.length;
  call_set_charge(call, call->charged + 2 * size);
  call_reply_stream_frames(call, 2, size, build_frame, NULL);
}

static void query_page(struct read_stream *read, const struct topic *topic, int event_overhead) {
  struct control_call *query = &read->aggregate.query;
  struct db_parameter *parameters = query->parameters;
  union db_scalar *scalars = query->scalars;
  parameters[2] = db_int8(&scalars[2], read->from_version);
  parameters[3] = read->has_to_version ? db_int8(&scalars[3], read->to_version) : db_null();
  parameters[4] = db_bool(&scalars[4], !read->is_history);
  parameters[5] = db_int8(&scalars[5], read->max_events);
  parameters[6] = db_int8(&scalars[6], read->max_bytes);
  parameters[7] = db_int4(&scalars[7], event_overhead);
  aggregate_query(&read->aggregate, read->aggregate.call->crs2->queries, topic,
                  CONTROL_READ_STREAM);
}

/* ------------------------------------------------------------------ READ_STREAM */

/* A field between two bounds; what it is without the field stays. */
static bool read_bounded(struct call *call, const char *name, int64_t minimum, int64_t maximum,
                         int64_t *number) {
  if (!call_has_field(call, name)) return true;
  int64_t value;
  if (!aggregate_parse_number(call_field(call, name), &value)) return false;
  if (value < minimum || value > maximum) return false;
  *number = value;
  return true;
}

static bool read_from_version(struct read_stream *read) {
  read->from_version = 1;
  if (read_bounded(read->aggregate.call, "from_version", 1, INT64_MAX, &read->from_version)) {
    return true;
  }
  return fail_in_envelope(read, "invalid_from_version");
}

static bool read_page_fields(struct read_stream *read) {
  struct call *call = read->aggregate.call;
  read->is_paged = call_has_field(call, "max_events") || call_has_field(call, "max_bytes");
  read->max_events = read->is_paged ? READ_DEFAULT_EVENTS : BATCH_MAX_RECORDS;
  read->max_bytes = read->is_paged ? READ_DEFAULT_BYTES : FRAME_BUDGET;
  if (!read_from_version(read)) return false;
  if (!read_bounded(call, "max_events", 1, READ_MAX_EVENTS, &read->max_events)) {
    call_fail_plain(call, "invalid_max_events");
    return false;
  }
  if (!read_bounded(call, "max_bytes", READ_MIN_BYTES, READ_MAX_BYTES, &read->max_bytes)) {
    call_fail_plain(call, "invalid_max_bytes");
    return false;
  }
  return true;
}

static void run_read(struct aggregate *aggregate, const struct topic *topic) {
  struct read_stream *read = (struct read_stream *)aggregate;
  if (read_page_fields(read)) query_page(read, topic, READ_EVENT_OVERHEAD);
}

static struct read_stream *create(struct call *call) {
  struct read_stream *read = arena_allocate_zeroed(&call->arena, sizeof *read);
  call->state = read;
  call->on_free = free_page;
  read->aggregate.on_rows = answer;
  return read;
}

void handle_read_stream(struct call *call) {
  struct read_stream *read = create(call);
  if (!aggregate_take_fields(&read->aggregate, call)) return;
  read->aggregate.run = run_read;
  aggregate_find(&read->aggregate);
}

/* ------------------------------------------------------------------ READ_STREAM_HISTORY */

static bool read_history_fields(struct read_stream *read) {
  struct call *call = read->aggregate.call;
  read->has_to_version = call_has_field(call, "to_version");
  read->max_events = HISTORY_DEFAULT_RECORDS;
  read->max_bytes = HISTORY_DEFAULT_BYTES;
  if (!read_from_version(read)) return false;
  if (!read_bounded(call, "to_version", read->from_version, INT64_MAX, &read->to_version)) {
    return fail_in_envelope(read, "invalid_to_version");
  }
  if (!read_bounded(call, "max_records", 1, HISTORY_MAX_RECORDS, &read->max_events)) {
    return fail_in_envelope(read, "invalid_max_records");
  }
  if (!read_bounded(call, "max_bytes", 1, HISTORY_MAX_BYTES, &read->max_bytes)) {
    return fail_in_envelope(read, "invalid_max_bytes");
  }
  return true;
}

static void run_history(struct aggregate *aggregate, const struct topic *topic) {
  struct read_stream *read = (struct read_stream *)aggregate;
  if (read_history_fields(read)) query_page(read, topic, HISTORY_EVENT_OVERHEAD);
}

void handle_read_stream_history(struct call *call) {
  struct read_stream *read = create(call);
  read->is_history = true;
  read->aggregate.call = call;
  read->aggregate.topic = call_field(call, "topic");
  read->aggregate.key = call_field(call, "key");
  if (read->aggregate.topic.length == 0 || read->aggregate.key.length == 0) {
    fail_in_envelope(read, "missing_topic_or_key");
    return;
  }
  read->aggregate.run = run_history;
  aggregate_find(&read->aggregate);
}
