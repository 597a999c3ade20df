/* An accepted STREAM: pushes the records of one partition over a connection until it is closed
 * (commands-1 3.3, crs2-wire 13.4).
 *
 * At most one frame of a stream waits to be written, so a reader that is slow, or has stopped,
 * holds that much memory and nothing else; the log is read again when the frame has left. */
#ifndef PGCURSUS_CRS2_STREAM_H
#define PGCURSUS_CRS2_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct call;
struct crs2;

struct stream_options {
  struct slice topic;
  struct slice group;
  int64_t log_id;
  int32_t partition;
  int64_t offset; /* the first to deliver; STREAM_FROM_LATEST: the end as it is now */
  int64_t max_records;
  bool is_uncommitted;
};

#define STREAM_FROM_LATEST (-1)

/* Accepts the request of `call`, which ends without an answer. The texts are copied. An older
 * stream of the same topic, partition and group is closed as removed. The call must have a session
 * and the node room for one more. */
void stream_begin(struct call *call, const struct stream_options *options);

/* Streams of this node that are open. */
unsigned stream_open_count(const struct crs2 *crs2);

/* A payload of the control channel that begins with STREAM_ANNOUNCEMENT: some node has accepted a
 * stream. A stream of the same topic, partition and group that was accepted before is closed as
 * removed. Notifications come in one order everywhere, this node's own among them, so of two
 * accepted at once every node keeps the same. */
#define STREAM_ANNOUNCEMENT "stream "
void streams_receive(struct crs2 *crs2, const char *payload);

/* The group has committed `next_offset`: its stream, if it is not that far, goes on from there. */
void streams_note_commit(struct crs2 *crs2, struct slice group, int64_t log_id, int32_t partition,
                         int64_t next_offset);

#endif
