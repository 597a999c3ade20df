/* Events on their way to append_events(): which share a call, how a call is encoded, what it
 * answers. Pure but for memory. Must never put two events of one stream into one call: the second
 * one's version could not be checked. */
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/memory.h"
#include "log/append_group.h"

/* A row with several events stays about this small. Whoever reads a stream fetches the rows of its
 * events whole, and PostgreSQL keeps a row in one piece, uncompressed, up to 2 KB. */
#define SHARED_ROW_BYTES 1536u

const Oid append_event_types[APPEND_EVENT_PARAMETERS] = {
    DB_INT8,        DB_INT8,       DB_INT4,        DB_INT4,       DB_BOOL,       DB_INT4,
    DB_BYTEA_ARRAY, DB_INT8_ARRAY, DB_BYTEA_ARRAY, DB_TEXT_ARRAY, DB_INT8_ARRAY, DB_TEXT_ARRAY,
    DB_TEXT_ARRAY,  DB_TEXT_ARRAY, DB_TEXT,        DB_INT8,       DB_INT8,
};

/* ------------------------------------------------------------------ rounds */

static int compare_numbers(uint64_t left, uint64_t right) {
  return left < right ? -1 : left > right;
}

static bool same_partition(const struct append_item *left, const struct append_item *right) {
  return left->log_id == right->log_id && left->partition == right->partition;
}

static int compare_streams(const void *a, const void *b) {
  const struct append_item *left = *(struct append_item *const *)a;
  const struct append_item *right = *(struct append_item *const *)b;
  int order = compare_numbers(left->stream_key.length, right->stream_key.length);
  if (order == 0 && left->stream_key.length) {
    order = memcmp(left->stream_key.data, right->stream_key.data, left->stream_key.length);
  }
  return order ? order : compare_numbers(left->arrival, right->arrival);
}

static int compare_rounds(const void *a, const void *b) {
  const struct append_item *left = *(struct append_item *const *)a;
  const struct append_item *right = *(struct append_item *const *)b;
  int order = compare_numbers(left->round, right->round);
  return order ? order : compare_numbers(left->arrival, right->arrival);
}

/* The events of one partition. Items that are no events have an empty key and come first, in round
 * 0. */
static void sort_partition(struct append_item **items, unsigned count) {
  qsort(items, count, sizeof *items, compare_streams);
  unsigned first = 0;
  while (first < count && !append_item_is_event(items[first])) items[first++]->round = 0;
  for (unsigned i = first; i < count; i++) {
    bool goes_on = i > first && slice_equals(items[i]->stream_key, items[i - 1]->stream_key);
    items[i]->round = goes_on ? items[i - 1]->round + 1 : 0;
  }
  qsort(items + first, count - first, sizeof *items, compare_rounds);
}

void append_event_sort_rounds(struct append_item **items, unsigned count) {
  for (unsigned start = 0; start < count;) {
    unsigned end = start;
    bool has_events = false;
    while (end < count && same_partition(items[start], items[end])) {
      has_events = append_item_is_event(items[end]) || has_events;
      end++;
    }
    if (has_events) sort_partition(items + start, end - start);
    start = end;
  }
}

/* An event with an identity is checked against what the partition holds, so it goes alone. */
static bool has_identity(const struct append_item *item) {
  return item->rows->arrays[COLUMN_EVENT_IDS].length != 0;
}

bool append_event_may_merge(const struct append_item *first, const struct append_item *item,
                            size_t bytes) {
  return append_item_is_event(first) && append_item_is_event(item) && same_partition(first, item) &&
         first->revision == item->revision && first->round == item->round && !has_identity(first) &&
         !has_identity(item) && bytes + item->rows->stored_bytes <= SHARED_ROW_BYTES;
}

/* ------------------------------------------------------------------ the call */

static struct db_parameter array_parameter(const struct columns *columns, enum column column) {
  const struct buffer *array = &columns->arrays[column];
  return array->length ? db_bytes(buffer_slice(array)) : db_null();
}

void append_event_encode(struct append_row *row, const struct append_item *item,
                         int min_insync_replicas) {
  static const enum column arrays[] = {
      COLUMN_KEYS,        COLUMN_AGGREGATE_VERSIONS, COLUMN_PAYLOADS,
      COLUMN_EVENT_TYPES, COLUMN_SCHEMA_VERSIONS,    COLUMN_METADATA,
      COLUMN_EVENT_IDS,   COLUMN_PAYLOAD_DIGESTS};
  struct columns *columns = row->columns;
  columns_finish(columns);
  struct db_parameter *p = row->parameters;
  union db_scalar *s = row->scalars;
  *p++ = db_int8(s++, item->log_id);
  *p++ = db_int8(s++, item->revision);
  *p++ = db_int4(s++, item->partition);
  *p++ = db_int4(s++, (int32_t)columns->byte_count);
  *p++ = db_bool(s++, item->wait_for_replicas);
  *p++ = db_int4(s++, min_insync_replicas);
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
    *p++ = array_parameter(columns, arrays[i]);
  }
  if (has_identity(item)) {
    *p++ = db_bytes(buffer_slice(&columns->producer_id));
    *p++ = db_int8(s++, columns->producer_epoch);
    *p++ = db_int8(s++, columns->first_sequence);
  } else {
    for (int i = 0; i < 3; i++) *p++ = db_null();
  }
}

/* ------------------------------------------------------------------ the answer */

enum { COLUMN_EVENT_STATUSES = 7, COLUMN_EVENT_VALUES = 8 };

/* The head of an array that has `count` elements; false when it is something else. */
static bool begin_array(struct cursor *cursor, unsigned count) {
  uint32_t dimensions = cursor_u32(cursor);
  cursor_take(cursor, 8); /* flags, element type */
  uint32_t length = cursor_u32(cursor);
  cursor_take(cursor, 4); /* lower bound */
  return !cursor->failed && dimensions == 1 && length == count;
}

bool append_event_take_answers(struct append_row *row, const PGresult *result) {
  if (db_is_null(result, 0, COLUMN_EVENT_STATUSES)) return true;
  struct cursor statuses = cursor_over(db_get_bytes(result, 0, COLUMN_EVENT_STATUSES));
  struct cursor values = cursor_over(db_get_bytes(result, 0, COLUMN_EVENT_VALUES));
  if (!begin_array(&statuses, row->item_count) || !begin_array(&values, row->item_count)) {
    return false;
  }
  row->event_answers = memory_allocate_zeroed(row->item_count, sizeof *row->event_answers);
  for (unsigned i = 0; i < row->item_count; i++) {
    cursor_u32(&statuses); /* their length; they are never NULL */
    row->event_answers[i].status = (int32_t)cursor_u32(&statuses);
    if (cursor_u32(&values) == 8) row->event_answers[i].value = (int64_t)cursor_u64(&values);
  }
  if (cursor_is_finished(&statuses) && cursor_is_finished(&values)) return true;
  free(row->event_answers);
  row->event_answers = NULL;
  return false;
}

static enum append_status status_of_event(int status) {
  switch (status) {
    case 0:
      return APPEND_OK;
    case 1:
      return APPEND_DUPLICATE;
    case 9:
      return APPEND_VERSION_CONFLICT;
    case 10:
      return APPEND_OTHER_PARTITION;
    case 11:
      return APPEND_VERSION_TAKEN;
    case 12:
      return APPEND_EVENT_ID_TAKEN;
    case 13:
      return APPEND_ORIGINAL_GONE;
    case 14:
      return APPEND_RESERVED;
    default:
      return APPEND_FAILED;
  }
}

struct append_result append_event_result(const struct event_answer *event, int32_t partition) {
  return (struct append_result){.status = status_of_event(event->status),
                                .partition = partition,
                                .last_offset = event->value,
                                .current = event->value,
                                .reason = ""};
}
