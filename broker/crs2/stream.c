/* The life of a stream: read, write a frame, wait until it has left, read on; wait for a wake-up
 * when there is nothing. Owns what a stream remembers; must never commit an offset or hold records
 * that are not being written. */
#include "crs2/stream.h"

#include <ev.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/worker.h"
#include "crs2/call.h"
#include "crs2/consume_answer.h"
#include "crs2/crs2.h"
#include "crs2/session.h"
#include "crs2/wire/frame.h"
#include "log/announce.h"
#include "log/read.h"
#include "log/wake.h"

#define KEEPALIVE_US 5000000
#define RETRY_SECONDS 0.5
#define CLOSE_GRACE_MS 250

/* A stream whose own announcement is not heard by then begins without. */
#define ANNOUNCED_WITHIN_US 500000

/* A frame's size; the lesser one while requests hold half of the memory budget. */
#define FRAME_BYTES (256u << 10)
#define FRAME_BYTES_WHEN_TIGHT (64u << 10)

/* Frames above this size are built by a worker: one record may be as large as a frame allows. */
#define LARGE_FRAME_BYTES (1u << 20)

/* Reading has no deadline of its own: while PostgreSQL is away a stream waits for it. */
#define READ_DEADLINE_US 60000000

struct stream {
  struct session_stream link; /* first */
  struct crs2 *crs2;
  struct session *session; /* NULL: over; the struct waits for a read or a worker */
  struct stream *prev, *next;
  struct frame_header header;
  char *topic, *group;
  int64_t log_id;
  int32_t partition;
  int64_t max_records;
  bool is_uncommitted;
  uint64_t serial;
  bool is_announced; /* what other nodes announce from now on is newer; nothing is sent before */
  int64_t begun_at_us;

  int64_t offset;      /* the next to deliver; STREAM_FROM_LATEST until the first read */
  int64_t next_offset; /* the same once the frame being built has left */
  int64_t seen_end;    /* the log's end as last read */
  int64_t known_end;   /* ... as last announced */

  bool has_bounds;  /* PostgreSQL has told them once */
  bool caught_up;   /* the last read left nothing to deliver */
  bool log_changed; /* announced, and no answer of PostgreSQL's since */
  bool must_retry;

  bool reading, building, writing;
  struct wake_waiter waiter;
  struct read_request read;
  int64_t asked_end; /* where the log was known to end when the read in flight was sent */
  struct consume_answer answer;
  struct worker_job job;
  struct buffer frame;
  const char *encode_refusal;

  struct ev_timer timer;
  int64_t sent_at_us;     /* when a frame was last queued */
  int64_t progress_at_us; /* when the peer was last seen to take something */
  size_t pending_seen;
};

static void go_on(struct stream *stream);

/* ------------------------------------------------------------------ ending */

static void free_when_idle(struct stream *stream) {
  if (stream->session || stream->reading || stream->building) return;
  stream->crs2->stream_count--;
  consume_answer_release(&stream->answer);
  buffer_release(&stream->frame);
  free(stream->topic);
  free(stream->group);
  free(stream);
}

/* Takes the stream out of everything that could call it, but for a read or a worker in progress. */
static void detach(struct stream *stream) {
  stream->session = NULL;
  wake_remove(stream->crs2->wake, &stream->waiter);
  ev_timer_stop(stream->crs2->loop, &stream->timer);
  DL_DELETE(stream->crs2->streams, stream);
  stream->crs2->open_stream_count--;
}

static const char *encode(const struct stream *stream, enum frame_status status,
                          struct slice payload, struct buffer *out) {
  struct frame_header header = stream->header;
  header.status = status;
  return frame_encode(out, &header, payload);
}

/* Sends the close frame with whatever follows its offset, and lets go of the connection. */
static void close_with(struct stream *stream, const char *reason, const char *more) {
  struct session *session = stream->session;
  struct buffer text = {0}, frame = {0};
  long long offset = stream->offset < 0 ? 0 : stream->offset;
  buffer_append_format(&text, "STREAM_CONTROL type=CLOSE reason=%s offset=%lld%s", reason, offset,
                       more);
  log_event(LOG_DEBUG, "closing a stream", "peer", session_peer(session), "topic", stream->topic,
            "reason", reason, NULL);
  const char *refusal = encode(stream, FRAME_STREAM_END, buffer_slice(&text), &frame);
  buffer_release(&text);
  if (refusal) log_event(LOG_ERROR, "a close frame cannot be encoded", "reason", refusal, NULL);
  detach(stream);
  session_stream_end(session, &frame, CLOSE_GRACE_MS, "end of stream");
  buffer_release(&frame);
  free_when_idle(stream);
}

static void close_stream(struct stream *stream, const char *reason) {
  close_with(stream, reason, "");
}

static void close_out_of_range(struct stream *stream, const struct read_result *result) {
  char more[100];
  snprintf(more, sizeof more, " requested=%lld earliest=%lld latest=%lld",
           (long long)stream->offset, (long long)result->earliest_offset,
           (long long)result->end_offset);
  close_with(stream, "offset_out_of_range", more);
}

static void fail(struct stream *stream, const char *reason) {
  log_event(LOG_ERROR, "a stream failed", "peer", session_peer(stream->session), "topic",
            stream->topic, "reason", reason, NULL);
  close_stream(stream, "error");
}

static struct stream *of_link(struct session_stream *link) {
  return (struct stream *)link;
}

static void on_stop(struct session_stream *link) {
  close_stream(of_link(link), "stopped");
}

static void on_closed(struct session_stream *link) {
  struct stream *stream = of_link(link);
  detach(stream);
  free_when_idle(stream);
}

/* ------------------------------------------------------------------ frames */

static void send_frame(struct stream *stream, struct buffer *frame) {
  stream->sent_at_us = clock_monotonic_us();
  session_stream_write(stream->session, frame);
}

static void on_drained(struct session_stream *link) {
  struct stream *stream = of_link(link);
  stream->writing = false;
  stream->progress_at_us = clock_monotonic_us();
  go_on(stream);
}

/* On a worker thread when the records are many, so it touches only what is being built. */
static void build_frame(struct stream *stream) {
  struct frame_header header = stream->header;
  header.status = FRAME_OK;
  size_t start = frame_begin(&stream->frame);
  int64_t left_out = consume_answer_build(&stream->answer, slice_text(stream->topic),
                                          stream->partition, &stream->frame);
  if (left_out >= 0) {
    stream->next_offset = left_out;
    stream->caught_up = false;
  }
  stream->encode_refusal = frame_finish(&stream->frame, start, &header);
}

static void frame_built(struct stream *stream) {
  stream->building = false;
  consume_answer_release(&stream->answer);
  if (stream->session == NULL) {
    free_when_idle(stream);
    return;
  }
  if (stream->encode_refusal) {
    fail(stream, stream->encode_refusal);
    return;
  }
  /* A commit may have moved the stream past the frame meanwhile; it never moves back. */
  if (stream->next_offset > stream->offset) stream->offset = stream->next_offset;
  stream->writing = true;
  send_frame(stream, &stream->frame);
}

static struct stream *of_job(struct worker_job *job) {
  return (struct stream *)((char *)job - offsetof(struct stream, job));
}

static void run_build(struct worker_job *job) {
  build_frame(of_job(job));
}

static void build_done(struct worker_job *job) {
  frame_built(of_job(job));
}

static void start_building(struct stream *stream) {
  stream->building = true;
  if (stream->answer.bytes <= LARGE_FRAME_BYTES) {
    build_frame(stream);
    frame_built(stream);
    return;
  }
  stream->job.run = run_build;
  stream->job.done = build_done;
  worker_pool_submit(stream->crs2->workers, &stream->job);
}

/* ------------------------------------------------------------------ reading */

static struct stream *of_read(struct read_request *read) {
  return (struct stream *)((char *)read - offsetof(struct stream, read));
}

static size_t frame_bytes(const struct crs2 *crs2) {
  return crs2->budget->used > crs2->budget->limit / 2 ? FRAME_BYTES_WHEN_TIGHT : FRAME_BYTES;
}

/* What may be delivered ends here. Without bounds the cache had everything up to an end that was
 * announced, and nothing of it undecided. */
static int64_t boundary(const struct stream *stream, const struct read_result *result) {
  if (!result->bounds_known) return INT64_MAX;
  if (stream->is_uncommitted || result->stable_offset > result->end_offset) {
    return result->end_offset;
  }
  return result->stable_offset;
}

static void take_batches(struct stream *stream, const struct read_result *result) {
  int64_t limit = boundary(stream, result);
  int64_t position = stream->offset;
  for (unsigned i = 0; i < result->batch_count; i++) {
    struct log_batch *batch = result->batches[i];
    if (batch->base_offset >= limit) break;
    if (batch->last_offset < position) continue; /* a commit went past it meanwhile */
    consume_answer_add(&stream->answer, batch, position, stream->is_uncommitted);
    position = batch->last_offset + 1;
  }
  /* Nothing is stored from here to the boundary: those offsets were removed. */
  bool is_hole =
      result->bounds_known && result->batch_count == 0 && position == stream->read.offset;
  if (is_hole && position < limit) position = limit;
  stream->next_offset = position;
  stream->caught_up = position >= (result->bounds_known ? limit : stream->asked_end);
}

/* Keeps what an answer says of the log. False when the stream has been closed for it. */
static bool take_bounds(struct stream *stream, const struct read_result *result) {
  if (!result->bounds_known) {
    if (stream->asked_end > stream->seen_end) stream->seen_end = stream->asked_end;
    return true;
  }
  if (stream->offset == STREAM_FROM_LATEST) stream->offset = result->end_offset;
  if (stream->offset < result->earliest_offset) {
    close_out_of_range(stream, result);
    return false;
  }
  stream->seen_end = result->end_offset;
  /* The announcement was wrong, or a fail-over has lost what it announced. */
  if (stream->known_end <= stream->asked_end) stream->known_end = stream->seen_end;
  stream->has_bounds = true;
  return true;
}

static void read_failed(struct stream *stream, const struct read_result *result) {
  if (result->status == READ_STALE) {
    close_stream(stream, "removed");
  } else if (result->status == READ_FAILED) {
    fail(stream, result->reason);
  } else {
    stream->must_retry = true;
    stream->log_changed = true; /* perhaps */
    ev_timer_stop(stream->crs2->loop, &stream->timer);
    ev_timer_set(&stream->timer, RETRY_SECONDS, 0.);
    ev_timer_start(stream->crs2->loop, &stream->timer);
  }
}

static void on_read(struct read_request *read, const struct read_result *result) {
  struct stream *stream = of_read(read);
  stream->reading = false;
  if (stream->session == NULL) {
    free_when_idle(stream);
    return;
  }
  if (result->status != READ_OK) {
    read_failed(stream, result);
    return;
  }
  if (!take_bounds(stream, result)) return;
  take_batches(stream, result);
  if (stream->answer.records > 0) {
    start_building(stream);
  } else {
    stream->offset = stream->next_offset;
    go_on(stream);
  }
}

static void start_reading(struct stream *stream) {
  struct crs2 *crs2 = stream->crs2;
  bool from_latest = stream->offset == STREAM_FROM_LATEST;
  consume_answer_init(&stream->answer, stream->max_records);
  stream->answer.max_bytes = frame_bytes(crs2);
  /* A log that may have changed is asked about; else what is known and cached needs no query. */
  bool needs_bounds = !stream->has_bounds || stream->log_changed;
  stream->log_changed = false;
  stream->asked_end = stream->known_end > stream->seen_end ? stream->known_end : stream->seen_end;
  stream->read = (struct read_request){
      .log_id = stream->log_id,
      .partition = stream->partition,
      .offset = from_latest ? INT64_MAX - 1 : stream->offset,
      .max_records = stream->max_records,
      .max_bytes = (int64_t)stream->answer.max_bytes,
      .committed = !stream->is_uncommitted,
      .known_end = stream->asked_end,
      .needs_bounds = needs_bounds,
      .deadline_us = clock_monotonic_us() + READ_DEADLINE_US,
      .on_done = on_read,
  };
  stream->reading = true;
  read_submit(crs2->reads, &stream->read);
}

/* ------------------------------------------------------------------ waiting */

static void on_wake(struct wake_waiter *waiter) {
  struct stream *stream = (struct stream *)((char *)waiter - offsetof(struct stream, waiter));
  if (waiter->end_offset == INT64_MAX) {
    stream->log_changed = true;
  } else if (waiter->end_offset > stream->known_end) {
    stream->known_end = waiter->end_offset;
  }
  go_on(stream);
}

/* Registered all the time, before each read: nothing slips between a read and the wait. */
static void keep_waiting(struct stream *stream) {
  int64_t seen = stream->offset > stream->seen_end ? stream->offset : stream->seen_end;
  stream->waiter.offset = seen > stream->known_end ? seen : stream->known_end;
  if (stream->waiter.partition) return;
  stream->waiter.on_wake = on_wake;
  wake_add(stream->crs2->wake, &stream->waiter, stream->log_id, stream->partition);
}

static void go_on(struct stream *stream) {
  if (stream->session == NULL) return;
  keep_waiting(stream);
  if (stream->reading || stream->building || stream->writing || stream->must_retry ||
      !stream->is_announced) {
    return;
  }
  bool has_news = stream->known_end > stream->seen_end || stream->log_changed;
  if (!stream->caught_up || has_news) start_reading(stream);
}

/* ------------------------------------------------------------------ time */

static void send_keepalive(struct stream *stream) {
  struct buffer frame = {0};
  const char *refusal = encode(stream, FRAME_OK, slice_of(NULL, 0), &frame);
  if (refusal) {
    fail(stream, refusal);
    return;
  }
  send_frame(stream, &frame);
}

static void arm_timer(struct stream *stream, bool is_writing) {
  int64_t now = clock_monotonic_us();
  int64_t timeout_us = stream->crs2->config->stream_timeout * 1000;
  int64_t due = now + (timeout_us < KEEPALIVE_US ? timeout_us : KEEPALIVE_US);
  if (!is_writing && stream->sent_at_us + KEEPALIVE_US < due)
    due = stream->sent_at_us + KEEPALIVE_US;
  if (!stream->is_announced) due = stream->begun_at_us + ANNOUNCED_WITHIN_US;
  double seconds = due > now ? (double)(due - now) / 1e6 : 0.;
  ev_timer_stop(stream->crs2->loop, &stream->timer);
  ev_timer_set(&stream->timer, seconds, 0.);
  ev_timer_start(stream->crs2->loop, &stream->timer);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events) {
  struct stream *stream = timer->data;
  (void)loop;
  (void)events;
  int64_t now = clock_monotonic_us();
  size_t pending = session_stream_pending(stream->session);
  if (pending == 0 || pending != stream->pending_seen) stream->progress_at_us = now;
  stream->pending_seen = pending;
  if (now - stream->progress_at_us >= stream->crs2->config->stream_timeout * 1000) {
    close_stream(stream, "timeout");
    return;
  }
  if (pending == 0 && now - stream->sent_at_us >= KEEPALIVE_US) send_keepalive(stream);
  if (stream->session == NULL) return;
  arm_timer(stream, pending > 0);
  bool is_held = stream->must_retry || !stream->is_announced;
  stream->must_retry = false;
  if (now - stream->begun_at_us >= ANNOUNCED_WITHIN_US) stream->is_announced = true;
  if (is_held) go_on(stream);
}

/* ------------------------------------------------------------------ beginning */

static void close_older(struct crs2 *crs2, const struct stream_options *options) {
  struct stream *stream, *next;
  DL_FOREACH_SAFE(crs2->streams, stream, next) {
    if (stream->partition == options->partition &&
        slice_equals_text(options->topic, stream->topic) &&
        slice_equals_text(options->group, stream->group)) {
      close_stream(stream, "removed");
    }
  }
}

/* Other nodes close theirs. When nobody hears it there is nothing to wait for. */
static void announce_stream(struct stream *stream) {
  static uint64_t last_serial;
  stream->serial = ++last_serial;
  struct buffer text = {0};
  buffer_append_format(&text, STREAM_ANNOUNCEMENT "%s %llu %d %s %s",
                       announce_sender(stream->crs2->announce), (unsigned long long)stream->serial,
                       stream->partition, stream->topic, stream->group);
  buffer_append_u8(&text, 0);
  stream->is_announced = !announce_control(stream->crs2->announce, (const char *)text.data);
  buffer_release(&text);
}

/* The next word of a text of words with one blank between them. */
static struct slice take_word(const char **text) {
  size_t length = strcspn(*text, " ");
  struct slice word = slice_of(*text, length);
  *text += length + ((*text)[length] == ' ');
  return word;
}

void streams_receive(struct crs2 *crs2, const char *payload) {
  const char *text = payload + sizeof STREAM_ANNOUNCEMENT - 1;
  struct slice sender = take_word(&text);
  uint64_t serial = strtoull(text, NULL, 10);
  take_word(&text);
  long partition = strtol(text, NULL, 10);
  take_word(&text);
  struct slice topic = take_word(&text), group = take_word(&text);
  bool is_own = slice_equals_text(sender, announce_sender(crs2->announce));
  struct stream *stream, *next;
  DL_FOREACH_SAFE(crs2->streams, stream, next) {
    if (is_own) {
      if (stream->serial != serial) continue;
      stream->is_announced = true;
      go_on(stream);
    } else if (stream->is_announced && stream->partition == partition &&
               slice_equals_text(topic, stream->topic) && slice_equals_text(group, stream->group)) {
      close_stream(stream, "removed");
    }
  }
}

static char *copy_slice(struct slice slice) {
  char *text = memory_allocate(slice.length + 1);
  memcpy(text, slice.data, slice.length);
  text[slice.length] = '\0';
  return text;
}

unsigned stream_open_count(const struct crs2 *crs2) {
  return crs2->open_stream_count;
}

void stream_begin(struct call *call, const struct stream_options *options) {
  struct crs2 *crs2 = call->crs2;
  close_older(crs2, options);
  struct stream *stream = memory_allocate_zeroed(1, sizeof *stream);
  stream->link =
      (struct session_stream){.on_drained = on_drained, .on_stop = on_stop, .on_closed = on_closed};
  stream->crs2 = crs2;
  stream->session = call->session;
  stream->header = (struct frame_header){.kind = FRAME_STREAM,
                                         .compression = call->header.compression,
                                         .command = call->header.command,
                                         .request_id = call->header.request_id};
  stream->topic = copy_slice(options->topic);
  stream->group = copy_slice(options->group);
  stream->log_id = options->log_id;
  stream->partition = options->partition;
  stream->max_records = options->max_records;
  stream->is_uncommitted = options->is_uncommitted;
  stream->offset = options->offset;
  stream->begun_at_us = stream->sent_at_us = stream->progress_at_us = clock_monotonic_us();
  ev_timer_init(&stream->timer, on_timer, 0., 0.);
  stream->timer.data = stream;
  DL_APPEND(crs2->streams, stream);
  crs2->open_stream_count++;
  crs2->stream_count++;
  announce_stream(stream);
  arm_timer(stream, false);
  /* The read is only queued here, so the stream may be closed by what follows. */
  go_on(stream);
  session_begin_stream(call, &stream->link);
}

void streams_note_commit(struct crs2 *crs2, struct slice group, int64_t log_id, int32_t partition,
                         int64_t next_offset) {
  struct stream *stream;
  DL_FOREACH(crs2->streams, stream) {
    if (stream->log_id != log_id || stream->partition != partition) continue;
    if (stream->offset < next_offset && slice_equals_text(group, stream->group)) {
      stream->offset = next_offset;
    }
  }
}
