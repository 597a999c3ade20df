/* A handle of libpgcursus over a transport in memory: the test writes what the broker says and
 * reads what it was sent. */
#ifndef PGCURSUS_TESTS_CLIENT_FIXTURE_H
#define PGCURSUS_TESTS_CLIENT_FIXTURE_H

#include <stdbool.h>

#include "base/buffer.h"
#include "crs2/wire/frame.h"
#include "pgcursus.h"

struct client_fixture {
  struct buffer from_broker; /* what the client will read */
  size_t read_position;
  struct buffer to_broker; /* what the client wrote */
  size_t read_limit;       /* bytes a read gives at most; 0 = all */
  bool closes;             /* the end of `from_broker` is the end of input, not EAGAIN */
  bool is_closed;          /* the client closed the transport */
  int pipe[2];             /* never readable: for poll(2) */
};

void client_fixture_open(struct client_fixture *fixture);
void client_fixture_close(struct client_fixture *fixture);

/* A transport that the client owns. */
struct pgcursus_transport *client_fixture_transport(struct client_fixture *fixture);

/* A handle that has negotiated `compression`; what it wrote is forgotten. */
struct pgcursus *client_fixture_connect(struct client_fixture *fixture,
                                        enum pgcursus_compression compression);

/* Appends a frame of the broker. */
void client_fixture_answer(struct client_fixture *fixture, enum compression compression,
                           enum frame_kind kind, uint16_t command, enum frame_status status,
                           uint64_t request_id, struct slice payload);

/* A response with status OK, uncompressed. */
void client_fixture_respond(struct client_fixture *fixture, uint16_t command, uint64_t request_id,
                            const char *text);

/* Takes the first frame that the client wrote; its payload views `storage` or the fixture. */
struct frame_header client_fixture_take(struct client_fixture *fixture,
                                        enum compression compression, struct buffer *storage,
                                        struct slice *payload);

#endif
