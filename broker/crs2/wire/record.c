/* CRS2 records. This is the hot path of publish and consume: a record is measured once, the buffer
 * grows once, and the bytes are stored in a straight line. */
#include "crs2/wire/record.h"

#include <endian.h>

#include "base/cursor.h"
#include "crs2/wire/record_codec.h"

#define RECORD_VERSION_2 2u
#define RECORD_VERSION_3 3u
#define RECORD_MASK_2 UINT64_C(0x7FFF)
#define RECORD_MASK_3 UINT64_C(0x1FFFF)
#define RECORD_VERSION_3_BITS (RECORD_HAS_EVENT_ID | RECORD_HAS_PAYLOAD_DIGEST)

/* Version, presence, topic length, partition, offset, payload length. */
#define RECORD_FIXED_SIZE 30u

static const char bad_state[] = "unknown transaction state";
static const char bad_marker[] = "unknown transaction marker";
static const char bad_control_type[] = "unknown control batch type";
static const char too_long[] = "the record is larger than 64 MiB";

/* A frame carries no more than this. */
#define RECORD_MAX_SIZE 67108864u

#define IS_TEXT(bytes, text) \
  ((bytes).length == sizeof(text) - 1 && memcmp((bytes).data, text, sizeof(text) - 1) == 0)

/* The three enumerated strings; empty always passes. */
static const char *check_enumerated(const struct record *record) {
  struct slice state = record->transaction_state, marker = record->transaction_marker;
  if (state.length && !IS_TEXT(state, "open") && !IS_TEXT(state, "committed") &&
      !IS_TEXT(state, "aborted"))
    return bad_state;
  if (marker.length && !IS_TEXT(marker, "commit") && !IS_TEXT(marker, "abort")) return bad_marker;
  if (record->control_type.length && !IS_TEXT(record->control_type, "transaction"))
    return bad_control_type;
  return NULL;
}

/* ---- decoding ---- */

/* Bits 0 to 6, which ordinary records use. */
static void decode_common(struct cursor *cursor, struct record *record) {
  uint32_t presence = record->presence;
  if (presence & RECORD_HAS_TIMESTAMP) record->timestamp = (int64_t)cursor_u64(cursor);
  if (presence & RECORD_HAS_PRODUCER) {
    record->producer_id = cursor_bytes(cursor);
    record->sequence = cursor_u64(cursor);
    record->epoch = (int64_t)cursor_u64(cursor);
  }
  if (presence & RECORD_HAS_KEY) record->key = cursor_bytes(cursor);
  if (presence & RECORD_HAS_EVENT_TYPE) record->event_type = cursor_bytes(cursor);
  if (presence & RECORD_HAS_SCHEMA_VERSION) record->schema_version = cursor_u32(cursor);
  if (presence & RECORD_HAS_AGGREGATE_VERSION) record->aggregate_version = cursor_u64(cursor);
  if (presence & RECORD_HAS_METADATA) record->metadata = cursor_bytes(cursor);
}

/* Bits 7 to 16: transactions, control markers and what version 3 added. */
static void decode_rare(struct cursor *cursor, struct record *record) {
  uint32_t presence = record->presence;
  if (presence & RECORD_HAS_TRANSACTIONAL_ID) record->transactional_id = cursor_bytes(cursor);
  if (presence & RECORD_HAS_TRANSACTION_STATE) record->transaction_state = cursor_bytes(cursor);
  if (presence & RECORD_HAS_TRANSACTION_MARKER) record->transaction_marker = cursor_bytes(cursor);
  if (presence & RECORD_HAS_CONTROL_TYPE) record->control_type = cursor_bytes(cursor);
  if (presence & RECORD_HAS_CONTROL_VERSION) record->control_version = (int16_t)cursor_u16(cursor);
  if (presence & RECORD_HAS_CONTROL_EPOCH) record->control_epoch = (int64_t)cursor_u64(cursor);
  if (presence & RECORD_HAS_CONTROL_KEY) {
    record->has_control_key = true;
    record->control_key = cursor_bytes(cursor);
  }
  if (presence & RECORD_HAS_CONTROL_VALUE) {
    record->has_control_value = true;
    record->control_value = cursor_bytes(cursor);
  }
  if (presence & RECORD_HAS_EVENT_ID) record->event_id = cursor_bytes(cursor);
  if (presence & RECORD_HAS_PAYLOAD_DIGEST) record->payload_digest = cursor_bytes(cursor);
}

const char *record_decode(struct slice bytes, struct record *record, struct slice *topic,
                          int32_t *partition) {
  struct cursor cursor = cursor_over(bytes);
  uint16_t version = cursor_u16(&cursor);
  if (version != RECORD_VERSION_2 && version != RECORD_VERSION_3)
    return cursor.failed ? "the record is cut short" : "unsupported record version";
  uint64_t presence = cursor_u64(&cursor);
  if (presence & ~(version == RECORD_VERSION_2 ? RECORD_MASK_2 : RECORD_MASK_3))
    return "unknown presence bits";
  *topic = cursor_bytes(&cursor);
  *partition = (int32_t)cursor_u32(&cursor);
  uint64_t offset = cursor_u64(&cursor);
  *record = (struct record){
      .presence = (uint32_t)presence, .offset = offset, .payload = cursor_bytes(&cursor)};
  decode_common(&cursor, record);
  if (presence >= RECORD_HAS_TRANSACTIONAL_ID) decode_rare(&cursor, record);
  if (!cursor_is_finished(&cursor)) return "the record has the wrong length";
  return presence >= RECORD_HAS_TRANSACTIONAL_ID ? check_enumerated(record) : NULL;
}

/* ---- encoding ---- */

#define BIT_IF(condition, bit) ((condition) ? (uint32_t)(bit) : 0u)

uint32_t record_canonical_presence(const struct record *record) {
  return BIT_IF(record->timestamp, RECORD_HAS_TIMESTAMP) |
         BIT_IF(record->producer_id.length || record->sequence || record->epoch,
                RECORD_HAS_PRODUCER) |
         BIT_IF(record->key.length, RECORD_HAS_KEY) |
         BIT_IF(record->event_type.length, RECORD_HAS_EVENT_TYPE) |
         BIT_IF(record->schema_version, RECORD_HAS_SCHEMA_VERSION) |
         BIT_IF(record->aggregate_version, RECORD_HAS_AGGREGATE_VERSION) |
         BIT_IF(record->metadata.length, RECORD_HAS_METADATA) |
         BIT_IF(record->transactional_id.length, RECORD_HAS_TRANSACTIONAL_ID) |
         BIT_IF(record->transaction_state.length, RECORD_HAS_TRANSACTION_STATE) |
         BIT_IF(record->transaction_marker.length, RECORD_HAS_TRANSACTION_MARKER) |
         BIT_IF(record->control_type.length, RECORD_HAS_CONTROL_TYPE) |
         BIT_IF(record->control_version, RECORD_HAS_CONTROL_VERSION) |
         BIT_IF(record->control_epoch, RECORD_HAS_CONTROL_EPOCH) |
         BIT_IF(record->has_control_key, RECORD_HAS_CONTROL_KEY) |
         BIT_IF(record->has_control_value, RECORD_HAS_CONTROL_VALUE) |
         BIT_IF(record->event_id.length, RECORD_HAS_EVENT_ID) |
         BIT_IF(record->payload_digest.length, RECORD_HAS_PAYLOAD_DIGEST);
}

#define SIZE_IF(bit, size) (presence & (bit) ? (size_t)(size) : 0u)

/* Exact: no slice of this process can be long enough to make the sum wrap. */
static size_t record_size(const struct record *record, uint32_t presence, struct slice topic) {
  size_t size = RECORD_FIXED_SIZE + topic.length + record->payload.length +
                SIZE_IF(RECORD_HAS_TIMESTAMP, 8) +
                SIZE_IF(RECORD_HAS_PRODUCER, 20 + record->producer_id.length) +
                SIZE_IF(RECORD_HAS_KEY, 4 + record->key.length) +
                SIZE_IF(RECORD_HAS_EVENT_TYPE, 4 + record->event_type.length) +
                SIZE_IF(RECORD_HAS_SCHEMA_VERSION, 4) + SIZE_IF(RECORD_HAS_AGGREGATE_VERSION, 8) +
                SIZE_IF(RECORD_HAS_METADATA, 4 + record->metadata.length);
  if (presence < RECORD_HAS_TRANSACTIONAL_ID) return size;
  return size + SIZE_IF(RECORD_HAS_TRANSACTIONAL_ID, 4 + record->transactional_id.length) +
         SIZE_IF(RECORD_HAS_TRANSACTION_STATE, 4 + record->transaction_state.length) +
         SIZE_IF(RECORD_HAS_TRANSACTION_MARKER, 4 + record->transaction_marker.length) +
         SIZE_IF(RECORD_HAS_CONTROL_TYPE, 4 + record->control_type.length) +
         SIZE_IF(RECORD_HAS_CONTROL_VERSION, 2) + SIZE_IF(RECORD_HAS_CONTROL_EPOCH, 8) +
         SIZE_IF(RECORD_HAS_CONTROL_KEY, 4 + record->control_key.length) +
         SIZE_IF(RECORD_HAS_CONTROL_VALUE, 4 + record->control_value.length) +
         SIZE_IF(RECORD_HAS_EVENT_ID, 4 + record->event_id.length) +
         SIZE_IF(RECORD_HAS_PAYLOAD_DIGEST, 4 + record->payload_digest.length);
}

static inline uint8_t *put_u16(uint8_t *at, uint16_t value) {
  value = htobe16(value);
  memcpy(at, &value, sizeof value);
  return at + sizeof value;
}

static inline uint8_t *put_u32(uint8_t *at, uint32_t value) {
  value = htobe32(value);
  memcpy(at, &value, sizeof value);
  return at + sizeof value;
}

static inline uint8_t *put_u64(uint8_t *at, uint64_t value) {
  value = htobe64(value);
  memcpy(at, &value, sizeof value);
  return at + sizeof value;
}

static inline uint8_t *put_bytes(uint8_t *at, struct slice bytes) {
  at = put_u32(at, (uint32_t)bytes.length);
  if (bytes.length) memcpy(at, bytes.data, bytes.length);
  return at + bytes.length;
}

static uint8_t *put_common(uint8_t *at, const struct record *record, uint32_t presence) {
  if (presence & RECORD_HAS_TIMESTAMP) at = put_u64(at, (uint64_t)record->timestamp);
  if (presence & RECORD_HAS_PRODUCER) {
    at = put_bytes(at, record->producer_id);
    at = put_u64(at, record->sequence);
    at = put_u64(at, (uint64_t)record->epoch);
  }
  if (presence & RECORD_HAS_KEY) at = put_bytes(at, record->key);
  if (presence & RECORD_HAS_EVENT_TYPE) at = put_bytes(at, record->event_type);
  if (presence & RECORD_HAS_SCHEMA_VERSION) at = put_u32(at, record->schema_version);
  if (presence & RECORD_HAS_AGGREGATE_VERSION) at = put_u64(at, record->aggregate_version);
  if (presence & RECORD_HAS_METADATA) at = put_bytes(at, record->metadata);
  return at;
}

static uint8_t *put_rare(uint8_t *at, const struct record *record, uint32_t presence) {
  if (presence & RECORD_HAS_TRANSACTIONAL_ID) at = put_bytes(at, record->transactional_id);
  if (presence & RECORD_HAS_TRANSACTION_STATE) at = put_bytes(at, record->transaction_state);
  if (presence & RECORD_HAS_TRANSACTION_MARKER) at = put_bytes(at, record->transaction_marker);
  if (presence & RECORD_HAS_CONTROL_TYPE) at = put_bytes(at, record->control_type);
  if (presence & RECORD_HAS_CONTROL_VERSION) at = put_u16(at, (uint16_t)record->control_version);
  if (presence & RECORD_HAS_CONTROL_EPOCH) at = put_u64(at, (uint64_t)record->control_epoch);
  if (presence & RECORD_HAS_CONTROL_KEY) at = put_bytes(at, record->control_key);
  if (presence & RECORD_HAS_CONTROL_VALUE) at = put_bytes(at, record->control_value);
  if (presence & RECORD_HAS_EVENT_ID) at = put_bytes(at, record->event_id);
  if (presence & RECORD_HAS_PAYLOAD_DIGEST) at = put_bytes(at, record->payload_digest);
  return at;
}

static inline const char *append_record(const struct record *record, struct slice topic,
                                        int32_t partition, struct buffer *out, bool prefixed) {
  uint32_t presence = record_canonical_presence(record);
  if (presence >= RECORD_HAS_TRANSACTIONAL_ID) {
    const char *refusal = check_enumerated(record);
    if (refusal) return refusal;
  }
  size_t size = record_size(record, presence, topic);
  if (size > RECORD_MAX_SIZE) return too_long;
  uint8_t *start = buffer_reserve(out, size + 4);
  uint8_t *at = prefixed ? put_u32(start, (uint32_t)size) : start;
  at = put_u16(at, presence & RECORD_VERSION_3_BITS ? RECORD_VERSION_3 : RECORD_VERSION_2);
  at = put_u64(at, presence);
  at = put_bytes(at, topic);
  at = put_u32(at, (uint32_t)partition);
  at = put_u64(at, record->offset);
  at = put_bytes(at, record->payload);
  at = put_common(at, record, presence);
  if (presence >= RECORD_HAS_TRANSACTIONAL_ID) at = put_rare(at, record, presence);
  out->length += (size_t)(at - start);
  return NULL;
}

const char *record_encode(const struct record *record, struct slice topic, int32_t partition,
                          struct buffer *out) {
  return append_record(record, topic, partition, out, false);
}

const char *record_encode_prefixed(const struct record *record, struct slice topic,
                                   int32_t partition, struct buffer *out) {
  return append_record(record, topic, partition, out, true);
}
