/* PUBLISH and CONSUME in terms of records: building the requests, reading acknowledgements and
 * batches.
 *
 * Must never touch the socket; it goes through the functions of pgcursus.h like any other caller.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "crs2/wire/batch.h"
#include "crs2/wire/command_id.h"
#include "internal.h"

struct pgcursus_bytes pgcursus_text(const char *text) {
  return client_bytes(slice_text(text));
}

/* ---- publish --------------------------------------------------------------------------------- */

/* Fields of one request, with room for the numbers among them. */
struct field_list {
  struct pgcursus_field fields[16];
  size_t count;
  char numbers[16][24];
};

static void add_bytes(struct field_list *list, const char *name, struct pgcursus_bytes value) {
  list->fields[list->count++] =
      (struct pgcursus_field){.name = pgcursus_text(name), .value = value};
}

static void add_text(struct field_list *list, const char *name, const char *value) {
  add_bytes(list, name, pgcursus_text(value));
}

static void add_unsigned(struct field_list *list, const char *name, uint64_t value) {
  char *place = list->numbers[list->count];
  snprintf(place, sizeof list->numbers[0], "%" PRIu64, value);
  add_text(list, name, place);
}

static void add_signed(struct field_list *list, const char *name, int64_t value) {
  char *place = list->numbers[list->count];
  snprintf(place, sizeof list->numbers[0], "%" PRId64, value);
  add_text(list, name, place);
}

/* Values that are the default are left out; `message` goes last, as every SDK sends it. */
static void list_publish(struct field_list *list, const char *topic, int32_t partition,
                         const char *acks, bool idempotent, const struct pgcursus_record *record) {
  add_text(list, "topic", topic);
  if (partition >= 0) add_signed(list, "partition", partition);
  add_text(list, "acks", acks ? acks : "1");
  add_bytes(list, "producerId", record->producer_id);
  if (record->sequence) add_unsigned(list, "seqNum", record->sequence);
  if (record->epoch) add_signed(list, "epoch", record->epoch);
  if (idempotent) add_text(list, "isIdempotent", "true");
  if (record->key.length) add_bytes(list, "key", record->key);
  if (record->event_type.length) add_bytes(list, "event_type", record->event_type);
  if (record->schema_version) add_unsigned(list, "schema_version", record->schema_version);
  if (record->aggregate_version) add_unsigned(list, "aggregate_version", record->aggregate_version);
  if (record->metadata.length) add_bytes(list, "metadata", record->metadata);
  add_bytes(list, "message", record->payload);
}

enum pgcursus_result pgcursus_send_publish(struct pgcursus *client, const char *topic,
                                           int32_t partition, const char *acks, bool idempotent,
                                           const struct pgcursus_record *record,
                                           uint64_t *request_id) {
  struct field_list list = {.count = 0};
  list_publish(&list, topic, partition, acks, idempotent, record);
  return pgcursus_send(client, COMMAND_PUBLISH, list.fields, list.count, request_id);
}

/* The end of the JSON string that begins at `position`, behind its closing quote. */
static const char *skip_string(const char *position, const char *end) {
  for (position++; position < end && *position != '"'; position++) {
    if (*position == '\\') position++;
  }
  return position < end ? position + 1 : end;
}

/* An integer member of a flat JSON object, which is all that an acknowledgement is; a JSON library
 * would be this library's only other dependency. */
static bool find_integer(struct pgcursus_bytes json, const char *name, int64_t *value) {
  const char *position = json.length ? json.data : "";
  const char *end = position + json.length;
  size_t length = strlen(name);
  while (position < end) {
    if (*position != '"') {
      position++;
      continue;
    }
    const char *text = position + 1;
    position = skip_string(position, end);
    bool matches = (size_t)(position - text) == length + 1 && memcmp(text, name, length) == 0;
    while (position < end && (*position == ' ' || *position == ':')) position++;
    if (!matches || position == end || position[-1] == '"') continue;
    char digits[24] = "";
    size_t count = (size_t)(end - position);
    memcpy(digits, position, count < sizeof digits - 1 ? count : sizeof digits - 1);
    char *rest;
    *value = (int64_t)strtoll(digits, &rest, 10);
    return rest != digits;
  }
  return false;
}

enum pgcursus_result pgcursus_read_ack(struct pgcursus *client, const struct pgcursus_reply *reply,
                                       struct pgcursus_ack *ack) {
  int64_t start = 0;
  int64_t end = 0;
  *ack = (struct pgcursus_ack){.last_offset = -1};
  if (!find_integer(reply->payload, "last_offset", &ack->last_offset)) {
    return client_fail(client, PGCURSUS_BROKEN, "the answer of a PUBLISH is no acknowledgement");
  }
  if (find_integer(reply->payload, "seq_start", &start)) ack->sequence_start = (uint64_t)start;
  if (find_integer(reply->payload, "seq_end", &end)) ack->sequence_end = (uint64_t)end;
  return PGCURSUS_OK;
}

/* Waits for the one answer outstanding and reads it; with acks 0 only writes. */
static enum pgcursus_result finish_publish(struct pgcursus *client, struct pgcursus_ack *ack) {
  *ack = (struct pgcursus_ack){.last_offset = -1};
  if (pgcursus_outstanding(client) == 0) return pgcursus_flush(client);
  struct pgcursus_reply reply;
  enum pgcursus_result result = pgcursus_receive(client, &reply);
  return result == PGCURSUS_OK ? pgcursus_read_ack(client, &reply, ack) : result;
}

static enum pgcursus_result refuse_outstanding(struct pgcursus *client) {
  if (client->broken) return PGCURSUS_BROKEN;
  if (pgcursus_outstanding(client) == 0) return PGCURSUS_OK;
  return client_fail(client, PGCURSUS_INVALID, "earlier answers have not been received");
}

enum pgcursus_result pgcursus_publish(struct pgcursus *client, const char *topic, int32_t partition,
                                      const char *acks, bool idempotent,
                                      const struct pgcursus_record *record,
                                      struct pgcursus_ack *ack) {
  enum pgcursus_result result = refuse_outstanding(client);
  if (result == PGCURSUS_OK) {
    result = pgcursus_send_publish(client, topic, partition, acks, idempotent, record, NULL);
  }
  return result == PGCURSUS_OK ? finish_publish(client, ack) : result;
}

static struct record encodable(const struct pgcursus_record *from) {
  return (struct record){
      .payload = client_slice(from->payload),
      .key = client_slice(from->key),
      .timestamp = from->timestamp_ms,
      .producer_id = client_slice(from->producer_id),
      .sequence = from->sequence,
      .epoch = from->epoch,
      .event_type = client_slice(from->event_type),
      .schema_version = from->schema_version,
      .aggregate_version = from->aggregate_version,
      .metadata = client_slice(from->metadata),
  };
}

enum pgcursus_result pgcursus_send_batch(struct pgcursus *client,
                                         const struct pgcursus_batch *batch, uint64_t *request_id) {
  if (batch->record_count > BATCH_MAX_RECORDS) {
    return client_fail(client, PGCURSUS_INVALID, "more than %u records in a batch",
                       BATCH_MAX_RECORDS);
  }
  struct arena arena = {0};
  struct buffer payload = {0};
  struct batch wire = {
      .topic = client_slice(batch->topic),
      .partition = batch->partition,
      .acks = client_slice(batch->acks),
      .idempotent = batch->idempotent,
      .record_count = (uint32_t)batch->record_count,
      .records = arena_allocate(&arena, (batch->record_count + 1) * sizeof *wire.records),
  };
  for (size_t i = 0; i < batch->record_count; i++) wire.records[i] = encodable(&batch->records[i]);
  enum pgcursus_result result;
  const char *reason = batch_encode(&wire, &payload);
  if (reason) {
    result = client_fail(client, PGCURSUS_INVALID, "the batch cannot be sent: %s", reason);
  } else {
    bool expects_answer = !slice_equals_text(wire.acks, "0");
    result =
        client_queue(client, COMMAND_PUBLISH, buffer_slice(&payload), expects_answer, request_id);
  }
  buffer_release(&payload);
  arena_release(&arena);
  return result;
}

enum pgcursus_result pgcursus_publish_batch(struct pgcursus *client,
                                            const struct pgcursus_batch *batch,
                                            struct pgcursus_ack *ack) {
  enum pgcursus_result result = refuse_outstanding(client);
  if (result == PGCURSUS_OK) result = pgcursus_send_batch(client, batch, NULL);
  return result == PGCURSUS_OK ? finish_publish(client, ack) : result;
}

int32_t pgcursus_partition_of_key(struct pgcursus_bytes key, int32_t partition_count) {
  if (partition_count <= 1) return 0;
  return (int32_t)(hash_fnv1a64(client_slice(key)) % (uint64_t)partition_count);
}

/* ---- consume --------------------------------------------------------------------------------- */

static enum pgcursus_result send_fetch(struct pgcursus *client, uint16_t command,
                                       const struct pgcursus_fetch *fetch, uint64_t *request_id) {
  struct field_list list = {.count = 0};
  add_text(&list, "topic", fetch->topic);
  add_signed(&list, "partition", fetch->partition);
  add_unsigned(&list, "offset", fetch->offset);
  add_text(&list, "member", fetch->member ? fetch->member : "pgcursus");
  if (fetch->group) add_text(&list, "group", fetch->group);
  if (fetch->isolation) add_text(&list, "isolation", fetch->isolation);
  if (fetch->max_records) add_unsigned(&list, "batch", fetch->max_records);
  if (fetch->wait_ms) add_unsigned(&list, "wait_ms", fetch->wait_ms);
  return pgcursus_send(client, command, list.fields, list.count, request_id);
}

enum pgcursus_result pgcursus_send_consume(struct pgcursus *client,
                                           const struct pgcursus_fetch *fetch,
                                           uint64_t *request_id) {
  return send_fetch(client, COMMAND_CONSUME, fetch, request_id);
}

enum pgcursus_result pgcursus_send_stream(struct pgcursus *client,
                                          const struct pgcursus_fetch *fetch,
                                          uint64_t *request_id) {
  return send_fetch(client, COMMAND_STREAM, fetch, request_id);
}

enum pgcursus_result pgcursus_consume(struct pgcursus *client, const struct pgcursus_fetch *fetch,
                                      struct pgcursus_batch *batch) {
  enum pgcursus_result result = refuse_outstanding(client);
  if (result == PGCURSUS_OK) result = pgcursus_send_consume(client, fetch, NULL);
  if (result != PGCURSUS_OK) return result;
  int timeout_ms = client->timeout_ms;
  if (timeout_ms >= 0) client->timeout_ms += (int)fetch->wait_ms;
  struct pgcursus_reply reply;
  result = pgcursus_receive(client, &reply);
  client->timeout_ms = timeout_ms;
  return result == PGCURSUS_OK ? pgcursus_read_batch(client, &reply, batch) : result;
}

bool pgcursus_is_batch(struct pgcursus_bytes payload) {
  return batch_is_batch(client_slice(payload));
}

static struct pgcursus_record decoded(const struct record *from) {
  return (struct pgcursus_record){
      .offset = from->offset,
      .payload = client_bytes(from->payload),
      .key = client_bytes(from->key),
      .timestamp_ms = from->timestamp,
      .producer_id = client_bytes(from->producer_id),
      .sequence = from->sequence,
      .epoch = from->epoch,
      .event_type = client_bytes(from->event_type),
      .schema_version = from->schema_version,
      .aggregate_version = from->aggregate_version,
      .metadata = client_bytes(from->metadata),
      .transactional_id = client_bytes(from->transactional_id),
      .transaction_state = client_bytes(from->transaction_state),
      .transaction_marker = client_bytes(from->transaction_marker),
      .event_id = client_bytes(from->event_id),
      .payload_digest = client_bytes(from->payload_digest),
  };
}

enum pgcursus_result pgcursus_read_batch(struct pgcursus *client,
                                         const struct pgcursus_reply *reply,
                                         struct pgcursus_batch *batch) {
  struct batch wire;
  const char *reason = batch_decode(client_slice(reply->payload), &client->scratch, &wire);
  if (reason) return client_fail(client, PGCURSUS_BROKEN, "malformed batch: %s", reason);
  struct pgcursus_record *records =
      arena_allocate(&client->scratch, ((size_t)wire.record_count + 1) * sizeof *records);
  for (uint32_t i = 0; i < wire.record_count; i++) records[i] = decoded(&wire.records[i]);
  *batch = (struct pgcursus_batch){
      .topic = client_bytes(wire.topic),
      .partition = wire.partition,
      .acks = client_bytes(wire.acks),
      .idempotent = wire.idempotent,
      .record_count = wire.record_count,
      .records = records,
  };
  return PGCURSUS_OK;
}

struct pgcursus_bytes pgcursus_ok_field(struct pgcursus_bytes text, const char *name) {
  const char *position = text.length ? text.data : "";
  const char *end = position + text.length;
  size_t name_length = strlen(name);
  while (position < end) {
    const char *blank = memchr(position, ' ', (size_t)(end - position));
    const char *word_end = blank ? blank : end;
    size_t length = (size_t)(word_end - position);
    if (length > name_length && position[name_length] == '=' &&
        memcmp(position, name, name_length) == 0) {
      return (struct pgcursus_bytes){position + name_length + 1, length - name_length - 1};
    }
    position = blank ? blank + 1 : end;
  }
  return (struct pgcursus_bytes){.data = NULL, .length = 0};
}
