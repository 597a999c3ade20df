/* Bytes and frames in both directions: queueing, writing, reading, matching answers to requests.
 *
 * A frame from the broker is checked exactly as the broker checks one from a client; anything wrong
 * marks the handle broken for good. Must know nothing of what a command means, beyond that PUBLISH
 * with acks 0 has no answer and that READ_STREAM may have two. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "crs2/wire/error.h"
#include "crs2/wire/frame.h"
#include "crs2/wire/request.h"
#include "internal.h"

#define READ_SIZE (256u * 1024u)
#define REQUEST_ID_POSITION 12u

enum pgcursus_result client_fail(struct pgcursus *client, enum pgcursus_result result,
                                 const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(client->problem, sizeof client->problem, format, arguments);
  va_end(arguments);
  if (result == PGCURSUS_BROKEN) client->broken = true;
  return result;
}

enum pgcursus_result client_fail_transport(struct pgcursus *client) {
  const struct pgcursus_transport *transport = client->transport;
  const char *problem = transport->problem ? transport->problem(transport) : "";
  if (!*problem) problem = strerror(errno);
  return client_fail(client, PGCURSUS_BROKEN, "the connection broke: %s", problem);
}

int64_t client_deadline(int timeout_ms) {
  return timeout_ms < 0 ? -1 : clock_monotonic_us() + (int64_t)timeout_ms * 1000;
}

enum pgcursus_result client_wait(struct pgcursus *client, short events, int64_t deadline) {
  for (;;) {
    int wait_ms = -1;
    if (deadline >= 0) {
      int64_t left = deadline - clock_monotonic_us();
      if (left <= 0) return client_fail(client, PGCURSUS_TIMEOUT, "no answer in time");
      wait_ms = (int)((left + 999) / 1000);
    }
    struct pollfd entry = {.fd = client->transport->fd, .events = events};
    int ready = poll(&entry, 1, wait_ms);
    if (ready > 0) return PGCURSUS_OK;
    if (ready < 0 && errno != EINTR) {
      return client_fail(client, PGCURSUS_BROKEN, "poll: %s", strerror(errno));
    }
  }
}

struct slice client_input(const struct pgcursus *client) {
  if (client->input.length == client->input_used) return slice_of(NULL, 0);
  return slice_of(client->input.data + client->input_used,
                  client->input.length - client->input_used);
}

enum pgcursus_result client_write_some(struct pgcursus *client) {
  struct pgcursus_transport *transport = client->transport;
  while (client->output_sent < client->output.length) {
    ssize_t count = transport->write(transport, client->output.data + client->output_sent,
                                     client->output.length - client->output_sent);
    if (count < 0 && errno == EAGAIN) return PGCURSUS_AGAIN;
    if (count < 0) {
      return client_fail_transport(client);
    }
    client->output_sent += (size_t)count;
  }
  client->output.length = 0;
  client->output_sent = 0;
  return PGCURSUS_OK;
}

/* Makes room at the end of the input by moving what is unread to the front, but only when that is
 * less work than what has been read since: a frame of 64 MiB is not moved for every piece that
 * arrives. */
static void compact_input(struct pgcursus *client) {
  size_t unread = client->input.length - client->input_used;
  if (client->input_used == 0 || unread > client->input_used) return;
  buffer_drop_front(&client->input, client->input_used);
  client->input_used = 0;
}

/* Reads at least READ_SIZE at a time, and as much again as has arrived for a large frame, so memory
 * follows what was sent and not what a header claims. */
enum pgcursus_result client_read_some(struct pgcursus *client) {
  if (client->end_of_input) {
    return client_fail(client, PGCURSUS_BROKEN, "the broker closed the connection");
  }
  struct pgcursus_transport *transport = client->transport;
  compact_input(client);
  size_t room = client->input.length > READ_SIZE ? client->input.length : READ_SIZE;
  uint8_t *place = buffer_reserve(&client->input, room);
  ssize_t count = transport->read(transport, place, room);
  if (count > 0) {
    client->input.length += (size_t)count;
    return PGCURSUS_OK;
  }
  if (count < 0 && errno == EAGAIN) return PGCURSUS_AGAIN;
  client->end_of_input = true;
  if (count == 0) {
    return client_fail(client, PGCURSUS_BROKEN, "the broker closed the connection%s",
                       client_input(client).length ? " inside a frame" : "");
  }
  return client_fail_transport(client);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void note_pending(struct pgcursus *client, uint64_t id, uint16_t command) {
  if (client->pending_first == client->pending_end) client->pending_first = client->pending_end = 0;
  if (client->pending_end == client->pending_capacity && client->pending_first > 0) {
    size_t count = client->pending_end - client->pending_first;
    memmove(client->pending, client->pending + client->pending_first,
            count * sizeof *client->pending);
    client->pending_first = 0;
    client->pending_end = count;
  }
  if (client->pending_end == client->pending_capacity) {
    client->pending_capacity = client->pending_capacity ? client->pending_capacity * 2 : 16;
    client->pending =
        memory_resize(client->pending, client->pending_capacity * sizeof *client->pending);
  }
  client->pending[client->pending_end++] = (struct pending_request){.id = id, .command = command};
}

size_t pgcursus_outstanding(const struct pgcursus *client) {
  size_t count = client->pending_end - client->pending_first;
  return count > 0 && client->pending[client->pending_first].answered ? count - 1 : count;
}

static enum pgcursus_result refuse_broken(struct pgcursus *client) {
  return client->broken ? PGCURSUS_BROKEN : PGCURSUS_OK;
}

enum pgcursus_result client_queue(struct pgcursus *client, uint16_t command, struct slice payload,
                                  bool expects_answer, uint64_t *request_id) {
  if (refuse_broken(client)) return PGCURSUS_BROKEN;
  struct frame_header header = {
      .kind = FRAME_REQUEST,
      .compression = client->compression,
      .command = command,
      .request_id = client->next_request_id,
  };
  const char *reason = frame_encode(&client->output, &header, payload);
  if (reason)
    return client_fail(client, PGCURSUS_INVALID, "the request cannot be sent: %s", reason);
  if (expects_answer) note_pending(client, header.request_id, command);
  if (request_id) *request_id = header.request_id;
  client->next_request_id++;
  return PGCURSUS_OK;
}

enum pgcursus_result pgcursus_send_frame(struct pgcursus *client, uint8_t *frame, size_t length,
                                         bool expects_answer) {
  if (refuse_broken(client)) return PGCURSUS_BROKEN;
  if (length < FRAME_HEADER_SIZE) {
    return client_fail(client, PGCURSUS_INVALID, "not a whole frame");
  }
  uint16_t command = (uint16_t)((frame[8] << 8) | frame[9]);
  uint64_t id = client->next_request_id++;
  uint64_t big_endian = htobe64(id);
  memcpy(frame + REQUEST_ID_POSITION, &big_endian, sizeof big_endian);
  if (expects_answer) note_pending(client, id, command);
  /* Written directly when nothing waits before it, so that a large frame is not copied. */
  size_t sent = 0;
  if (client->output.length == 0) {
    ssize_t count = client->transport->write(client->transport, frame, length);
    if (count < 0 && errno != EAGAIN) {
      return client_fail_transport(client);
    }
    if (count > 0) sent = (size_t)count;
  }
  buffer_append(&client->output, frame + sent, length - sent);
  return PGCURSUS_OK;
}

/* acks 0, in any spelling that the broker takes for it (commands-1 4.1). */
static bool is_silent(uint16_t command, const struct pgcursus_field *fields, size_t count) {
  if (command != COMMAND_PUBLISH) return false;
  for (size_t i = 0; i < count; i++) {
    if (!slice_equals_text(client_slice(fields[i].name), "acks")) continue;
    const char *value = fields[i].value.data;
    size_t zeros = 0;
    for (size_t k = 0; k < fields[i].value.length; k++) {
      if (value[k] == '0')
        zeros++;
      else if (value[k] != ' ' && value[k] != '\t')
        return false;
    }
    return zeros == 1;
  }
  return false;
}

static enum pgcursus_result queue_fields(struct pgcursus *client, uint16_t command,
                                         const struct pgcursus_field *fields, size_t field_count,
                                         uint64_t *request_id, bool *silent) {
  if (field_count > REQUEST_MAX_ARGUMENTS) {
    return client_fail(client, PGCURSUS_INVALID, "more than %u fields", REQUEST_MAX_ARGUMENTS);
  }
  struct arena arena = {0};
  struct buffer payload = {0};
  struct request_fields request = {.field_count = (uint16_t)field_count};
  request.fields = arena_allocate(&arena, (field_count + 1) * sizeof *request.fields);
  for (size_t i = 0; i < field_count; i++) {
    request.fields[i].name = client_slice(fields[i].name);
    request.fields[i].value = client_slice(fields[i].value);
  }
  *silent = is_silent(command, fields, field_count);
  enum pgcursus_result result;
  const char *reason = request_encode(&request, &payload);
  if (reason) {
    result = client_fail(client, PGCURSUS_INVALID, "the request cannot be sent: %s", reason);
  } else {
    result = client_queue(client, command, buffer_slice(&payload), !*silent, request_id);
  }
  buffer_release(&payload);
  arena_release(&arena);
  return result;
}

enum pgcursus_result pgcursus_send(struct pgcursus *client, uint16_t command,
                                   const struct pgcursus_field *fields, size_t field_count,
                                   uint64_t *request_id) {
  bool silent;
  return queue_fields(client, command, fields, field_count, request_id, &silent);
}

/* ---- answers --------------------------------------------------------------------------------- */

static enum pgcursus_result decode_error_reply(struct pgcursus *client, struct slice payload) {
  struct wire_error error;
  const char *reason = error_decode(payload, &client->scratch, &error);
  if (reason) return client_fail(client, PGCURSUS_BROKEN, "malformed error: %s", reason);
  struct pgcursus_field *fields =
      arena_allocate(&client->scratch, ((size_t)error.field_count + 1) * sizeof *fields);
  for (size_t i = 0; i < error.field_count; i++) {
    fields[i].name = client_bytes(error.fields[i].name);
    fields[i].value = client_bytes(error.fields[i].value);
  }
  struct buffer readable = {0};
  error_render(&error, &readable);
  client->error = (struct pgcursus_error){
      .code = client_bytes(error.code),
      .error_class = (int)error.error_class,
      .class_name = error_class_name(error.error_class),
      .retryable = error.retryable,
      .message = client_bytes(error.message),
      .field_count = error.field_count,
      .fields = fields,
      .readable = arena_copy_text(&client->scratch, buffer_slice(&readable)),
  };
  buffer_release(&readable);
  return PGCURSUS_REFUSED;
}

/* Answers come in the order of the requests. A request may have several stream frames, so its entry
 * stays until the next request's answer shows that it is over. */
static bool take_pending(struct pgcursus *client, const struct frame_header *header) {
  struct pending_request *first = client->pending + client->pending_first;
  size_t count = client->pending_end - client->pending_first;
  if (count > 1 && first->answered && first->id != header->request_id) {
    client->pending_first++;
    first++;
    count--;
  }
  if (count == 0 || first->id != header->request_id || first->command != header->command)
    return false;
  first->answered = true;
  bool has_more =
      header->command == COMMAND_READ_STREAM || header->command == COMMAND_READ_STREAM_HISTORY;
  if (header->kind == FRAME_RESPONSE && !has_more) client->pending_first++;
  return true;
}

static enum pgcursus_result accept_reply(struct pgcursus *client, const struct frame_header *header,
                                         struct slice payload, struct pgcursus_reply *reply) {
  if (header->kind != FRAME_RESPONSE && header->kind != FRAME_STREAM) {
    return client_fail(client, PGCURSUS_BROKEN, "the broker sent a frame of kind %d", header->kind);
  }
  if (!take_pending(client, header)) {
    return client_fail(client, PGCURSUS_BROKEN, "the broker answered a request that was not next");
  }
  *reply = (struct pgcursus_reply){
      .request_id = header->request_id,
      .command = header->command,
      .is_stream = header->kind == FRAME_STREAM,
      .is_stream_end = header->status == FRAME_STREAM_END,
      .payload = client_bytes(payload),
  };
  if (header->status == FRAME_ERROR) return decode_error_reply(client, payload);
  return PGCURSUS_OK;
}

/* Gives back what the last reply used. */
static void forget_reply(struct pgcursus *client) {
  client->input_used += client->reply_size;
  client->reply_size = 0;
  if (client->input_used == client->input.length) client->input.length = client->input_used = 0;
  client->plain.length = 0;
  if (client->scratch.chunks) arena_release(&client->scratch);
}

/* A reply out of the bytes that are there; AGAIN when they are not a whole frame. */
static enum pgcursus_result parse_reply(struct pgcursus *client, struct pgcursus_reply *reply) {
  struct slice input = client_input(client);
  if (input.length < FRAME_HEADER_SIZE) return PGCURSUS_AGAIN;
  struct frame_header header;
  const char *reason =
      frame_decode_header(input.data, client->compression, NUMBERING_STANDARD, &header);
  if (reason) return client_fail(client, PGCURSUS_BROKEN, "bad frame from the broker: %s", reason);
  size_t size = FRAME_HEADER_SIZE + (size_t)header.encoded_length;
  if (input.length < size) return PGCURSUS_AGAIN;
  struct slice payload;
  reason =
      frame_decode_payload(&header, slice_of(input.data + FRAME_HEADER_SIZE, header.encoded_length),
                           &client->plain, &payload);
  if (reason) return client_fail(client, PGCURSUS_BROKEN, "bad frame from the broker: %s", reason);
  client->reply_size = size;
  return accept_reply(client, &header, payload, reply);
}

enum pgcursus_result pgcursus_try_flush(struct pgcursus *client) {
  return client->broken ? PGCURSUS_BROKEN : client_write_some(client);
}

enum pgcursus_result pgcursus_try_receive(struct pgcursus *client, struct pgcursus_reply *reply) {
  if (client->broken) return PGCURSUS_BROKEN;
  forget_reply(client);
  for (;;) {
    enum pgcursus_result result = parse_reply(client, reply);
    if (result != PGCURSUS_AGAIN) return result;
    result = client_read_some(client);
    if (result != PGCURSUS_OK) return result;
  }
}

int pgcursus_fd(const struct pgcursus *client) {
  return client->transport->fd;
}

short pgcursus_poll_events(const struct pgcursus *client) {
  short events = client->transport->read_wants;
  if (client->output_sent < client->output.length) events |= client->transport->write_wants;
  return events;
}

/* While the broker does not read because its answers are not read, reading is what helps. */
enum pgcursus_result pgcursus_flush(struct pgcursus *client) {
  int64_t deadline = client_deadline(client->timeout_ms);
  forget_reply(client);
  for (;;) {
    enum pgcursus_result result = pgcursus_try_flush(client);
    if (result != PGCURSUS_AGAIN) return result;
    result = client_wait(client, pgcursus_poll_events(client), deadline);
    if (result != PGCURSUS_OK) return result;
    result = client_read_some(client);
    if (result != PGCURSUS_OK && result != PGCURSUS_AGAIN) return result;
  }
}

enum pgcursus_result pgcursus_receive(struct pgcursus *client, struct pgcursus_reply *reply) {
  int64_t deadline = client_deadline(client->timeout_ms);
  for (;;) {
    enum pgcursus_result result = pgcursus_try_flush(client);
    if (result == PGCURSUS_BROKEN) return result;
    result = pgcursus_try_receive(client, reply);
    if (result != PGCURSUS_AGAIN) return result;
    result = client_wait(client, pgcursus_poll_events(client), deadline);
    if (result != PGCURSUS_OK) return result;
  }
}

enum pgcursus_result pgcursus_call(struct pgcursus *client, uint16_t command,
                                   const struct pgcursus_field *fields, size_t field_count,
                                   struct pgcursus_reply *reply) {
  if (refuse_broken(client)) return PGCURSUS_BROKEN;
  if (pgcursus_outstanding(client) > 0) {
    return client_fail(client, PGCURSUS_INVALID, "earlier answers have not been received");
  }
  bool silent = false;
  enum pgcursus_result result = queue_fields(client, command, fields, field_count, NULL, &silent);
  if (result != PGCURSUS_OK) return result;
  if (!silent) return pgcursus_receive(client, reply);
  *reply = (struct pgcursus_reply){.command = command};
  return pgcursus_flush(client);
}

const struct pgcursus_error *pgcursus_last_error(const struct pgcursus *client) {
  return &client->error;
}

struct pgcursus_bytes pgcursus_error_field(const struct pgcursus_error *error, const char *name) {
  for (size_t i = 0; i < error->field_count; i++) {
    if (slice_equals_text(client_slice(error->fields[i].name), name)) return error->fields[i].value;
  }
  return (struct pgcursus_bytes){.data = NULL, .length = 0};
}

uint16_t pgcursus_command_by_name(const char *name) {
  return command_by_name(slice_text(name));
}

const char *pgcursus_command_name(uint16_t command) {
  return command_name(command);
}
