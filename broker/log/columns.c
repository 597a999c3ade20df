/* Builds the column arrays of a row. Pure: no I/O. The binary array format is PostgreSQL's
 * array_recv(): dimensions, flags, element type, length and lower bound, then each element as a
 * length (-1 for NULL) and its bytes. */
#include "log/columns.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define ARRAY_HEADER_SIZE 20u
#define ARRAY_NULL 0xFFFFFFFFu

/* pg_type oids; part of PostgreSQL's stable catalogue. */
#define OID_BYTEA 17u
#define OID_INT8 20u
#define OID_TEXT 25u

const uint32_t column_types[COLUMN_COUNT] = {
    [COLUMN_PAYLOADS] = OID_BYTEA,          [COLUMN_KEYS] = OID_BYTEA,
    [COLUMN_TIMESTAMPS] = OID_INT8,         [COLUMN_SEQUENCES] = OID_INT8,
    [COLUMN_PRODUCER_IDS] = OID_TEXT,       [COLUMN_PRODUCER_EPOCHS] = OID_INT8,
    [COLUMN_EVENT_TYPES] = OID_TEXT,        [COLUMN_SCHEMA_VERSIONS] = OID_INT8,
    [COLUMN_AGGREGATE_VERSIONS] = OID_INT8, [COLUMN_METADATA] = OID_TEXT,
    [COLUMN_EVENT_IDS] = OID_TEXT,          [COLUMN_PAYLOAD_DIGESTS] = OID_TEXT,
};

struct columns *columns_create(void) {
  return memory_allocate_zeroed(1, sizeof(struct columns));
}

void columns_free(struct columns *columns) {
  if (columns == NULL) return;
  for (int i = 0; i < COLUMN_COUNT; i++) buffer_release(&columns->arrays[i]);
  buffer_release(&columns->producer_id);
  free(columns);
}

void columns_free_list(struct columns *columns) {
  while (columns) {
    struct columns *next = columns->next;
    columns_free(columns);
    columns = next;
  }
}

bool columns_have_room(const struct columns *columns, size_t record_bytes) {
  if (columns->record_count == 0) return true;
  return columns->record_count < COLUMNS_ROW_RECORDS &&
         columns->stored_bytes + record_bytes <= COLUMNS_ROW_BYTES;
}

/* ------------------------------------------------------------------ elements */

static void add_null(struct buffer *array) {
  buffer_append_u32(array, ARRAY_NULL);
}

static void add_bytes(struct buffer *array, struct slice bytes) {
  uint8_t *place = buffer_extend(array, 4 + bytes.length);
  uint32_t length = htobe32((uint32_t)bytes.length);
  memcpy(place, &length, 4);
  if (bytes.length) memcpy(place + 4, bytes.data, bytes.length);
}

static void add_number(struct buffer *array, int64_t value) {
  uint8_t *place = buffer_extend(array, 12);
  uint32_t length = htobe32(8);
  uint64_t number = htobe64((uint64_t)value);
  memcpy(place, &length, 4);
  memcpy(place + 4, &number, 8);
}

static bool is_used(const struct columns *columns, enum column column) {
  return columns->arrays[column].length != 0;
}

/* Starts a column that the first `count` records did not have. */
static struct buffer *begin_column(struct columns *columns, enum column column, uint32_t count) {
  struct buffer *array = &columns->arrays[column];
  memset(buffer_extend(array, ARRAY_HEADER_SIZE), 0, ARRAY_HEADER_SIZE);
  if (count) memset(buffer_extend(array, (size_t)count * 4), 0xFF, (size_t)count * 4);
  return array;
}

static void add_optional_bytes(struct columns *columns, enum column column, struct slice bytes) {
  if (bytes.length == 0) {
    if (is_used(columns, column)) add_null(&columns->arrays[column]);
    return;
  }
  struct buffer *array = is_used(columns, column)
                             ? &columns->arrays[column]
                             : begin_column(columns, column, columns->record_count);
  add_bytes(array, bytes);
}

static void add_optional_number(struct columns *columns, enum column column, bool present,
                                int64_t value) {
  if (!present) {
    if (is_used(columns, column)) add_null(&columns->arrays[column]);
    return;
  }
  struct buffer *array = is_used(columns, column)
                             ? &columns->arrays[column]
                             : begin_column(columns, column, columns->record_count);
  add_number(array, value);
}

/* ------------------------------------------------------------------ producers and sequences */

/* The sequence of record `index` as the scalar columns say it. A run that would pass the greatest
 * number wraps to a negative one, which no record has. */
static int64_t scalar_sequence(const struct columns *columns, uint32_t index) {
  if (columns->sequence_form == SEQUENCE_CONSTANT) return columns->first_sequence;
  return (int64_t)((uint64_t)columns->first_sequence + index);
}

static void use_sequence_array(struct columns *columns) {
  struct buffer *array = begin_column(columns, COLUMN_SEQUENCES, 0);
  for (uint32_t i = 0; i < columns->record_count; i++)
    add_number(array, scalar_sequence(columns, i));
  columns->sequence_form = SEQUENCE_ARRAY;
}

static void add_sequence(struct columns *columns, int64_t sequence) {
  uint32_t count = columns->record_count;
  if (count == 0) {
    columns->first_sequence = sequence;
  } else if (count == 1 && sequence == columns->first_sequence) {
    columns->sequence_form = SEQUENCE_CONSTANT;
  } else if (columns->sequence_form != SEQUENCE_ARRAY &&
             sequence != scalar_sequence(columns, count)) {
    use_sequence_array(columns);
  }
  if (columns->sequence_form == SEQUENCE_ARRAY)
    add_number(&columns->arrays[COLUMN_SEQUENCES], sequence);
  columns->last_sequence = sequence;
}

static void use_producer_arrays(struct columns *columns) {
  struct buffer *ids = begin_column(columns, COLUMN_PRODUCER_IDS, 0);
  struct buffer *epochs = begin_column(columns, COLUMN_PRODUCER_EPOCHS, 0);
  for (uint32_t i = 0; i < columns->record_count; i++) {
    add_bytes(ids, buffer_slice(&columns->producer_id));
    add_number(epochs, columns->producer_epoch);
  }
}

static void add_producer(struct columns *columns, struct slice producer_id, int64_t epoch) {
  if (columns->record_count == 0) {
    buffer_append_slice(&columns->producer_id, producer_id);
    columns->producer_epoch = epoch;
  } else if (!is_used(columns, COLUMN_PRODUCER_IDS) &&
             (epoch != columns->producer_epoch ||
              !slice_equals(producer_id, buffer_slice(&columns->producer_id)))) {
    use_producer_arrays(columns);
  }
  if (is_used(columns, COLUMN_PRODUCER_IDS)) {
    add_bytes(&columns->arrays[COLUMN_PRODUCER_IDS], producer_id);
    add_number(&columns->arrays[COLUMN_PRODUCER_EPOCHS], epoch);
  }
}

/* ------------------------------------------------------------------ records */

void columns_add(struct columns *columns, const struct log_record *record) {
  if (columns->record_count == 0 && !is_used(columns, COLUMN_PAYLOADS)) {
    begin_column(columns, COLUMN_PAYLOADS, 0);
  }
  add_bytes(&columns->arrays[COLUMN_PAYLOADS], record->payload);
  add_optional_bytes(columns, COLUMN_KEYS, record->key);
  add_optional_number(columns, COLUMN_TIMESTAMPS, record->has_timestamp, record->timestamp);
  add_optional_bytes(columns, COLUMN_EVENT_TYPES, record->event_type);
  add_optional_number(columns, COLUMN_SCHEMA_VERSIONS, record->schema_version != 0,
                      record->schema_version);
  add_optional_number(columns, COLUMN_AGGREGATE_VERSIONS, record->aggregate_version != 0,
                      record->aggregate_version);
  add_optional_bytes(columns, COLUMN_METADATA, record->metadata);
  add_optional_bytes(columns, COLUMN_EVENT_IDS, record->event_id);
  add_optional_bytes(columns, COLUMN_PAYLOAD_DIGESTS, record->payload_digest);
  add_producer(columns, record->producer_id, record->producer_epoch);
  add_sequence(columns, record->sequence);
  columns->record_count++;
  columns->byte_count += record->payload.length + record->key.length;
  columns->stored_bytes += log_record_bytes(record);
  if (is_used(columns, COLUMN_PRODUCER_IDS)) columns->stored_bytes += record->producer_id.length;
}

/* ------------------------------------------------------------------ merging */

static void append_elements(struct buffer *array, const struct buffer *other) {
  buffer_append(array, other->data + ARRAY_HEADER_SIZE, other->length - ARRAY_HEADER_SIZE);
}

static void merge_optional(struct columns *columns, const struct columns *other,
                           enum column column) {
  if (!is_used(other, column)) {
    if (!is_used(columns, column)) return;
    size_t size = (size_t)other->record_count * 4;
    memset(buffer_extend(&columns->arrays[column], size), 0xFF, size);
    return;
  }
  struct buffer *array = is_used(columns, column)
                             ? &columns->arrays[column]
                             : begin_column(columns, column, columns->record_count);
  append_elements(array, &other->arrays[column]);
}

/* The sequences of both rows together are still a run, or all equal. A row of one record is either.
 */
static bool sequences_go_on(const struct columns *columns, const struct columns *other) {
  enum sequence_form form =
      columns->record_count == 1 ? other->sequence_form : columns->sequence_form;
  if (form == SEQUENCE_ARRAY || other->sequence_form != form) return false;
  if (form == SEQUENCE_CONSTANT) return other->first_sequence == columns->first_sequence;
  return other->first_sequence == scalar_sequence(columns, columns->record_count);
}

static void merge_sequences(struct columns *columns, const struct columns *other) {
  if (other->record_count == 1) {
    add_sequence(columns, other->first_sequence);
    return;
  }
  if (sequences_go_on(columns, other)) {
    columns->sequence_form = other->sequence_form;
    columns->last_sequence = other->last_sequence;
    return;
  }
  if (columns->sequence_form != SEQUENCE_ARRAY) use_sequence_array(columns);
  struct buffer *array = &columns->arrays[COLUMN_SEQUENCES];
  if (other->sequence_form == SEQUENCE_ARRAY) {
    append_elements(array, &other->arrays[COLUMN_SEQUENCES]);
  } else {
    for (uint32_t i = 0; i < other->record_count; i++) add_number(array, scalar_sequence(other, i));
  }
  columns->last_sequence = other->last_sequence;
}

static void merge_producers(struct columns *columns, const struct columns *other) {
  if (!is_used(other, COLUMN_PRODUCER_IDS)) {
    struct slice id = buffer_slice(&other->producer_id);
    if (!is_used(columns, COLUMN_PRODUCER_IDS) &&
        other->producer_epoch == columns->producer_epoch &&
        slice_equals(id, buffer_slice(&columns->producer_id))) {
      return;
    }
    if (!is_used(columns, COLUMN_PRODUCER_IDS)) use_producer_arrays(columns);
    for (uint32_t i = 0; i < other->record_count; i++) {
      add_bytes(&columns->arrays[COLUMN_PRODUCER_IDS], id);
      add_number(&columns->arrays[COLUMN_PRODUCER_EPOCHS], other->producer_epoch);
    }
    return;
  }
  if (!is_used(columns, COLUMN_PRODUCER_IDS)) use_producer_arrays(columns);
  append_elements(&columns->arrays[COLUMN_PRODUCER_IDS], &other->arrays[COLUMN_PRODUCER_IDS]);
  append_elements(&columns->arrays[COLUMN_PRODUCER_EPOCHS], &other->arrays[COLUMN_PRODUCER_EPOCHS]);
}

static void copy_all(struct columns *columns, const struct columns *other) {
  for (int i = 0; i < COLUMN_COUNT; i++) {
    buffer_append_slice(&columns->arrays[i], buffer_slice(&other->arrays[i]));
  }
  buffer_append_slice(&columns->producer_id, buffer_slice(&other->producer_id));
  columns->producer_epoch = other->producer_epoch;
  columns->first_sequence = other->first_sequence;
  columns->last_sequence = other->last_sequence;
  columns->sequence_form = other->sequence_form;
  columns->record_count = other->record_count;
  columns->byte_count = other->byte_count;
  columns->stored_bytes = other->stored_bytes;
}

void columns_merge(struct columns *columns, const struct columns *other) {
  if (columns->record_count == 0) {
    copy_all(columns, other);
    return;
  }
  append_elements(&columns->arrays[COLUMN_PAYLOADS], &other->arrays[COLUMN_PAYLOADS]);
  static const enum column optional[] = {COLUMN_KEYS,
                                         COLUMN_TIMESTAMPS,
                                         COLUMN_EVENT_TYPES,
                                         COLUMN_SCHEMA_VERSIONS,
                                         COLUMN_AGGREGATE_VERSIONS,
                                         COLUMN_METADATA,
                                         COLUMN_EVENT_IDS,
                                         COLUMN_PAYLOAD_DIGESTS};
  for (size_t i = 0; i < sizeof optional / sizeof *optional; i++) {
    merge_optional(columns, other, optional[i]);
  }
  merge_producers(columns, other);
  merge_sequences(columns, other);
  columns->record_count += other->record_count;
  columns->byte_count += other->byte_count;
  columns->stored_bytes += other->stored_bytes;
}

/* ------------------------------------------------------------------ finishing */

void columns_finish(struct columns *columns) {
  for (int i = 0; i < COLUMN_COUNT; i++) {
    struct buffer *array = &columns->arrays[i];
    if (array->length == 0) continue;
    buffer_patch_u32(array, 0, 1); /* one dimension */
    buffer_patch_u32(array, 4, 1); /* may contain NULL; a hint that is safe to give */
    buffer_patch_u32(array, 8, column_types[i]);
    buffer_patch_u32(array, 12, columns->record_count);
    buffer_patch_u32(array, 16, 1); /* lower bound */
  }
}

size_t columns_memory(const struct columns *columns) {
  size_t total = sizeof *columns + columns->producer_id.capacity;
  for (int i = 0; i < COLUMN_COUNT; i++) total += columns->arrays[i].capacity;
  return total;
}
