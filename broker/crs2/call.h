/* One request in progress, from its frame to its answer.
 *
 * A call outlives its connection when the client goes away meanwhile: handlers that wait for the
 * database keep it and answer as usual, and the answer is dropped. Everything it allocates is in
 * its arena. */
#ifndef PGCURSUS_CRS2_CALL_H
#define PGCURSUS_CRS2_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/worker.h"
#include "crs2/wire/batch.h"
#include "crs2/wire/error.h"
#include "crs2/wire/frame.h"
#include "crs2/wire/request.h"

struct command;
struct crs2;
struct session;

struct call {
  struct crs2 *crs2;
  struct session *session; /* NULL: the client has gone */
  const struct command *command;
  struct frame_header header;
  enum command_numbering numbering;
  struct arena arena;
  struct buffer encoded; /* the frame's payload as received */
  struct buffer decoded; /* decompressed, when it was compressed */
  struct slice payload;  /* a view of one of them */
  size_t charged;        /* bytes of the memory budget */
  struct request_fields fields;
  bool is_batch; /* the payload is a CBV2 batch */
  struct batch batch;
  struct arena batch_arena; /* the batch's records; goes with the payload */
  const char *refusal;      /* why the payload cannot be read */
  bool is_refused_batch;    /* ... but it was meant as a batch: answered, not cut off */
  bool wants_no_answer;     /* acks=0: never a frame */
  bool closes_session;      /* EXIT */
  int64_t started_us;
  int64_t deadline_us; /* monotonic */
  void *state;         /* the handler's own, in the arena */
  bool is_placed;      /* set by a handler: no later request of the connection can overtake it */
  /* Set by a handler that waits for something that may never come (a long poll): answer now. */
  void (*on_cancel)(struct call *call);
  /* Gives back what a handler holds outside the arena; called once, when the call ends. */
  void (*on_free)(struct call *call);

  /* private to call.c and session.c */
  struct worker_job job;
  struct buffer frame;
  const char *encode_refusal;
  void (*build)(struct call *call, struct buffer *out);
  void (*built)(struct call *call);
  enum frame_kind frame_kind; /* of what `build` makes */
  unsigned frame_count;
  unsigned frame_index; /* being built */
  bool answered;
  bool is_finished;         /* its answer waits for those of the requests before it */
  struct call *prev, *next; /* on its connection */
  const char *outcome;      /* for metrics: "ok" or the error's class */
};

/* Answers. Each ends the call: it may be freed when the function returns. */

/* OK with a text made like printf. */
void call_reply_format(struct call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void call_reply_bytes(struct call *call, struct slice payload);

/* OK with a payload that `build` appends to a buffer; on a worker thread when `expected_bytes` is
 * large. `built` (may be NULL) is called on the loop before the call ends, to give back what
 * `build` needed. */
void call_reply_built(struct call *call, size_t expected_bytes,
                      void (*build)(struct call *call, struct buffer *out),
                      void (*built)(struct call *call));

/* The same with several frames, as STREAM frames with status OK (crs2-wire 13.5): `build` is called
 * for each in order, and `call->frame_index` says for which. */
void call_reply_stream_frames(struct call *call, unsigned frame_count, size_t expected_bytes,
                              void (*build)(struct call *call, struct buffer *out),
                              void (*built)(struct call *call));

/* A typed error; class and retryable come from the registry by code. Field values are copied.
 * `message` may be NULL. */
void call_fail_with(struct call *call, const char *code, const struct error_field *fields,
                    size_t field_count, const char *message);

#define FIELD_TEXT(field_name, text) \
  { slice_text(field_name), slice_text(text) }
#define FIELD_SLICE(field_name, bytes) \
  { slice_text(field_name), (bytes) }
#define FIELD_NUMBER(call, field_name, number) \
  { slice_text(field_name), slice_text(arena_format(&(call)->arena, "%lld", (long long)(number))) }

#define call_fail(call, code, ...)                                                               \
  call_fail_with((call), (code), (const struct error_field[]){__VA_ARGS__},                      \
                 sizeof((const struct error_field[]){__VA_ARGS__}) / sizeof(struct error_field), \
                 NULL)
#define call_fail_plain(call, code) call_fail_with((call), (code), NULL, 0, NULL)

/* `code {command=<name>}`, the commonest shape. */
void call_fail_command(struct call *call, const char *code);

/* The value of a request field; an absent one is the empty slice. */
struct slice call_field(const struct call *call, const char *name);

/* True when the field was sent, even empty. */
bool call_has_field(const struct call *call, const char *name);

/* Forgets the request's bytes early, when a handler has taken what it needs of a large one. Slices
 * of the payload are invalid afterwards. */
void call_release_payload(struct call *call);

/* Moves the charge on the memory budget to `bytes` in all. */
void call_set_charge(struct call *call, size_t bytes);

/* private to crs2/: life of a call */
struct call *call_create(struct crs2 *crs2, struct session *session)
    __attribute__((returns_nonnull, warn_unused_result));
void call_free(struct call *call);

#endif
