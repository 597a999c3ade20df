/* What the parts of libpgcursus share: the connection's own state. Not installed. */
#ifndef PGCURSUS_CLIENT_INTERNAL_H
#define PGCURSUS_CLIENT_INTERNAL_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/slice.h"
#include "crs2/wire/compress.h"
#include "pgcursus.h"

/* A request whose answer has not been received. */
struct pending_request {
  uint64_t id;
  uint16_t command;
  bool answered; /* a stream frame has come; more may follow, or the next request's answer */
};

struct pgcursus {
  struct pgcursus_transport *transport;
  enum compression compression;
  int timeout_ms; /* < 0: none */
  bool broken;
  uint64_t next_request_id;
  /* Bytes to write: output.data[output_sent ..]. */
  struct buffer output;
  size_t output_sent;
  /* Bytes read: input.data[input_used ..]; `reply_size` more are in use by the last reply. */
  struct buffer input;
  size_t input_used;
  size_t reply_size;
  bool end_of_input;
  struct buffer plain;             /* the last reply, decompressed */
  struct arena scratch;            /* what the last reply was decoded into */
  struct pending_request *pending; /* pending[pending_first .. pending_end) */
  size_t pending_first, pending_end, pending_capacity;
  struct pgcursus_error error;
  char problem[256];
};

/* Remembers a sentence and returns `result`; BROKEN also marks the handle. */
enum pgcursus_result client_fail(struct pgcursus *client, enum pgcursus_result result,
                                 const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Absolute deadline of a wait that begins now, or -1. */
int64_t client_deadline(int timeout_ms);

/* Waits for `events` until the deadline: OK, TIMEOUT or BROKEN. */
enum pgcursus_result client_wait(struct pgcursus *client, short events, int64_t deadline);

/* Waits until the socket is ready for `events`: 0, or an errno (ETIMEDOUT after the deadline). */
int client_await_socket(int fd, short events, int64_t deadline);

/* Does the TLS handshake on a connected socket, which the transport then owns. NULL, with the
 * socket closed and a sentence in `problem`, when it fails. */
struct pgcursus_transport *client_tls_connect(int fd, const struct pgcursus_tls *options,
                                              const char *host, int64_t deadline, char *problem,
                                              size_t size);

/* Fails with what the transport says about its last read or write, else with errno. */
enum pgcursus_result client_fail_transport(struct pgcursus *client);

/* Moves queued bytes out; OK when none is left, AGAIN, BROKEN. */
enum pgcursus_result client_write_some(struct pgcursus *client);

/* Reads once what has arrived; OK when something came, AGAIN, BROKEN (end of input is BROKEN). */
enum pgcursus_result client_read_some(struct pgcursus *client);

/* Unread input. */
struct slice client_input(const struct pgcursus *client);

/* Appends a request frame with this payload and notes the answer it is due. */
enum pgcursus_result client_queue(struct pgcursus *client, uint16_t command, struct slice payload,
                                  bool expects_answer, uint64_t *request_id);

static inline struct slice client_slice(struct pgcursus_bytes bytes) {
  return slice_of(bytes.data, bytes.length);
}

static inline struct pgcursus_bytes client_bytes(struct slice slice) {
  return (struct pgcursus_bytes){.data = slice.data, .length = slice.length};
}

#endif
