/* What pgcursus.read_stream_page() returns: a snapshot and events of one stream. */
#ifndef PGCURSUS_LOG_STREAM_PAGE_H
#define PGCURSUS_LOG_STREAM_PAGE_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "log/batch.h"

/* Some events of a page. The key of all is the stream's. Without COLUMN_AGGREGATE_VERSIONS they
 * have the versions from first_version on. */
struct stream_row {
  int64_t first_version;
  struct log_batch *events; /* one reference */
};

struct stream_page {
  int64_t head_version; /* 0: unknown key */
  int32_t partition;    /* -1: unknown key */
  bool has_snapshot;
  int64_t snapshot_version;
  struct buffer snapshot_payload;
  int64_t first_version;
  int64_t last_version; /* first_version - 1: no event */
  int64_t next_bytes;   /* size of the event first_version when it alone is too large; else 0 */
  int64_t next_offset;  /* its offset */
  uint32_t event_count;
  size_t memory;           /* bytes of all rows */
  struct stream_row *rows; /* those that have events, in order */
  unsigned row_count;
};

/* Copies the rows of a result (CONTROL_READ_STREAM); false when they make no sense. The page is to
 * be released in either case. */
bool stream_page_read(const PGresult *result, struct stream_page *page)
    __attribute__((warn_unused_result));

/* Walks the events of a page, each with its version, in order. */
struct stream_page_iterator {
  const struct stream_page *page;
  unsigned next_row;
  int64_t next_version;
  struct batch_iterator events;
};

void stream_page_begin(struct stream_page_iterator *iterator, const struct stream_page *page);

/* The next event, viewing the page; false at the end. */
bool stream_page_next(struct stream_page_iterator *iterator, struct log_record *record);

void stream_page_release(struct stream_page *page);

#endif
