/* PUBLISH: what both forms have in common (commands-1 4): finding the topic, the checks against it,
 * the append, and the acknowledgement. A definition that turns out to be stale is read again and
 * the checks are repeated. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "crs2/commands.h"
#include "crs2/crs2.h"
#include "crs2/fields.h"
#include "crs2/handlers.h"
#include "crs2/publish.h"
#include "crs2/session.h"

/* Definitions change rarely; more stale answers in a row than this mean that something else is
 * wrong. */
#define MAX_ATTEMPTS 50u

/* Payloads below this are kept until the answer; above it memory matters more than a second copy of
 * a few fields. */
#define KEEP_PAYLOAD_BYTES (64u * 1024u)

/* Rows of payloads above this size are built by a worker. */
#define LARGE_PAYLOAD_BYTES (1u << 20)

/* What a frame adds to a record on its way to a consumer: the batch's head and the record's fixed
 * fields (about 160 bytes), and the topic's name in both. */
#define DELIVERY_OVERHEAD (256u + 2u * 249u)

bool publish_acks_are_none(struct slice acks, bool is_batch) {
  if (is_batch) return slice_equals_text(acks, "0") || slice_equals_text(acks, "none");
  return slice_equals_text(text_trim(acks), "0");
}

bool publish_fits_bigint(uint64_t value) {
  return value <= INT64_MAX;
}

const char publish_too_large[] = "the record is too large to be delivered in one frame";

bool publish_fits_frame(const struct log_record *record) {
  size_t size = log_record_bytes(record) + record->producer_id.length + DELIVERY_OVERHEAD;
  return size <= FRAME_MAX_PAYLOAD;
}

bool publish_check_size(struct call *call, const struct log_record *record) {
  if (publish_fits_frame(record)) return true;
  call_fail(call, "broker_error", FIELD_TEXT("reason", publish_too_large));
  return false;
}

static void free_rows(struct call *call) {
  struct publish *publish = call->state;
  columns_free_list(publish->item.rows);
}

struct publish *publish_create(struct call *call, struct slice topic) {
  struct publish *publish = arena_allocate_zeroed(&call->arena, sizeof *publish);
  publish->call = call;
  call->state = publish;
  call->on_free = free_rows;
  publish->topic = slice_of(arena_copy_text(&call->arena, topic), topic.length);
  return publish;
}

/* ------------------------------------------------------------------ answers */

static void acknowledge(struct publish *publish, int64_t last_offset) {
  struct call *call = publish->call;
  struct buffer out = {0};
  buffer_append_format(
      &out, "{\"status\":\"OK\",\"last_offset\":%lld,\"producer_id\":", (long long)last_offset);
  text_append_json_string(&out, publish->producer_id);
  buffer_append_format(&out,
                       ",\"producer_epoch\":%lld,\"seq_start\":%lld,\"seq_end\":%lld,\"leader\":",
                       (long long)publish->producer_epoch, (long long)publish->first_sequence,
                       (long long)publish->last_sequence);
  text_append_json_string(&out, slice_text(call->crs2->advertised));
  buffer_append_u8(&out, '}');
  call_reply_bytes(call, buffer_slice(&out));
  buffer_release(&out);
}

static void fail_broker_error(struct call *call, const char *reason) {
  call_fail(call, "broker_error", FIELD_TEXT("reason", reason));
}

static void fail_sequence(struct publish *publish, const char *what,
                          const struct append_result *result) {
  struct call *call = publish->call;
  fail_broker_error(
      call,
      arena_format(&call->arena, "idempotency %s for producer %.*s: expected %lld, got %lld", what,
                   (int)publish->producer_id.length, (const char *)publish->producer_id.data,
                   (long long)result->expected, (long long)result->current));
}

static void fail_unavailable(struct call *call, const char *reason) {
  const struct error_field field = FIELD_TEXT("command", call->command->name);
  call_fail_with(call, "cluster_metadata_unavailable", &field, 1, reason);
}

static void answer_refusal(struct publish *publish, const struct append_result *result) {
  struct call *call = publish->call;
  switch (result->status) {
    case APPEND_NO_PARTITION:
      call_fail(call, "partition_not_found",
                FIELD_NUMBER(call, "partition", publish->item.partition));
      break;
    case APPEND_TOO_FEW_REPLICAS:
      call_fail(call, "insufficient_in_sync_replicas",
                FIELD_NUMBER(call, "current", result->current),
                FIELD_NUMBER(call, "required", result->expected));
      break;
    case APPEND_STALE_EPOCH:
      call_fail(call, "stale_producer_epoch", FIELD_SLICE("producer", publish->producer_id),
                FIELD_NUMBER(call, "current", result->current),
                FIELD_NUMBER(call, "got", publish->producer_epoch));
      break;
    case APPEND_SEQUENCE_GAP:
      fail_sequence(publish, "gap", result);
      break;
    case APPEND_WRONG_FIRST_SEQUENCE:
      fail_sequence(publish, "error", result);
      break;
    case APPEND_ORIGINAL_UNKNOWN:
      fail_broker_error(call, "a duplicate whose original offset is no longer known");
      break;
    case APPEND_TIMED_OUT:
      call_fail(call, "request_timeout", FIELD_TEXT("outcome", "not_accepted"));
      break;
    case APPEND_UNKNOWN:
      call_fail(
          call, "replication_unavailable",
          FIELD_TEXT("reason", arena_format(&call->arena, "outcome unknown: %s", result->reason)));
      break;
    case APPEND_UNAVAILABLE:
      fail_unavailable(call, result->reason);
      break;
    default:
      fail_broker_error(call, arena_copy_text(&call->arena, slice_text(result->reason)));
  }
}

static void load_topic(struct publish *publish);

static void on_appended(struct append_item *item, const struct append_result *result) {
  struct publish *publish = (struct publish *)item;
  if (result->status == APPEND_STALE && publish->attempts < MAX_ATTEMPTS) {
    topics_forget(publish->call->crs2->topics, publish->topic);
    load_topic(publish);
    return;
  }
  if (publish->answer && publish->answer(publish, result)) return;
  if (result->status == APPEND_OK || result->status == APPEND_DUPLICATE) {
    acknowledge(publish, result->last_offset);
  } else if (result->status == APPEND_STALE) {
    fail_unavailable(publish->call, "the topic keeps changing");
  } else {
    answer_refusal(publish, result);
  }
}

/* ------------------------------------------------------------------ checks and append */

/* A refusal that a cached definition suggests is made only after reading the definition: another
 * node may just have changed it. */
#define DOUBT_FIRST(publish) \
  if (!(publish)->is_fresh) return PUBLISH_DOUBTFUL

enum publish_verdict publish_check_write_access(struct publish *publish,
                                                const struct topic *topic) {
  struct call *call = publish->call;
  if (topic_allows(topic, TOPIC_WRITE_ACCESS, session_principal(call->session))) {
    return PUBLISH_PASSED;
  }
  DOUBT_FIRST(publish);
  call_fail(call, "NOT_AUTHORIZED_FOR_TOPIC", FIELD_TEXT("operation", "write"),
            FIELD_SLICE("topic", publish->topic));
  return PUBLISH_REFUSED;
}

enum publish_verdict publish_check_replay_topic(struct publish *publish,
                                                const struct topic *topic) {
  if (!topic->aggregate_replay) return PUBLISH_PASSED;
  DOUBT_FIRST(publish);
  call_fail(publish->call, "aggregate_publish_requires_append_stream",
            FIELD_SLICE("topic", publish->topic));
  return PUBLISH_REFUSED;
}

enum publish_verdict publish_check_idempotent_acks(struct publish *publish, bool idempotent) {
  if (!idempotent || publish->acks_all) return PUBLISH_PASSED;
  DOUBT_FIRST(publish);
  call_fail(publish->call, "invalid_acks",
            FIELD_TEXT("reason", "idempotent publish requires acks=all or acks=-1"));
  return PUBLISH_REFUSED;
}

enum publish_verdict publish_fail_partition(struct publish *publish, int64_t partition) {
  DOUBT_FIRST(publish);
  call_fail(publish->call, "partition_not_found",
            FIELD_NUMBER(publish->call, "partition", partition));
  return PUBLISH_REFUSED;
}

enum publish_verdict publish_fail_transaction_fields(struct publish *publish) {
  call_fail(publish->call, "transaction_metadata_forbidden", FIELD_TEXT("command", "PUBLISH"));
  return PUBLISH_REFUSED;
}

static size_t payload_memory(const struct call *call) {
  return call->encoded.capacity + call->decoded.capacity;
}

/* Touches the publish and its call's payload only. */
static void build_rows(struct publish *publish) {
  struct call *call = publish->call;
  publish->refusal_reason = publish->build(publish);
  if (publish->refusal_reason) return;
  if (payload_memory(call) > KEEP_PAYLOAD_BYTES) call_release_payload(call);
  for (const struct columns *row = publish->item.rows; row; row = row->next) {
    publish->item.bytes += columns_memory(row);
    publish->item.row_count++;
  }
}

static void submit(struct publish *publish) {
  publish->item.deadline_us = publish->call->deadline_us;
  publish->item.on_done = on_appended;
  publish->attempts++;
  append_submit(publish->call->crs2->append, &publish->item);
  publish->call->is_placed = true; /* appends to a partition keep the order they are submitted in */
}

static void rows_built(struct publish *publish) {
  struct call *call = publish->call;
  if (publish->refusal_reason) {
    call_fail(call, publish->refusal, FIELD_TEXT("reason", publish->refusal_reason));
    return;
  }
  call_set_charge(call, payload_memory(call) + call->arena.allocated + call->batch_arena.allocated +
                            publish->item.bytes);
  submit(publish);
}

static struct publish *publish_of_job(struct worker_job *job) {
  return (struct publish *)((char *)job - offsetof(struct publish, job));
}

static void run_build(struct worker_job *job) {
  build_rows(publish_of_job(job));
}

static void build_done(struct worker_job *job) {
  rows_built(publish_of_job(job));
}

static void append(struct publish *publish, const struct topic *topic) {
  struct crs2 *crs2 = publish->call->crs2;
  bool idempotent =
      publish->wants_idempotence || crs2->config->enable_idempotence || topic->idempotent;
  enum publish_verdict verdict = publish->check(publish, topic, idempotent);
  if (verdict == PUBLISH_DOUBTFUL) load_topic(publish);
  if (verdict != PUBLISH_PASSED) return;
  publish->item.log_id = topic->log_id;
  publish->item.revision = topic->revision;
  publish->item.wait_for_replicas = publish->acks_all;
  if (publish->item.rows) {
    submit(publish);
    return;
  }
  publish->is_idempotent = idempotent;
  if (payload_memory(publish->call) > LARGE_PAYLOAD_BYTES) {
    publish->job.run = run_build;
    publish->job.done = build_done;
    worker_pool_submit(crs2->workers, &publish->job);
  } else {
    build_rows(publish);
    rows_built(publish);
  }
}

static void fail_not_found(struct publish *publish) {
  call_fail(publish->call, "topic_not_found", FIELD_SLICE("topic", publish->topic));
}

static void on_topic_loaded(struct topic_load *load, enum control_status status,
                            struct topic *topic, const char *reason) {
  struct publish *publish = (struct publish *)((char *)load - offsetof(struct publish, load));
  if (status != CONTROL_OK) {
    call_fail_control_status(publish->call, status, reason);
  } else if (topic == NULL) {
    fail_not_found(publish);
  } else {
    publish->is_fresh = true;
    append(publish, topic);
  }
}

static void load_topic(struct publish *publish) {
  publish->is_fresh = false;
  publish->load.on_done = on_topic_loaded;
  publish->load.call.deadline_us = publish->call->deadline_us;
  topics_load(publish->call->crs2->topics, &publish->load, publish->topic);
}

void publish_run(struct publish *publish) {
  if (field_check_topic_name(publish->topic) != NULL) {
    fail_not_found(publish);
    return;
  }
  struct topic *topic = topics_find(publish->call->crs2->topics, publish->topic);
  if (topic) {
    append(publish, topic);
  } else {
    load_topic(publish);
  }
}

void handle_publish(struct call *call) {
  if (call->is_batch) {
    handle_publish_batch(call);
  } else {
    handle_publish_single(call);
  }
}
