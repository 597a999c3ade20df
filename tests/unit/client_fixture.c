/* See client_fixture.h. */
#include "client_fixture.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "base/memory.h"
#include "crs2/wire/negotiate.h"
#include "unit.h"

struct memory_transport {
  struct pgcursus_transport base;
  struct client_fixture *fixture;
};

static ssize_t memory_read(struct pgcursus_transport *transport, void *data, size_t size) {
  struct client_fixture *fixture = ((struct memory_transport *)transport)->fixture;
  size_t left = fixture->from_broker.length - fixture->read_position;
  if (left == 0) {
    errno = EAGAIN;
    return fixture->closes ? 0 : -1;
  }
  if (left > size) left = size;
  if (fixture->read_limit && left > fixture->read_limit) left = fixture->read_limit;
  memcpy(data, fixture->from_broker.data + fixture->read_position, left);
  fixture->read_position += left;
  return (ssize_t)left;
}

static ssize_t memory_write(struct pgcursus_transport *transport, const void *data, size_t length) {
  buffer_append(&((struct memory_transport *)transport)->fixture->to_broker, data, length);
  return (ssize_t)length;
}

static void memory_close(struct pgcursus_transport *transport) {
  ((struct memory_transport *)transport)->fixture->is_closed = true;
  free(transport);
}

struct pgcursus_transport *client_fixture_transport(struct client_fixture *fixture) {
  struct memory_transport *transport = memory_allocate(sizeof *transport);
  *transport = (struct memory_transport){
      .base = {.fd = fixture->pipe[0],
               .read_wants = POLLIN,
               .write_wants = POLLOUT,
               .read = memory_read,
               .write = memory_write,
               .close = memory_close},
      .fixture = fixture,
  };
  return &transport->base;
}

void client_fixture_open(struct client_fixture *fixture) {
  *fixture = (struct client_fixture){.read_limit = 0};
  assert_int_equal(pipe(fixture->pipe), 0);
}

void client_fixture_close(struct client_fixture *fixture) {
  buffer_release(&fixture->from_broker);
  buffer_release(&fixture->to_broker);
  close(fixture->pipe[0]);
  close(fixture->pipe[1]);
}

void client_fixture_answer(struct client_fixture *fixture, enum compression compression,
                           enum frame_kind kind, uint16_t command, enum frame_status status,
                           uint64_t request_id, struct slice payload) {
  const struct frame_header header = {.kind = kind,
                                      .compression = compression,
                                      .command = command,
                                      .status = status,
                                      .request_id = request_id};
  assert_null(frame_encode(&fixture->from_broker, &header, payload));
}

void client_fixture_respond(struct client_fixture *fixture, uint16_t command, uint64_t request_id,
                            const char *text) {
  client_fixture_answer(fixture, COMPRESSION_NONE, FRAME_RESPONSE, command, FRAME_OK, request_id,
                        slice_text(text));
}

struct pgcursus *client_fixture_connect(struct client_fixture *fixture,
                                        enum pgcursus_compression compression) {
  struct buffer payload = {0};
  negotiation_encode_response((enum compression)compression, &payload);
  client_fixture_answer(fixture, COMPRESSION_NONE, FRAME_NEGOTIATION_RESPONSE, COMMAND_NEGOTIATE,
                        FRAME_OK, 0, buffer_slice(&payload));
  buffer_release(&payload);
  const struct pgcursus_options options = {.compressions = &compression,
                                           .compression_count = 1,
                                           .timeout_ms = 200,
                                           .transport = client_fixture_transport(fixture)};
  char problem[200] = "";
  struct pgcursus *client = pgcursus_connect(&options, problem, sizeof problem);
  assert_string_equal(problem, "");
  assert_non_null(client);
  fixture->to_broker.length = 0;
  return client;
}

struct frame_header client_fixture_take(struct client_fixture *fixture,
                                        enum compression compression, struct buffer *storage,
                                        struct slice *payload) {
  struct frame_header header;
  assert_true(fixture->to_broker.length >= FRAME_HEADER_SIZE);
  assert_null(
      frame_decode_header(fixture->to_broker.data, compression, NUMBERING_STANDARD, &header));
  assert_true(fixture->to_broker.length >= FRAME_HEADER_SIZE + header.encoded_length);
  struct slice encoded =
      slice_of(fixture->to_broker.data + FRAME_HEADER_SIZE, header.encoded_length);
  struct slice plain;
  struct buffer decoded = {0};
  assert_null(frame_decode_payload(&header, encoded, &decoded, &plain));
  storage->length = 0;
  buffer_append_slice(storage, plain);
  buffer_release(&decoded);
  buffer_drop_front(&fixture->to_broker, FRAME_HEADER_SIZE + header.encoded_length);
  *payload = buffer_slice(storage);
  return header;
}
