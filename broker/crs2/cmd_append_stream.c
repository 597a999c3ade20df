/* APPEND_STREAM: appends one event under its version check (commands-2 5.2, 6.2). The event goes
 * through the lanes like any record; what a refusal means for a client is said here. */
#include <openssl/evp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "crs2/aggregate.h"
#include "crs2/commands.h"
#include "crs2/crs2.h"
#include "crs2/fields.h"
#include "crs2/handlers.h"
#include "crs2/publish.h"
#include "log/append.h"

/* Payloads above this size are digested by a worker. */
#define LARGE_PAYLOAD_BYTES (1u << 20)
#define DIGEST_BYTES 32u

struct append_stream {
  struct aggregate aggregate; /* first */
  struct append_item item;
  struct log_record record;
  struct control_call holder;
  char digest[2 * DIGEST_BYTES + 1];
};

static struct append_stream *of_item(struct append_item *item) {
  return (struct append_stream *)((char *)item - offsetof(struct append_stream, item));
}

/* ------------------------------------------------------------------ answers */

static void fail_reason(struct call *call, const char *reason) {
  call_fail(call, "append_stream_failed", FIELD_TEXT("reason", reason));
}

static void fail_sequence(struct append_stream *append, const struct append_result *result) {
  struct call *call = append->aggregate.call;
  const struct log_record *record = &append->record;
  if (result->status == APPEND_ORIGINAL_UNKNOWN) {
    fail_reason(call,
                arena_format(&call->arena, "the producer has used sequence %lld for another event",
                             (long long)record->sequence));
  } else {
    fail_reason(call, arena_format(&call->arena, "the producer's next sequence is %lld, got %lld",
                                   (long long)result->expected, (long long)result->current));
  }
}

/* The transaction that has the stream is known by number only; its name has to be looked up. */
static void on_holder_known(struct control_call *control, const struct control_result *result) {
  struct append_stream *append =
      (struct append_stream *)((char *)control - offsetof(struct append_stream, holder));
  struct call *call = append->aggregate.call;
  if (result->status != CONTROL_OK) {
    call_fail_control(call, result);
    return;
  }
  call_fail(call, "stream_version_reserved", FIELD_SLICE("topic", append->aggregate.topic),
            FIELD_SLICE("key", append->aggregate.key),
            FIELD_SLICE("transactional_id", db_get_bytes(result->rows, 0, 0)));
}

static void fail_reserved(struct append_stream *append, int64_t transaction_id) {
  struct call *call = append->aggregate.call;
  append->holder = (struct control_call){.statement = CONTROL_TRANSACTIONAL_ID,
                                         .is_read_only = true,
                                         .deadline_us = call->deadline_us,
                                         .on_done = on_holder_known};
  append->holder.parameters[0] = db_int8(&append->holder.scalars[0], transaction_id);
  control_submit(call->crs2->control, &append->holder);
}

static void answer_refusal(struct append_stream *append, const struct append_result *result) {
  struct call *call = append->aggregate.call;
  const struct log_record *record = &append->record;
  switch (result->status) {
    case APPEND_VERSION_CONFLICT:
      call_fail(call, "version_conflict", FIELD_NUMBER(call, "current", result->current),
                FIELD_NUMBER(call, "expected", record->aggregate_version));
      break;
    case APPEND_RESERVED:
      fail_reserved(append, result->current);
      break;
    case APPEND_VERSION_TAKEN:
      call_fail(call, "aggregate_identity_conflict",
                FIELD_NUMBER(call, "sequence", record->aggregate_version));
      break;
    case APPEND_EVENT_ID_TAKEN:
      call_fail(call, "aggregate_identity_conflict", FIELD_SLICE("event_id", record->event_id));
      break;
    case APPEND_ORIGINAL_GONE:
      call_fail(call, "aggregate_proof_unavailable",
                FIELD_NUMBER(call, "sequence", record->aggregate_version));
      break;
    case APPEND_STALE_EPOCH:
      call_fail(call, "stale_producer_epoch", FIELD_SLICE("producer", record->producer_id),
                FIELD_NUMBER(call, "current", result->current),
                FIELD_NUMBER(call, "got", record->producer_epoch));
      break;
    case APPEND_SEQUENCE_GAP:
    case APPEND_WRONG_FIRST_SEQUENCE:
    case APPEND_ORIGINAL_UNKNOWN:
      fail_sequence(append, result);
      break;
    case APPEND_TOO_FEW_REPLICAS:
      call_fail(call, "insufficient_in_sync_replicas",
                FIELD_NUMBER(call, "current", result->current),
                FIELD_NUMBER(call, "required", result->expected));
      break;
    case APPEND_TIMED_OUT:
      call_fail(call, "request_timeout", FIELD_TEXT("outcome", "not_accepted"));
      break;
    case APPEND_UNAVAILABLE:
      call_fail_control_status(call, CONTROL_UNAVAILABLE, result->reason);
      break;
    case APPEND_UNKNOWN:
      fail_reason(call, arena_format(&call->arena, "outcome unknown: %s", result->reason));
      break;
    default:
      fail_reason(call, arena_copy_text(&call->arena, slice_text(result->reason)));
  }
}

static void on_appended(struct append_item *item, const struct append_result *result) {
  struct append_stream *append = of_item(item);
  struct aggregate *aggregate = &append->aggregate;
  switch (result->status) {
    case APPEND_OK:
    case APPEND_DUPLICATE:
      call_reply_format(aggregate->call, "OK version=%lld offset=%lld partition=%d",
                        (long long)append->record.aggregate_version, (long long)result->last_offset,
                        item->partition);
      break;
    case APPEND_STALE:
      aggregate_find_again(aggregate);
      break;
    case APPEND_OTHER_PARTITION: /* partitions were added after the stream began */
      item->partition = (int32_t)result->current;
      append_submit(aggregate->call->crs2->append, item);
      break;
    default:
      answer_refusal(append, result);
  }
}

/* ------------------------------------------------------------------ fields */

static bool fail_plain(struct call *call, const char *code) {
  call_fail_plain(call, code);
  return false;
}

static bool fail_text(struct call *call, const char *code, const char *reason) {
  call_fail(call, code, FIELD_TEXT("reason", reason));
  return false;
}

static bool read_version_and_message(struct call *call, struct log_record *record) {
  struct slice version = call_field(call, "version");
  if (version.length == 0) return fail_plain(call, "missing_version");
  if (!aggregate_parse_number(version, &record->aggregate_version)) {
    return fail_plain(call, "invalid_version");
  }
  record->payload = call_field(call, "message");
  if (record->payload.length == 0) return fail_plain(call, "missing_message");
  return true;
}

/* What an event of a topic with aggregate_replay needs more. */
static bool read_identity(struct call *call, struct log_record *record) {
  record->event_id = call_field(call, "event_id");
  record->producer_id = call_field(call, "producerId");
  if (record->event_id.length == 0) return fail_plain(call, "missing_event_id");
  if (record->producer_id.length == 0) return fail_plain(call, "missing_producer_id");
  if (!field_is_identifier(record->producer_id)) {
    call_fail_command(call, "invalid_producer_id");
    return false;
  }
  if (!aggregate_parse_number(call_field(call, "seqNum"), &record->sequence) ||
      record->sequence < 1) {
    return fail_plain(call, "invalid_producer_sequence");
  }
  if (call_has_field(call, "epoch") &&
      !aggregate_parse_number(call_field(call, "epoch"), &record->producer_epoch)) {
    return fail_plain(call, "invalid_producer_epoch");
  }
  if (record->event_id.length > AGGREGATE_MAX_KEY || !field_is_text(record->event_id)) {
    return fail_text(call, "invalid_event_id", "must be UTF-8 without NUL, of at most 65535 bytes");
  }
  return true;
}

static bool read_description(struct call *call, struct log_record *record) {
  uint64_t schema_version = 1;
  if (call_has_field(call, "schema_version") &&
      (!field_parse_u64(call_field(call, "schema_version"), &schema_version) ||
       schema_version > UINT32_MAX)) {
    return fail_plain(call, "invalid_schema_version");
  }
  record->schema_version = (int64_t)schema_version;
  record->event_type = call_field(call, "event_type");
  record->metadata = call_field(call, "metadata");
  if (!field_is_text(record->event_type)) {
    return fail_text(call, "invalid_event_type", "must be UTF-8 without NUL");
  }
  if (!field_is_text(record->metadata)) {
    return fail_text(call, "invalid_metadata", "must be UTF-8 without NUL");
  }
  if (record->key.length > AGGREGATE_MAX_KEY) {
    return fail_text(call, "invalid_key", "must have at most 65535 bytes");
  }
  return publish_check_size(call, record);
}

/* ------------------------------------------------------------------ the append */

static void submit(struct append_stream *append) {
  struct call *call = append->aggregate.call;
  struct append_item *item = &append->item;
  columns_free_list(item->rows);
  item->rows = columns_create();
  columns_add(item->rows, &append->record);
  item->rows->idempotent = append->record.event_id.length > 0;
  item->may_repeat = item->rows->idempotent;
  item->row_count = 1;
  item->bytes = columns_memory(item->rows);
  call_set_charge(
      call, call->encoded.capacity + call->decoded.capacity + call->arena.allocated + item->bytes);
  append_submit(call->crs2->append, item);
}

static struct append_stream *of_job(struct worker_job *job) {
  struct call *call = (struct call *)((char *)job - offsetof(struct call, job));
  return call->state;
}

static void run_digest(struct worker_job *job) {
  struct append_stream *append = of_job(job);
  unsigned char digest[DIGEST_BYTES];
  if (EVP_Digest(append->record.payload.data, append->record.payload.length, digest, NULL,
                 EVP_sha256(), NULL) != 1) {
    abort();
  }
  for (unsigned i = 0; i < DIGEST_BYTES; i++) {
    static const char digits[] = "0123456789abcdef";
    append->digest[2 * i] = digits[digest[i] >> 4];
    append->digest[2 * i + 1] = digits[digest[i] & 15];
  }
}

static void digest_done(struct worker_job *job) {
  struct append_stream *append = of_job(job);
  append->record.payload_digest = slice_text(append->digest);
  submit(append);
}

static void digest_and_submit(struct append_stream *append) {
  struct worker_job *job = &append->aggregate.call->job;
  job->run = run_digest;
  job->done = digest_done;
  if (append->record.payload.length > LARGE_PAYLOAD_BYTES) {
    worker_pool_submit(append->aggregate.call->crs2->workers, job);
  } else {
    run_digest(job);
    digest_done(job);
  }
}

static void run(struct aggregate *aggregate, const struct topic *topic) {
  struct append_stream *append = (struct append_stream *)aggregate;
  struct call *call = aggregate->call;
  struct log_record *record = &append->record;
  *record = (struct log_record){.key = aggregate->key};
  if (!read_version_and_message(call, record)) return;
  if (topic->aggregate_replay && !read_identity(call, record)) return;
  if (!read_description(call, record)) return;
  append->item.log_id = topic->log_id;
  append->item.revision = topic->revision;
  append->item.partition = aggregate->partition;
  append->item.stream_key = aggregate->key;
  append->item.wait_for_replicas = true;
  append->item.deadline_us = call->deadline_us;
  append->item.on_done = on_appended;
  if (topic->aggregate_replay) {
    digest_and_submit(append);
  } else {
    submit(append);
  }
}

static void free_rows(struct call *call) {
  struct append_stream *append = call->state;
  columns_free_list(append->item.rows);
}

void handle_append_stream(struct call *call) {
  struct append_stream *append = arena_allocate_zeroed(&call->arena, sizeof *append);
  call->state = append;
  call->on_free = free_rows;
  if (slice_equals_text(call_field(call, "topic"), "__consumer_offsets")) {
    call_fail(call, "internal_topic_write_forbidden",
              FIELD_SLICE("topic", call_field(call, "topic")));
    return;
  }
  if (!aggregate_take_fields(&append->aggregate, call)) return;
  append->aggregate.run = run;
  aggregate_find(&append->aggregate);
}
