/* Turns items into calls of pgcursus.append(). Pure but for memory: no connection, no queue. */
#include "log/append_group.h"

#include <stdlib.h>

#include "base/memory.h"

static const Oid append_types[APPEND_PARAMETERS] = {
    DB_INT8,       DB_INT8,       DB_INT4,       DB_INT4,        DB_INT4,
    DB_BOOL,       DB_BOOL,       DB_INT4,       DB_BOOL,        DB_TEXT,
    DB_INT8,       DB_INT8,       DB_INT8,       DB_BYTEA_ARRAY, DB_BYTEA_ARRAY,
    DB_INT8_ARRAY, DB_INT8_ARRAY, DB_TEXT_ARRAY, DB_INT8_ARRAY,  DB_TEXT_ARRAY,
    DB_INT8_ARRAY, DB_INT8_ARRAY, DB_TEXT_ARRAY, DB_TEXT_ARRAY,  DB_TEXT_ARRAY,
};
static const Oid lock_types[1] = {DB_TEXT_ARRAY};
static const Oid transactional_types[TRANSACTIONAL_PARAMETERS] = {
    DB_INT8,        DB_INT8,       DB_INT4,       DB_INT4,       DB_TEXT,
    DB_TEXT,        DB_INT8,       DB_INT4,       DB_INT8,       DB_BYTEA_ARRAY,
    DB_BYTEA_ARRAY, DB_TEXT_ARRAY, DB_INT8_ARRAY, DB_INT8_ARRAY, DB_TEXT_ARRAY,
};

const struct db_statement append_statements[APPEND_STATEMENT_COUNT] = {
    [STATEMENT_APPEND] = {.name = "append",
                          .sql = "SELECT status, base_offset, last_offset, appended_count, "
                                 "appended_at, current_value, expected_value FROM "
                                 "pgcursus.append($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,"
                                 "$15,$16,$17,$18,$19,$20,$21,$22,$23,$24,$25)",
                          .parameter_count = APPEND_PARAMETERS,
                          .parameter_types = append_types},
    [STATEMENT_NOTE_STANDBYS] = {.name = "note_standbys", .sql = "SELECT pgcursus.note_standbys()"},
    [STATEMENT_LOCK_TRANSACTIONS] = {.name = "lock_transactions",
                                     .sql = "SELECT pgcursus.lock_transactions($1)",
                                     .parameter_count = 1,
                                     .parameter_types = lock_types},
    [STATEMENT_APPEND_TRANSACTIONAL] =
        {.name = "append_transactional",
         .sql = "SELECT status, base_offset, last_offset, appended_count, appended_at, "
                "current_value, expected_value FROM pgcursus.append_transactional($1,$2,$3,$4,$5,"
                "$6,$7,$8,$9,$10,$11,$12,$13,$14,$15)",
         .parameter_count = TRANSACTIONAL_PARAMETERS,
         .parameter_types = transactional_types},
    [STATEMENT_APPEND_EVENTS] = {.name = "append_events",
                                 .sql = APPEND_EVENT_SQL,
                                 .parameter_count = APPEND_EVENT_PARAMETERS,
                                 .parameter_types = append_event_types},
};

/* The one lock order of the whole system: by log, then partition; arrival decides between equals.
 */
static int compare_items(const void *a, const void *b) {
  const struct append_item *const *left = a, *const *right = b;
  if ((*left)->log_id != (*right)->log_id) return (*left)->log_id < (*right)->log_id ? -1 : 1;
  if ((*left)->partition != (*right)->partition) {
    return (*left)->partition < (*right)->partition ? -1 : 1;
  }
  return (*left)->arrival < (*right)->arrival ? -1 : (*left)->arrival > (*right)->arrival;
}

static void sort_items(struct append_group *group) {
  qsort(group->items, group->item_count, sizeof *group->items, compare_items);
  append_event_sort_rounds(group->items, group->item_count);
}

void append_group_add(struct append_group *group, struct append_item *item) {
  if (group->item_count == group->item_capacity) {
    group->item_capacity = group->item_capacity ? group->item_capacity * 2 : 64;
    group->items = memory_resize(group->items, group->item_capacity * sizeof *group->items);
  }
  group->items[group->item_count++] = item;
}

static struct append_row *add_row(struct append_group *group, struct columns *columns,
                                  unsigned first_item, unsigned item_count) {
  if (group->row_count == group->row_capacity) {
    group->row_capacity = group->row_capacity ? group->row_capacity * 2 : 64;
    group->rows = memory_resize(group->rows, group->row_capacity * sizeof *group->rows);
  }
  struct append_row *row = &group->rows[group->row_count++];
  memset(row, 0, sizeof *row);
  row->columns = columns;
  row->first_item = first_item;
  row->item_count = item_count;
  return row;
}

/* Plain records of one partition that were checked against the same definition may share a row. */
static bool may_merge(const struct append_item *first, const struct append_item *item, size_t bytes,
                      unsigned records) {
  if (first->transaction || item->transaction) return false;
  if (append_item_is_event(first) || append_item_is_event(item)) {
    return append_event_may_merge(first, item, bytes);
  }
  return !first->rows->idempotent && !item->rows->idempotent && item->row_count == 1 &&
         item->log_id == first->log_id && item->partition == first->partition &&
         item->revision == first->revision &&
         bytes + item->rows->stored_bytes <= COLUMNS_ROW_BYTES &&
         records + item->rows->record_count <= COLUMNS_ROW_RECORDS;
}

/* Adds the row for items[start] and those that merge with it; returns the index after the last. */
static unsigned add_merged_row(struct append_group *group, unsigned start) {
  struct append_item *first = group->items[start];
  size_t bytes = first->rows->stored_bytes;
  unsigned records = first->rows->record_count;
  unsigned end = start + 1;
  while (end < group->item_count && may_merge(first, group->items[end], bytes, records)) {
    bytes += group->items[end]->rows->stored_bytes;
    records += group->items[end]->rows->record_count;
    end++;
  }
  if (end == start + 1) {
    add_row(group, first->rows, start, 1);
    return end;
  }
  /* The items keep their own columns: they may have to be sent again one by one. */
  struct columns *merged = columns_create();
  columns_merge(merged, first->rows);
  for (unsigned i = start + 1; i < end; i++) columns_merge(merged, group->items[i]->rows);
  add_row(group, merged, start, end - start)->owns_columns = true;
  return end;
}

static void build_rows(struct append_group *group) {
  for (unsigned i = 0; i < group->item_count;) {
    struct append_item *item = group->items[i];
    if (item->row_count == 1) {
      i = add_merged_row(group, i);
      continue;
    }
    unsigned item_count = 1;
    for (struct columns *columns = item->rows; columns; columns = columns->next) {
      add_row(group, columns, i, item_count);
      item_count = 0;
    }
    i++;
  }
}

static struct db_parameter array_parameter(const struct columns *columns, enum column column) {
  const struct buffer *array = &columns->arrays[column];
  return array->length ? db_bytes(buffer_slice(array)) : db_null();
}

static void encode_row(struct append_row *row, const struct append_item *item,
                       int min_insync_replicas) {
  struct columns *columns = row->columns;
  columns_finish(columns);
  struct db_parameter *p = row->parameters;
  union db_scalar *s = row->scalars;
  *p++ = db_int8(s++, item->log_id);
  *p++ = db_int8(s++, item->revision);
  *p++ = db_int4(s++, item->partition);
  *p++ = db_int4(s++, (int32_t)columns->record_count);
  *p++ = db_int4(s++, (int32_t)columns->byte_count);
  *p++ = db_bool(s++, columns->idempotent);
  *p++ = db_bool(s++, item->wait_for_replicas);
  *p++ = db_int4(s++, min_insync_replicas);
  *p++ = db_bool(s++, item->row_count > 1);
  *p++ = columns->producer_id.length ? db_bytes(buffer_slice(&columns->producer_id)) : db_null();
  *p++ = db_int8(s++, columns->producer_epoch);
  *p++ = db_int8(s++, columns->first_sequence);
  *p++ = db_int8(s++, columns->last_sequence);
  for (int column = COLUMN_PAYLOADS; column < COLUMN_COUNT; column++) {
    *p++ = array_parameter(columns, (enum column)column);
  }
}

static void encode_transactional_row(struct append_row *row, const struct append_item *item,
                                     int min_insync_replicas) {
  struct columns *columns = row->columns;
  columns_finish(columns);
  struct db_parameter *p = row->parameters;
  union db_scalar *s = row->scalars;
  *p++ = db_int8(s++, item->log_id);
  *p++ = db_int8(s++, item->revision);
  *p++ = db_int4(s++, item->partition);
  *p++ = db_int4(s++, min_insync_replicas);
  *p++ = db_bytes(item->transaction->transactional_id);
  *p++ = db_bytes(buffer_slice(&columns->producer_id));
  *p++ = db_int8(s++, columns->producer_epoch);
  *p++ = db_int4(s++, item->transaction->requested_partition);
  *p++ = db_int8(s++, item->transaction->client_sequence);
  *p++ = array_parameter(columns, COLUMN_PAYLOADS);
  *p++ = array_parameter(columns, COLUMN_KEYS);
  *p++ = array_parameter(columns, COLUMN_EVENT_TYPES);
  *p++ = array_parameter(columns, COLUMN_SCHEMA_VERSIONS);
  *p++ = array_parameter(columns, COLUMN_AGGREGATE_VERSIONS);
  *p++ = array_parameter(columns, COLUMN_METADATA);
}

/* Transactions are locked before any partition, or a group could wait for the end of one that waits
 * for the group. A row that is alone does so by itself. */
static void add_lock_call(struct append_group *group) {
  if (group->row_count == 1) return;
  struct db_array *ids = &group->transactional_ids;
  db_array_begin(ids, DB_TEXT);
  for (unsigned i = 0; i < group->item_count; i++) {
    const struct append_transaction *transaction = group->items[i]->transaction;
    if (transaction == NULL) continue;
    db_array_add_bytes(ids, transaction->transactional_id);
  }
  if (ids->count == 0) return;
  group->lock_parameters[0] = db_array_parameter(ids);
  group->calls[group->call_count++] = (struct db_call){.statement = STATEMENT_LOCK_TRANSACTIONS,
                                                       .parameters = group->lock_parameters};
}

static struct db_call row_call(struct append_row *row, const struct append_item *item,
                               int min_insync_replicas) {
  if (item->transaction) {
    encode_transactional_row(row, item, min_insync_replicas);
    return (struct db_call){.statement = STATEMENT_APPEND_TRANSACTIONAL,
                            .parameters = row->parameters};
  }
  if (append_item_is_event(item)) {
    append_event_encode(row, item, min_insync_replicas);
    return (struct db_call){.statement = STATEMENT_APPEND_EVENTS, .parameters = row->parameters};
  }
  encode_row(row, item, min_insync_replicas);
  return (struct db_call){.statement = STATEMENT_APPEND, .parameters = row->parameters};
}

void append_group_encode(struct append_group *group, bool note_standbys, int min_insync_replicas) {
  sort_items(group);
  build_rows(group);
  group->calls = memory_resize(group->calls, (group->row_count + 2) * sizeof *group->calls);
  group->call_count = 0;
  if (note_standbys) {
    group->calls[group->call_count++] = (struct db_call){.statement = STATEMENT_NOTE_STANDBYS};
  }
  add_lock_call(group);
  group->first_row_call = group->call_count;
  for (unsigned i = 0; i < group->row_count; i++) {
    struct append_row *row = &group->rows[i];
    group->calls[group->call_count++] =
        row_call(row, group->items[row->first_item], min_insync_replicas);
  }
}

void append_group_take_result(struct append_group *group, unsigned call, const PGresult *result) {
  if (call < group->first_row_call) return;
  call -= group->first_row_call;
  if (call >= group->row_count || PQntuples(result) != 1) return;
  struct append_row *row = &group->rows[call];
  row->answered = true;
  row->status = db_get_int4(result, 0, 0);
  row->base_offset = db_get_int8(result, 0, 1);
  row->last_offset = db_get_int8(result, 0, 2);
  row->appended_count = db_get_int4(result, 0, 3);
  row->appended_at = db_get_int8(result, 0, 4) + DB_EPOCH_US;
  row->current = db_get_int8(result, 0, 5);
  row->expected = db_get_int8(result, 0, 6);
  if (append_item_is_event(group->items[row->first_item])) {
    row->answered = append_event_take_answers(row, result);
  }
}

void append_group_reset(struct append_group *group) {
  for (unsigned i = 0; i < group->row_count; i++) {
    if (group->rows[i].owns_columns) columns_free(group->rows[i].columns);
    free(group->rows[i].event_answers);
  }
  group->item_count = group->row_count = group->call_count = 0;
}

void append_group_release(struct append_group *group) {
  append_group_reset(group);
  db_array_release(&group->transactional_ids);
  free(group->items);
  free(group->rows);
  free(group->calls);
}
