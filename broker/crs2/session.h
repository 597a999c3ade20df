/* One client connection speaking CRS2: negotiation, then requests one at a time, answered in order.
 * Those of a command that `overlaps` (crs2/commands.h) may be in progress together. */
#ifndef PGCURSUS_CRS2_SESSION_H
#define PGCURSUS_CRS2_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

struct call;
struct positions;
struct session;

/* What a request becomes when it takes its connection over: from then on frames go out and nothing
 * comes in (crs2-wire 13.4). Embedded in the owner's struct. */
struct session_stream {
  /* What was written has left the node: more may be. */
  void (*on_drained)(struct session_stream *stream);
  /* The node stops: end the stream. */
  void (*on_stop)(struct session_stream *stream);
  /* The connection is gone; the session must not be used any more. */
  void (*on_closed)(struct session_stream *stream);
};

/* A call has its answer in call->frame (or none, by acks=0): sends it, frees the call, goes on with
 * the next request. */
void session_call_finished(struct call *call);

/* The principal that the connection acts as, or NULL. */
const char *session_principal(const struct session *session);
void session_set_principal(struct session *session, const char *principal);

/* Ends the call without an answer and gives its session to the stream. The call must have a
 * session. Input is dropped from now on. on_stop or on_closed may be called before this returns. */
void session_begin_stream(struct call *call, struct session_stream *stream);

/* Takes the bytes of whole frames; on_drained follows once they are written. */
void session_stream_write(struct session *session, struct buffer *frames);
size_t session_stream_pending(const struct session *session);

/* Writes the last frame and closes the connection within `grace_ms`. The stream is detached: none
 * of its callbacks is called any more. */
void session_stream_end(struct session *session, struct buffer *frame, int64_t grace_ms,
                        const char *reason);

/* How far this connection has delivered to consumers. */
struct positions *session_positions(struct session *session);

/* "address:port" of the client. */
const char *session_peer(const struct session *session);

#endif
