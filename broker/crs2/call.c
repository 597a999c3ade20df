/* Makes answers and gives them to the session that waits for them. Must not know any command. */
#include "crs2/call.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "crs2/commands.h"
#include "crs2/crs2.h"
#include "crs2/session.h"
#include "net/budget.h"

/* Answers above this size are built, compressed and summed by a worker. */
#define LARGE_ANSWER_BYTES (1u << 20)

struct call *call_create(struct crs2 *crs2, struct session *session) {
  struct call *call = memory_allocate_zeroed(1, sizeof *call);
  call->crs2 = crs2;
  call->session = session;
  call->started_us = clock_monotonic_us();
  call->deadline_us = call->started_us + crs2->config->client_request_timeout_ms * 1000;
  call->outcome = "ok";
  crs2->calls_in_progress++;
  return call;
}

void call_set_charge(struct call *call, size_t bytes) {
  if (bytes > call->charged) {
    memory_budget_charge(call->crs2->budget, bytes - call->charged);
  } else {
    memory_budget_release(call->crs2->budget, call->charged - bytes);
  }
  call->charged = bytes;
}

void call_release_payload(struct call *call) {
  buffer_release(&call->encoded);
  buffer_release(&call->decoded);
  arena_release(&call->batch_arena);
  call->payload = slice_of(NULL, 0);
}

void call_free(struct call *call) {
  if (call->on_free) call->on_free(call);
  call_release_payload(call);
  call_set_charge(call, 0);
  buffer_release(&call->frame);
  arena_release(&call->arena);
  call->crs2->calls_in_progress--;
  free(call);
}

struct slice call_field(const struct call *call, const char *name) {
  const struct slice *value = request_find(&call->fields, name);
  return value ? *value : slice_of(NULL, 0);
}

bool call_has_field(const struct call *call, const char *name) {
  return request_find(&call->fields, name) != NULL;
}

/* ------------------------------------------------------------------ answering */

static struct frame_header answer_header(const struct call *call, enum frame_status status) {
  return (struct frame_header){.kind = call->command->is_streamed ? FRAME_STREAM : FRAME_RESPONSE,
                               .compression = call->header.compression,
                               .command = call->header.command,
                               .status = status,
                               .request_id = call->header.request_id};
}

static void finish(struct call *call) {
  call->answered = true;
  session_call_finished(call);
}

static void encode_small(struct call *call, enum frame_status status, struct slice payload) {
  if (call->wants_no_answer || call->session == NULL) return;
  struct frame_header header = answer_header(call, status);
  call->encode_refusal = frame_encode(&call->frame, &header, payload);
}

void call_reply_bytes(struct call *call, struct slice payload) {
  encode_small(call, FRAME_OK, payload);
  finish(call);
}

void call_reply_format(struct call *call, const char *format, ...) {
  char *text = NULL;
  va_list arguments;
  va_start(arguments, format);
  int length = vasprintf(&text, format, arguments);
  va_end(arguments);
  if (length < 0) abort();
  encode_small(call, FRAME_OK, slice_of(text, (size_t)length));
  free(text);
  finish(call);
}

static void build_frames(struct call *call) {
  struct frame_header header = answer_header(call, FRAME_OK);
  header.kind = call->frame_kind;
  for (call->frame_index = 0; call->frame_index < call->frame_count; call->frame_index++) {
    size_t start = frame_begin(&call->frame);
    call->build(call, &call->frame);
    call->encode_refusal = frame_finish(&call->frame, start, &header);
    if (call->encode_refusal) return;
  }
}

static void run_build(struct worker_job *job) {
  build_frames((struct call *)((char *)job - offsetof(struct call, job)));
}

static void build_done(struct worker_job *job) {
  struct call *call = (struct call *)((char *)job - offsetof(struct call, job));
  if (call->built) call->built(call);
  finish(call);
}

static void reply_built(struct call *call, size_t expected_bytes,
                        void (*build)(struct call *call, struct buffer *out),
                        void (*built)(struct call *call)) {
  call->build = build;
  call->built = built;
  call->job.run = run_build;
  call->job.done = build_done;
  if (expected_bytes > LARGE_ANSWER_BYTES && call->session != NULL) {
    worker_pool_submit(call->crs2->workers, &call->job);
    return;
  }
  if (call->session != NULL && !call->wants_no_answer) build_frames(call);
  build_done(&call->job);
}

void call_reply_built(struct call *call, size_t expected_bytes,
                      void (*build)(struct call *call, struct buffer *out),
                      void (*built)(struct call *call)) {
  call->frame_kind = FRAME_RESPONSE;
  call->frame_count = 1;
  reply_built(call, expected_bytes, build, built);
}

void call_reply_stream_frames(struct call *call, unsigned frame_count, size_t expected_bytes,
                              void (*build)(struct call *call, struct buffer *out),
                              void (*built)(struct call *call)) {
  call->frame_kind = FRAME_STREAM;
  call->frame_count = frame_count;
  reply_built(call, expected_bytes, build, built);
}

void call_fail_with(struct call *call, const char *code, const struct error_field *fields,
                    size_t field_count, const char *message) {
  struct wire_error error = {.code = slice_text(code), .message = slice_text(message)};
  error_classify(error.code, &error.error_class, &error.retryable);
  call->outcome = error_class_name(error.error_class);
  struct error_field *copies = NULL;
  if (field_count) {
    copies = arena_allocate(&call->arena, field_count * sizeof *copies);
    memcpy(copies, fields, field_count * sizeof *copies);
  }
  error.fields = copies;
  error.field_count = (uint16_t)field_count;
  struct buffer payload = {0};
  call->encode_refusal = error_encode(&error, &payload);
  if (call->encode_refusal == NULL) encode_small(call, FRAME_ERROR, buffer_slice(&payload));
  buffer_release(&payload);
  finish(call);
}

void call_fail_command(struct call *call, const char *code) {
  call_fail(call, code, FIELD_TEXT("command", call->command->name));
}
