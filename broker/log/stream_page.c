/* Decodes the rows of pgcursus.read_stream_page(). Pure but for memory. */
#include "log/stream_page.h"

#include <stdlib.h>

#include "base/memory.h"
#include "db/array.h"
#include "db/control_statements.h"
#include "db/values.h"

/* Numbers of which only the first is given when the others follow it directly. */
static bool is_run(struct slice numbers, int64_t *first) {
  struct cursor cursor;
  if (db_array_open(&cursor, numbers) != 1) return false;
  *first = db_array_next_int8(&cursor);
  return true;
}

static struct log_batch *read_events(const PGresult *result, int row, struct stream_row *events) {
  static const struct {
    enum column column;
    enum stream_page_column from;
  } arrays[] = {
      {COLUMN_PAYLOADS, STREAM_PAGE_PAYLOADS},
      {COLUMN_SEQUENCES, STREAM_PAGE_SEQUENCES},
      {COLUMN_PRODUCER_IDS, STREAM_PAGE_PRODUCER_IDS},
      {COLUMN_PRODUCER_EPOCHS, STREAM_PAGE_PRODUCER_EPOCHS},
      {COLUMN_EVENT_TYPES, STREAM_PAGE_EVENT_TYPES},
      {COLUMN_SCHEMA_VERSIONS, STREAM_PAGE_SCHEMA_VERSIONS},
      {COLUMN_METADATA, STREAM_PAGE_METADATA},
      {COLUMN_EVENT_IDS, STREAM_PAGE_EVENT_IDS},
      {COLUMN_PAYLOAD_DIGESTS, STREAM_PAGE_PAYLOAD_DIGESTS},
  };
  struct log_batch source = {
      .record_count = (uint32_t)db_get_int4(result, row, STREAM_PAGE_EVENT_COUNT),
      .kind = BATCH_DATA};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
    source.columns[arrays[i].column] = db_get_bytes(result, row, (int)arrays[i].from);
  }
  struct slice versions = db_get_bytes(result, row, STREAM_PAGE_VERSIONS);
  struct slice offsets = db_get_bytes(result, row, STREAM_PAGE_OFFSETS);
  if (!is_run(versions, &events->first_version)) {
    source.columns[COLUMN_AGGREGATE_VERSIONS] = versions;
  }
  if (is_run(offsets, &source.base_offset)) {
    source.last_offset = source.base_offset + source.record_count - 1;
  } else {
    source.offsets = offsets;
  }
  return log_batch_copy(&source);
}

static bool read_row(const PGresult *result, int row, struct stream_page *page) {
  if (db_get_int4(result, row, STREAM_PAGE_EVENT_COUNT) == 0) return true;
  struct stream_row *events = &page->rows[page->row_count];
  events->events = read_events(result, row, events);
  if (events->events == NULL) return false;
  page->row_count++;
  page->event_count += events->events->record_count;
  page->memory += events->events->memory;
  return true;
}

bool stream_page_read(const PGresult *result, struct stream_page *page) {
  *page = (struct stream_page){.partition = -1};
  int rows = PQntuples(result);
  if (rows < 1) return false;
  page->head_version = db_get_int8(result, 0, STREAM_PAGE_HEAD_VERSION);
  if (!db_is_null(result, 0, STREAM_PAGE_PARTITION)) {
    page->partition = db_get_int4(result, 0, STREAM_PAGE_PARTITION);
  }
  page->has_snapshot = !db_is_null(result, 0, STREAM_PAGE_SNAPSHOT_VERSION);
  page->snapshot_version = db_get_int8(result, 0, STREAM_PAGE_SNAPSHOT_VERSION);
  buffer_append_slice(&page->snapshot_payload,
                      db_get_bytes(result, 0, STREAM_PAGE_SNAPSHOT_PAYLOAD));
  page->first_version = db_get_int8(result, 0, STREAM_PAGE_FIRST_VERSION);
  page->last_version = db_get_int8(result, 0, STREAM_PAGE_LAST_VERSION);
  page->next_bytes = db_get_int8(result, 0, STREAM_PAGE_NEXT_BYTES);
  page->next_offset = db_get_int8(result, 0, STREAM_PAGE_NEXT_OFFSET);
  page->rows = memory_allocate_zeroed((size_t)rows, sizeof *page->rows);
  for (int row = 0; row < rows; row++) {
    if (!read_row(result, row, page)) return false;
  }
  return true;
}

void stream_page_begin(struct stream_page_iterator *iterator, const struct stream_page *page) {
  *iterator = (struct stream_page_iterator){.page = page};
}

bool stream_page_next(struct stream_page_iterator *iterator, struct log_record *record) {
  while (iterator->next_row == 0 || !batch_iterator_next(&iterator->events, record)) {
    if (iterator->next_row == iterator->page->row_count) return false;
    const struct stream_row *row = &iterator->page->rows[iterator->next_row++];
    iterator->next_version = row->first_version;
    batch_iterator_begin(&iterator->events, row->events);
  }
  if (iterator->events.batch->columns[COLUMN_AGGREGATE_VERSIONS].length == 0) {
    record->aggregate_version = iterator->next_version++;
  }
  return true;
}

void stream_page_release(struct stream_page *page) {
  for (unsigned i = 0; i < page->row_count; i++) log_batch_release(page->rows[i].events);
  free(page->rows);
  buffer_release(&page->snapshot_payload);
  *page = (struct stream_page){.partition = -1};
}
