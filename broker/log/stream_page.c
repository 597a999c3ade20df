/* Decodes a row of pgcursus.read_stream_page(). Pure but for memory. */
#include "log/stream_page.h"

#include "db/control_statements.h"
#include "db/values.h"

static struct log_batch *read_events(const PGresult *rows, uint32_t count) {
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
      {COLUMN_AGGREGATE_VERSIONS, STREAM_PAGE_VERSIONS},
      {COLUMN_METADATA, STREAM_PAGE_METADATA},
      {COLUMN_EVENT_IDS, STREAM_PAGE_EVENT_IDS},
      {COLUMN_PAYLOAD_DIGESTS, STREAM_PAGE_PAYLOAD_DIGESTS},
  };
  struct log_batch source = {.record_count = count,
                             .kind = BATCH_DATA,
                             .offsets = db_get_bytes(rows, 0, STREAM_PAGE_OFFSETS)};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
    source.columns[arrays[i].column] = db_get_bytes(rows, 0, (int)arrays[i].from);
  }
  return log_batch_copy(&source);
}

bool stream_page_read(const PGresult *rows, struct stream_page *page) {
  *page = (struct stream_page){.partition = -1};
  if (PQntuples(rows) != 1) return false;
  page->head_version = db_get_int8(rows, 0, STREAM_PAGE_HEAD_VERSION);
  if (!db_is_null(rows, 0, STREAM_PAGE_PARTITION)) {
    page->partition = db_get_int4(rows, 0, STREAM_PAGE_PARTITION);
  }
  page->has_snapshot = !db_is_null(rows, 0, STREAM_PAGE_SNAPSHOT_VERSION);
  page->snapshot_version = db_get_int8(rows, 0, STREAM_PAGE_SNAPSHOT_VERSION);
  buffer_append_slice(&page->snapshot_payload, db_get_bytes(rows, 0, STREAM_PAGE_SNAPSHOT_PAYLOAD));
  page->first_version = db_get_int8(rows, 0, STREAM_PAGE_FIRST_VERSION);
  page->last_version = db_get_int8(rows, 0, STREAM_PAGE_LAST_VERSION);
  page->next_bytes = db_get_int8(rows, 0, STREAM_PAGE_NEXT_BYTES);
  page->next_offset = db_get_int8(rows, 0, STREAM_PAGE_NEXT_OFFSET);
  page->event_count = (uint32_t)db_get_int4(rows, 0, STREAM_PAGE_EVENT_COUNT);
  if (page->event_count == 0) return true;
  page->events = read_events(rows, page->event_count);
  return page->events != NULL;
}

void stream_page_release(struct stream_page *page) {
  log_batch_release(page->events);
  buffer_release(&page->snapshot_payload);
  *page = (struct stream_page){.partition = -1};
}
