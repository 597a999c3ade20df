/* Records on their way into one row of record_batches: column arrays in PostgreSQL's binary format,
 * built record by record. A column that no record uses stays NULL. */
#ifndef PGCURSUS_LOG_COLUMNS_H
#define PGCURSUS_LOG_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "log/record.h"

/* A row holds about this much payload and key; one larger record is a row of its own. */
#define COLUMNS_ROW_BYTES (256u * 1024u)
#define COLUMNS_ROW_RECORDS 10000u

enum column {
  COLUMN_PAYLOADS,
  COLUMN_KEYS,
  COLUMN_TIMESTAMPS,
  COLUMN_SEQUENCES,
  COLUMN_PRODUCER_IDS,
  COLUMN_PRODUCER_EPOCHS,
  COLUMN_EVENT_TYPES,
  COLUMN_SCHEMA_VERSIONS,
  COLUMN_AGGREGATE_VERSIONS,
  COLUMN_METADATA,
  COLUMN_EVENT_IDS,
  COLUMN_PAYLOAD_DIGESTS,
  COLUMN_COUNT
};

/* The pg_type oid of a column's elements. */
extern const uint32_t column_types[COLUMN_COUNT];

/* How the sequence numbers of a row are stored (see append.sql): as a run, as one number, or as an
 * array. */
enum sequence_form { SEQUENCE_RUN, SEQUENCE_CONSTANT, SEQUENCE_ARRAY };

struct columns {
  struct columns *next; /* for the owner's lists */
  bool
      idempotent; /* one producer and epoch, sequences >= 1, to be checked against what is stored */
  uint32_t record_count;
  size_t byte_count;                  /* payload and key bytes */
  size_t stored_bytes;                /* likewise, and the other texts */
  struct buffer arrays[COLUMN_COUNT]; /* empty: the column is NULL */
  struct buffer producer_id;          /* of every record, unless COLUMN_PRODUCER_IDS is used */
  int64_t producer_epoch;             /* likewise */
  int64_t first_sequence;
  int64_t last_sequence;
  enum sequence_form sequence_form;
};

struct columns *columns_create(void) __attribute__((returns_nonnull, warn_unused_result));
void columns_free(struct columns *columns);

/* Frees a list linked by `next`. */
void columns_free_list(struct columns *columns);

/* True when a record of that size still belongs into this row. */
bool columns_have_room(const struct columns *columns, size_t record_bytes);

/* Adds a record at the end. Every byte is copied. */
void columns_add(struct columns *columns, const struct log_record *record);

/* Appends all records of `other` (which is left as it is) after those of `columns`. */
void columns_merge(struct columns *columns, const struct columns *other);

/* Completes the array headers; call once, after the last record and before the bytes are used. A
 * record may still be added afterwards if it is called again. */
void columns_finish(struct columns *columns);

/* Bytes of memory held. */
size_t columns_memory(const struct columns *columns);

#endif
