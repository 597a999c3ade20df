/* Reads frames off a connection and writes answers on it, in order. Decides what closes a
 * connection (crs2-wire 15); what a command means is none of its business. */
#include "crs2/session.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "crs2/call.h"
#include "crs2/commands.h"
#include "crs2/crs2.h"
#include "crs2/positions.h"
#include "crs2/wire/frame.h"
#include "crs2/wire/negotiate.h"
#include "net/connection.h"

/* Payloads above this size are checked and decompressed by a worker. */
#define LARGE_REQUEST_BYTES (1u << 20)

/* Requests of one connection in progress at a time, where their command lets them overlap. */
#define MAX_OVERLAPPING 64
#define MAX_OVERLAPPING_BYTES 65536

/* The longest handshake payload that can be valid: two versions, a count, four compressions. */
#define HANDSHAKE_MAX_PAYLOAD 10u

#define CLOSE_GRACE_MS 5000

/* How much later than a stream its connection gives up on a peer that takes nothing. */
#define STREAM_WRITE_GRACE_MS 10000

enum session_state {
  SESSION_HANDSHAKE, /* nothing negotiated yet */
  SESSION_OPEN,      /* between requests, or with one in progress */
  SESSION_STREAMING, /* a stream has the connection */
  SESSION_ENDING,    /* the last answer is being written */
};

struct session {
  struct crs2 *crs2;
  struct connection *connection;
  enum session_state state;
  enum compression compression;
  enum command_numbering numbering;
  const struct command *command; /* of the frame whose payload is awaited */
  struct frame_header header;    /* likewise */
  struct call *calls;            /* in progress, or answered and behind one that is not; in order */
  unsigned call_count;
  struct session_stream *stream; /* SESSION_STREAMING */
  bool processing;               /* inside process(): answers that come at once must not recurse */
  bool input_ended;
  bool frame_started; /* the deadline in force is a frame's */
  char *principal;
  struct positions positions;
  struct session *prev, *next;
};

static void process(struct session *session);

const char *session_principal(const struct session *session) {
  return session ? session->principal : NULL;
}

void session_set_principal(struct session *session, const char *principal) {
  if (session == NULL) return;
  free(session->principal);
  session->principal = memory_copy_text(principal);
}

struct positions *session_positions(struct session *session) {
  return &session->positions;
}

static void free_session(struct session *session) {
  positions_release(&session->positions);
  free(session->principal);
  free(session);
}

const char *session_peer(const struct session *session) {
  return session ? connection_peer(session->connection) : "gone";
}

/* ------------------------------------------------------------------ ending */

static void end_after_output(struct session *session, const char *reason) {
  session->state = SESSION_ENDING;
  connection_close_after_output(session->connection, CLOSE_GRACE_MS, reason);
}

/* What has been answered already still reaches the client. */
static void cut_off(struct session *session, const char *reason) {
  log_event(LOG_INFO, "closing a connection", "peer", session_peer(session), "reason", reason,
            NULL);
  if (connection_output_pending(session->connection) > 0) {
    end_after_output(session, reason);
  } else {
    connection_close(session->connection, reason);
  }
}

/* ------------------------------------------------------------------ deadlines */

static void watch_frame(struct session *session, bool started) {
  const struct config *config = session->crs2->config;
  if (started) {
    if (session->frame_started) return;
    connection_set_deadline(session->connection, config->client_request_timeout_ms);
  } else {
    connection_set_deadline(session->connection, config->client_idle_timeout_ms);
  }
  session->frame_started = started;
}

static void on_deadline(struct connection *connection, void *owner) {
  struct session *session = owner;
  (void)connection;
  if (session->state == SESSION_HANDSHAKE) {
    cut_off(session, "the handshake took too long");
  } else if (session->frame_started) {
    cut_off(session, "a frame took too long to arrive");
  } else {
    cut_off(session, "idle for too long");
  }
}

/* ------------------------------------------------------------------ the handshake */

/* True when a whole handshake was taken; false when more input is needed or the connection was
 * closed. */
static bool read_handshake(struct session *session) {
  struct slice input = connection_input(session->connection);
  if (input.length < FRAME_HEADER_SIZE) {
    connection_want_input(session->connection, FRAME_HEADER_SIZE);
    return false;
  }
  struct frame_header header;
  const char *reason =
      frame_decode_header(input.data, COMPRESSION_NONE, NUMBERING_STANDARD, &header);
  if (reason == NULL && header.kind != FRAME_NEGOTIATION_REQUEST) reason = "no negotiation request";
  if (reason == NULL && header.encoded_length > HANDSHAKE_MAX_PAYLOAD) {
    reason = "the negotiation request is too long";
  }
  if (reason) {
    cut_off(session, reason);
    return false;
  }
  size_t size = FRAME_HEADER_SIZE + header.encoded_length;
  if (input.length < size) {
    connection_want_input(session->connection, size);
    return false;
  }
  struct buffer storage = {0};
  struct slice payload;
  struct negotiation_request request;
  reason = frame_decode_payload(
      &header, slice_of(input.data + FRAME_HEADER_SIZE, header.encoded_length), &storage, &payload);
  if (reason == NULL) reason = negotiation_decode_request(payload, &request);
  if (reason == NULL) reason = negotiation_select(&request, &session->compression);
  buffer_release(&storage);
  if (reason) {
    cut_off(session, reason);
    return false;
  }
  session->numbering = header.command == COMMAND_NEGOTIATE ? NUMBERING_STANDARD : NUMBERING_SHIFTED;
  connection_consume(session->connection, size);
  struct buffer answer = {0};
  struct buffer out = {0};
  negotiation_encode_response(session->compression, &answer);
  const struct frame_header response = {.kind = FRAME_NEGOTIATION_RESPONSE,
                                        .compression = COMPRESSION_NONE,
                                        .command = header.command,
                                        .status = FRAME_OK,
                                        .request_id = header.request_id};
  reason = frame_encode(&out, &response, buffer_slice(&answer));
  buffer_release(&answer);
  if (reason) {
    buffer_release(&out);
    cut_off(session, reason);
    return false;
  }
  connection_write(session->connection, &out);
  session->state = SESSION_OPEN;
  watch_frame(session, false);
  return true;
}

/* ------------------------------------------------------------------ requests */

/* Checks, decompresses and decodes the payload. Runs on a worker for large ones, so it touches the
 * call only. */
static void read_payload(struct call *call) {
  call->refusal = frame_decode_payload(&call->header, buffer_slice(&call->encoded), &call->decoded,
                                       &call->payload);
  if (call->refusal) return;
  if (call->decoded.length) buffer_release(&call->encoded);
  if (batch_is_batch(call->payload)) {
    call->is_batch = true;
    if (call->command->id != COMMAND_PUBLISH) {
      call->refusal = "a batch with a command other than PUBLISH";
      return;
    }
    call->refusal = batch_decode(call->payload, &call->batch_arena, &call->batch);
    call->is_refused_batch = call->refusal != NULL;
    return;
  }
  call->refusal = request_decode(call->payload, &call->arena, &call->fields);
}

static void dispatch(struct call *call) {
  call_set_charge(call, call->encoded.capacity + call->decoded.capacity + call->arena.allocated +
                            call->batch_arena.allocated);
  if (call->refusal && !call->is_refused_batch) {
    call->encode_refusal = call->refusal; /* what came before it is still answered */
    session_call_finished(call);
    return;
  }
  command_dispatch(call);
}

static struct call *call_of_job(struct worker_job *job) {
  return (struct call *)((char *)job - offsetof(struct call, job));
}

static void run_read_payload(struct worker_job *job) {
  read_payload(call_of_job(job));
}

static void read_payload_done(struct worker_job *job) {
  dispatch(call_of_job(job));
}

/* Takes the next header off the input, so that a payload then lies alone in its block and is handed
 * over without a copy. False when there is none yet, or the connection was closed. */
static bool take_header(struct session *session) {
  struct connection *connection = session->connection;
  struct slice input = connection_input(connection);
  if (input.length < FRAME_HEADER_SIZE) {
    /* The first byte starts the frame's time, so it must not pass unnoticed. */
    connection_want_input(connection, input.length ? FRAME_HEADER_SIZE : 1);
    return false;
  }
  const char *reason =
      frame_decode_header(input.data, session->compression, session->numbering, &session->header);
  if (reason == NULL && session->header.kind != FRAME_REQUEST) reason = "not a request";
  if (reason == NULL) {
    session->command = command_find(command_from_wire(session->numbering, session->header.command));
    if (session->command == NULL) reason = "not a command";
  }
  if (reason) {
    cut_off(session, reason);
    return false;
  }
  connection_consume(connection, FRAME_HEADER_SIZE);
  return true;
}

/* Starts the next request when it is there. False when there is none, or the connection was closed.
 */
static bool start_request(struct session *session) {
  struct connection *connection = session->connection;
  watch_frame(session, session->command != NULL || connection_input(connection).length > 0);
  if (session->command == NULL && !take_header(session)) return false;
  uint32_t length = session->header.encoded_length;
  if (connection_input(connection).length < length) {
    connection_want_input(connection, length);
    return false;
  }
  connection_set_deadline(connection, 0);
  session->frame_started = false;
  struct call *call = call_create(session->crs2, session);
  call->command = session->command;
  call->header = session->header;
  call->numbering = session->numbering;
  session->command = NULL;
  connection_take_input(connection, length, &call->encoded);
  call->charged = length;
  DL_APPEND(session->calls, call);
  session->call_count++;
  if (call->header.decoded_length > LARGE_REQUEST_BYTES) {
    call->job.run = run_read_payload;
    call->job.done = read_payload_done;
    worker_pool_submit(session->crs2->workers, &call->job);
  } else {
    read_payload(call);
    dispatch(call);
  }
  return true;
}

/* What comes after requests that are in progress. */
enum next_request {
  NEXT_WAITS,    /* until they are answered, whatever is right or wrong with it */
  NEXT_OVERLAPS, /* it is all there, small, and as good as they are */
  NEXT_ARRIVES,  /* it may yet turn out to be one of the others */
};

static enum next_request look_at_next(struct session *session) {
  const struct call *last = session->calls->prev;
  if (!last->command->overlaps || !last->is_placed || session->command != NULL ||
      session->call_count >= MAX_OVERLAPPING) {
    return NEXT_WAITS;
  }
  struct slice input = connection_input(session->connection);
  size_t size = FRAME_HEADER_SIZE;
  if (input.length >= size) {
    struct frame_header header;
    if (frame_decode_header(input.data, session->compression, session->numbering, &header) ||
        header.kind != FRAME_REQUEST || header.encoded_length > MAX_OVERLAPPING_BYTES ||
        header.decoded_length > MAX_OVERLAPPING_BYTES) {
      return NEXT_WAITS;
    }
    const struct command *command =
        command_find(command_from_wire(session->numbering, header.command));
    if (command == NULL || !command->overlaps) return NEXT_WAITS;
    size += header.encoded_length;
    if (input.length >= size) return NEXT_OVERLAPS;
  }
  connection_want_input(session->connection, size);
  return NEXT_ARRIVES;
}

/* Nothing is in progress and nothing complete is left to start. */
static void rest(struct session *session) {
  if (session->input_ended || session->crs2->draining) {
    end_after_output(session, session->input_ended ? "end of input" : "the node is stopping");
  }
}

/* A stream's client may send what it likes; it is read, so that its end is noticed, and dropped. */
static void ignore_input(struct session *session) {
  struct connection *connection = session->connection;
  connection_consume(connection, connection_input(connection).length);
  connection_want_input(connection, 1);
  connection_hold(connection, false);
}

static void process(struct session *session) {
  struct connection *connection = session->connection;
  struct crs2 *crs2 = session->crs2;
  session->processing = true;
  bool more = true;
  while (more && session->connection != NULL && session->state < SESSION_STREAMING &&
         !connection_output_is_full(connection) &&
         (session->calls == NULL || look_at_next(session) == NEXT_OVERLAPS)) {
    if (session->state == SESSION_HANDSHAKE) {
      more = read_handshake(session);
    } else {
      more = !crs2->draining && start_request(session);
    }
  }
  bool is_busy = session->connection != NULL &&
                 (session->calls != NULL || connection_output_is_full(connection));
  if (session->connection != NULL && !is_busy && session->state < SESSION_STREAMING) rest(session);
  session->processing = false;
  if (session->connection == NULL) { /* closed meanwhile; on_closed left the memory to us */
    free_session(session);
  } else if (session->state == SESSION_STREAMING) {
    ignore_input(session);
  } else if (session->state != SESSION_ENDING) {
    bool takes_more = session->calls && !crs2->draining && look_at_next(session) == NEXT_ARRIVES &&
                      !connection_output_is_full(connection);
    connection_hold(connection, is_busy && !takes_more);
  }
}

static void record_metrics(const struct call *call) {
  const char *name = call->command->name;
  metric_add(metric_with(call->crs2->requests_total, name, call->outcome), 1);
  metric_observe(metric_with(call->crs2->request_seconds, name, NULL),
                 (double)(clock_monotonic_us() - call->started_us) / 1e6);
}

/* Writes the answer of the oldest request. False when no further one may be written. */
static bool deliver(struct session *session) {
  struct call *call = session->calls;
  const char *refusal = call->encode_refusal;
  bool closes = call->closes_session;
  struct buffer frame = call->frame;
  call->frame = (struct buffer){0};
  DL_DELETE(session->calls, call);
  session->call_count--;
  call_free(call);
  if (refusal) {
    cut_off(session, refusal);
  } else {
    if (frame.length && session->state != SESSION_ENDING) {
      connection_write(session->connection, &frame);
    }
    if (closes) end_after_output(session, "the client said EXIT");
  }
  buffer_release(&frame);
  return !refusal && !closes;
}

void session_call_finished(struct call *call) {
  struct session *session = call->session;
  if (call->answered) record_metrics(call);
  if (session == NULL) {
    call_free(call);
    return;
  }
  call->is_finished = true;
  while (session->calls && session->calls->is_finished) {
    if (!deliver(session)) return;
  }
  if (!session->processing) process(session);
}

/* ------------------------------------------------------------------ streams */

void session_begin_stream(struct call *call, struct session_stream *stream) {
  struct session *session = call->session;
  record_metrics(call);
  session->calls = NULL;
  session->call_count = 0;
  call_free(call);
  session->stream = stream;
  session->state = SESSION_STREAMING;
  connection_set_deadline(session->connection, 0);
  session->frame_started = false;
  /* The stream itself notices a peer that takes nothing, and says so. */
  connection_set_write_timeout(session->connection,
                               session->crs2->config->stream_timeout + STREAM_WRITE_GRACE_MS);
  if (session->input_ended) {
    connection_close(session->connection, "end of input");
  } else if (session->crs2->draining) {
    stream->on_stop(stream);
  } else if (!session->processing) {
    ignore_input(session);
  }
}

void session_stream_write(struct session *session, struct buffer *frames) {
  connection_write(session->connection, frames);
  connection_request_drained(session->connection);
}

size_t session_stream_pending(const struct session *session) {
  return connection_output_pending(session->connection);
}

void session_stream_end(struct session *session, struct buffer *frame, int64_t grace_ms,
                        const char *reason) {
  session->stream = NULL;
  session->state = SESSION_ENDING;
  connection_write(session->connection, frame);
  connection_close_after_output(session->connection, grace_ms, reason);
}

/* ------------------------------------------------------------------ the connection's events */

static void on_input(struct connection *connection, void *owner) {
  struct session *session = owner;
  (void)connection;
  if (session->processing) return;
  if (session->state == SESSION_STREAMING) {
    ignore_input(session);
  } else {
    process(session);
  }
}

/* Only a request that is alone waits for something. */
static void cancel_wait(struct session *session) {
  struct call *call = session->calls;
  if (call && call->on_cancel) call->on_cancel(call);
}

static void on_end_of_input(struct connection *connection, void *owner) {
  struct session *session = owner;
  (void)connection;
  session->input_ended = true;
  if (session->state == SESSION_HANDSHAKE) {
    connection_close(session->connection, "end of input in the handshake");
  } else if (session->state == SESSION_STREAMING) {
    connection_close(session->connection, "end of input");
  } else if (session->calls != NULL) {
    cancel_wait(session);
  } else if (!session->processing && session->state == SESSION_OPEN) {
    process(session);
  }
}

static void on_output_drained(struct connection *connection, void *owner) {
  struct session *session = owner;
  (void)connection;
  if (session->state == SESSION_STREAMING) {
    session->stream->on_drained(session->stream);
  } else if (!session->processing && session->state == SESSION_OPEN) {
    process(session);
  }
}

static void on_closed(struct connection *connection, void *owner, const char *reason) {
  struct session *session = owner;
  (void)connection;
  log_event(LOG_DEBUG, "connection closed", "peer", session_peer(session), "reason", reason, NULL);
  DL_DELETE(session->crs2->sessions, session);
  session->crs2->session_count--;
  struct call *calls = session->calls;
  if (session->stream) session->stream->on_closed(session->stream);
  session->stream = NULL;
  session->calls = NULL;
  session->connection = NULL;
  struct call *call, *next;
  DL_FOREACH_SAFE(calls, call, next) {
    call->session = NULL;
    if (call->is_finished) {
      call_free(call);
    } else if (call->on_cancel) {
      call->on_cancel(call);
    }
  }
  if (session->processing) return;
  free_session(session);
}

static const struct connection_handler handler = {
    .on_input = on_input,
    .on_end_of_input = on_end_of_input,
    .on_output_drained = on_output_drained,
    .on_deadline = on_deadline,
    .on_closed = on_closed,
};

/* ------------------------------------------------------------------ the front end */

void crs2_init(struct crs2 *crs2) {
  static const double seconds[] = {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05,
                                   0.1,    0.2,   0.5,   1,     2,    5,    30};
  crs2->requests_total = metric_counter("pgcursus_requests_total",
                                        "Requests answered, by command and outcome (ok, or the "
                                        "class of the error).",
                                        "command", "outcome");
  crs2->request_seconds =
      metric_histogram("pgcursus_request_seconds", "Time from a whole request to its answer.",
                       "command", NULL, seconds, sizeof seconds / sizeof *seconds);
}

void crs2_accept(struct connection *connection, void *context) {
  struct crs2 *crs2 = context;
  struct session *session = memory_allocate_zeroed(1, sizeof *session);
  session->crs2 = crs2;
  session->connection = connection;
  DL_APPEND(crs2->sessions, session);
  crs2->session_count++;
  connection_attach(connection, &handler, session);
  connection_want_input(connection, FRAME_HEADER_SIZE);
  connection_set_deadline(connection, crs2->config->handshake_timeout_ms);
}

void crs2_drain(struct crs2 *crs2) {
  crs2->draining = true;
  struct session *session, *next;
  DL_FOREACH_SAFE(crs2->sessions, session, next) {
    if (session->calls != NULL) {
      cancel_wait(session);
    } else if (session->state == SESSION_STREAMING) {
      session->stream->on_stop(session->stream);
    } else if (session->state != SESSION_ENDING) {
      end_after_output(session, "the node is stopping");
    }
  }
}

bool crs2_is_idle(const struct crs2 *crs2) {
  return crs2->session_count == 0 && crs2->calls_in_progress == 0 && crs2->stream_count == 0;
}
