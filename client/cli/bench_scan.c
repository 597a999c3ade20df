/* The lean reader of CBV2 batches (crs2-wire 10 and 11). It checks what a load test is about,
 * record boundaries and offsets; the frame's CRC has been checked before. Anything else is the real
 * decoder's business. */
#include "bench_scan.h"

#include "base/cursor.h"
#include "crs2/wire/batch.h"

/* Up to the payload: version, presence, topic, partition, offset. */
static bool scan_record(struct cursor *cursor, struct scan *scan) {
  struct cursor record = cursor_over(cursor_bytes(cursor));
  (void)cursor_u16(&record);
  (void)cursor_u64(&record);
  (void)cursor_bytes(&record);
  (void)cursor_u32(&record);
  uint64_t offset = cursor_u64(&record);
  struct slice payload = cursor_bytes(&record);
  if (record.failed || offset < scan->expected) return false;
  scan->gaps += offset - scan->expected;
  scan->expected = offset + 1;
  scan->records++;
  scan->bytes += payload.length;
  if (scan->see) scan->see(scan->own, payload);
  return true;
}

bool scan_batch(struct slice payload, struct scan *scan) {
  if (!batch_is_batch(payload)) return false;
  struct cursor cursor = cursor_over(payload);
  (void)cursor_take(&cursor, 8); /* magic, version, flags */
  (void)cursor_bytes(&cursor);   /* topic */
  (void)cursor_u32(&cursor);     /* partition */
  (void)cursor_bytes(&cursor);   /* acks */
  (void)cursor_take(&cursor, 16);
  uint32_t count = cursor_u32(&cursor);
  for (uint32_t i = 0; i < count && !cursor.failed; i++) {
    if (!scan_record(&cursor, scan)) return false;
  }
  return cursor_is_finished(&cursor);
}
