/* CRS2 records (crs2-wire 11), versions 2 and 3. */
#ifndef PGCURSUS_CRS2_WIRE_RECORD_H
#define PGCURSUS_CRS2_WIRE_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/slice.h"

/* Presence bits, in the order the sections follow. */
enum record_presence {
  RECORD_HAS_TIMESTAMP = 1u << 0,
  RECORD_HAS_PRODUCER = 1u << 1,
  RECORD_HAS_KEY = 1u << 2,
  RECORD_HAS_EVENT_TYPE = 1u << 3,
  RECORD_HAS_SCHEMA_VERSION = 1u << 4,
  RECORD_HAS_AGGREGATE_VERSION = 1u << 5,
  RECORD_HAS_METADATA = 1u << 6,
  RECORD_HAS_TRANSACTIONAL_ID = 1u << 7,
  RECORD_HAS_TRANSACTION_STATE = 1u << 8,
  RECORD_HAS_TRANSACTION_MARKER = 1u << 9,
  RECORD_HAS_CONTROL_TYPE = 1u << 10,
  RECORD_HAS_CONTROL_VERSION = 1u << 11,
  RECORD_HAS_CONTROL_EPOCH = 1u << 12,
  RECORD_HAS_CONTROL_KEY = 1u << 13,
  RECORD_HAS_CONTROL_VALUE = 1u << 14,
  RECORD_HAS_EVENT_ID = 1u << 15,
  RECORD_HAS_PAYLOAD_DIGEST = 1u << 16,
};

/* Everything a record can carry. Topic and partition belong to the batch. A field whose presence
 * bit is unset has its default (0 or empty). */
struct record {
  uint32_t presence; /* as decoded; encoders compute the canonical value themselves */
  uint64_t offset;
  struct slice payload;
  int64_t timestamp; /* Unix milliseconds (ruling D8) */
  struct slice producer_id;
  uint64_t sequence;
  int64_t epoch;
  struct slice key;
  struct slice event_type;
  uint32_t schema_version;
  uint64_t aggregate_version;
  struct slice metadata;
  struct slice transactional_id;
  struct slice transaction_state;  /* empty, "open", "committed", "aborted" */
  struct slice transaction_marker; /* empty, "commit", "abort" */
  struct slice control_type;       /* empty, "transaction" */
  int16_t control_version;
  int64_t control_epoch;
  bool has_control_key; /* present even when it has no bytes */
  struct slice control_key;
  bool has_control_value;
  struct slice control_value;
  struct slice event_id;
  struct slice payload_digest;
};

/* Decodes one record (without its length prefix) of either version. Its topic and partition are
 * returned for the batch to compare. Slices view `bytes`. NULL, or why it is refused. */
const char *record_decode(struct slice bytes, struct record *record, struct slice *topic,
                          int32_t *partition) __attribute__((warn_unused_result));

/* Appends a record in canonical form: version 2, or 3 when it has an event id or a payload digest
 * (ruling D1). NULL, or which enumerated value is invalid (`out` is then unchanged). */
const char *record_encode(const struct record *record, struct slice topic, int32_t partition,
                          struct buffer *out) __attribute__((warn_unused_result));

/* The canonical presence bits of a record's values. */
uint32_t record_canonical_presence(const struct record *record);

#endif
