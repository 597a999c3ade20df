/* What pgcursus.read_stream_page() returns: a snapshot and events of one stream. */
#ifndef PGCURSUS_LOG_STREAM_PAGE_H
#define PGCURSUS_LOG_STREAM_PAGE_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "log/batch.h"

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
  struct log_batch *events; /* one reference; NULL: none. The key of all is the stream's */
};

/* Copies the one row of a result (CONTROL_READ_STREAM); false when it makes no sense. The page is
 * to be released in either case. */
bool stream_page_read(const PGresult *rows, struct stream_page *page)
    __attribute__((warn_unused_result));

void stream_page_release(struct stream_page *page);

#endif
