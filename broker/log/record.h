/* A record as the core sees it, whichever protocol it came by. */
#ifndef PGCURSUS_LOG_RECORD_H
#define PGCURSUS_LOG_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

/* Slices view memory that somebody else keeps. An empty slice, or 0, means absent for everything
 * but the payload, which may be empty. Texts (producer_id, event_type, metadata) are UTF-8 without
 * NUL. */
struct log_record {
  int64_t offset; /* set when read */
  struct slice payload;
  struct slice key;
  bool has_timestamp;
  int64_t timestamp; /* Unix milliseconds */
  struct slice producer_id;
  int64_t producer_epoch;
  int64_t sequence;
  struct slice event_type;
  int64_t schema_version;
  int64_t aggregate_version;
  struct slice metadata;
  struct slice event_id;
  struct slice payload_digest;
};

/* What a record takes in its row besides fixed-size values; the producer id not counted, which rows
 * of one producer hold once. */
static inline size_t log_record_bytes(const struct log_record *record) {
  return record->payload.length + record->key.length + record->event_type.length +
         record->metadata.length + record->event_id.length + record->payload_digest.length;
}

#endif
