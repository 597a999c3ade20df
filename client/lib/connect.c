/* Connecting and the handshake (crs2-wire 7), and the life of a handle.
 *
 * Owns everything until the first request can be sent. Must never retry: a failed connect is
 * reported, and what follows is the caller's decision. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "crs2/wire/frame.h"
#include "crs2/wire/negotiate.h"
#include "internal.h"

#define DEFAULT_TIMEOUT_MS 30000

const char *pgcursus_compression_name(enum pgcursus_compression compression) {
  return compression_name((enum compression)compression);
}

bool pgcursus_compression_by_name(const char *name, enum pgcursus_compression *compression) {
  for (int i = 0; i < COMPRESSION_COUNT; i++) {
    if (strcasecmp(name, compression_name((enum compression)i)) != 0) continue;
    *compression = (enum pgcursus_compression)i;
    return true;
  }
  return false;
}

int client_await_socket(int fd, short events, int64_t deadline) {
  for (;;) {
    int wait_ms = -1;
    if (deadline >= 0) {
      int64_t left = deadline - clock_monotonic_us();
      if (left <= 0) return ETIMEDOUT;
      wait_ms = (int)((left + 999) / 1000);
    }
    struct pollfd entry = {.fd = fd, .events = events};
    int ready = poll(&entry, 1, wait_ms);
    if (ready > 0) return 0;
    if (ready < 0 && errno != EINTR) return errno;
  }
}

/* Finishes a non-blocking connect: 0, or an errno. */
static int await_connect(int fd, int64_t deadline) {
  int problem = client_await_socket(fd, POLLOUT, deadline);
  socklen_t size = sizeof problem;
  if (problem == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &size) != 0) return errno;
  return problem;
}

static int open_socket(const struct addrinfo *address, int64_t deadline, int *error) {
  int fd = socket(address->ai_family, address->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
                  address->ai_protocol);
  if (fd < 0) {
    *error = errno;
    return -1;
  }
  int on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  *error = 0;
  if (connect(fd, address->ai_addr, address->ai_addrlen) != 0) {
    *error = errno == EINPROGRESS ? await_connect(fd, deadline) : errno;
  }
  if (*error == 0) return fd;
  close(fd);
  return -1;
}

/* Tries every address of the name in turn; -1 with a sentence in `problem`. */
static int connect_tcp(const char *host, const char *port, int64_t deadline, char *problem,
                       size_t size) {
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  struct addrinfo *addresses = NULL;
  int lookup = getaddrinfo(host, port, &hints, &addresses);
  if (lookup != 0) {
    snprintf(problem, size, "cannot resolve %s:%s: %s", host, port, gai_strerror(lookup));
    return -1;
  }
  int fd = -1;
  int error = EADDRNOTAVAIL;
  for (struct addrinfo *each = addresses; each && fd < 0; each = each->ai_next) {
    fd = open_socket(each, deadline, &error);
  }
  freeaddrinfo(addresses);
  if (fd < 0) snprintf(problem, size, "cannot connect to %s:%s: %s", host, port, strerror(error));
  return fd;
}

static struct pgcursus_transport *open_transport(const struct pgcursus_options *options,
                                                 const char *host, const char *port,
                                                 int64_t deadline, char *problem, size_t size) {
  int fd = connect_tcp(host, port, deadline, problem, size);
  if (fd < 0) return NULL;
  if (!options->tls) return pgcursus_transport_socket(fd);
  char reason[256];
  struct pgcursus_transport *transport =
      client_tls_connect(fd, options->tls, host, deadline, reason, sizeof reason);
  if (!transport) snprintf(problem, size, "%s:%s: %s", host, port, reason);
  return transport;
}

static enum pgcursus_result queue_negotiation(struct pgcursus *client,
                                              const struct pgcursus_options *options) {
  struct negotiation_request request = {
      .minimum_version = FRAME_VERSION, .maximum_version = FRAME_VERSION, .compression_count = 1};
  request.compressions[0] = COMPRESSION_NONE;
  if (options->compression_count > COMPRESSION_COUNT) {
    return client_fail(client, PGCURSUS_INVALID, "more than four compressions");
  }
  for (size_t i = 0; i < options->compression_count; i++) {
    request.compressions[i] = (enum compression)options->compressions[i];
    request.compression_count = (uint16_t)(i + 1);
  }
  struct frame_header header = {.kind = FRAME_NEGOTIATION_REQUEST, .command = COMMAND_NEGOTIATE};
  size_t start = frame_begin(&client->output);
  negotiation_encode_request(&request, &client->output);
  const char *reason = frame_finish(&client->output, start, &header);
  if (reason) return client_fail(client, PGCURSUS_INVALID, "cannot negotiate: %s", reason);
  return PGCURSUS_OK;
}

/* Reads until `length` bytes are there. */
static enum pgcursus_result await_input(struct pgcursus *client, size_t length, int64_t deadline) {
  while (client_input(client).length < length) {
    enum pgcursus_result result = client_read_some(client);
    if (result == PGCURSUS_AGAIN)
      result = client_wait(client, client->transport->read_wants, deadline);
    if (result != PGCURSUS_OK) return result;
  }
  return PGCURSUS_OK;
}

static const char *check_answer(struct pgcursus *client, const struct frame_header *header,
                                struct slice encoded) {
  struct slice payload;
  if (header->kind != FRAME_NEGOTIATION_RESPONSE)
    return "the first frame is no negotiation response";
  if (header->command != COMMAND_NEGOTIATE || header->request_id != 0) {
    return "the negotiation response answers something else";
  }
  const char *reason = frame_decode_payload(header, encoded, &client->plain, &payload);
  if (reason) return reason;
  if (header->status != FRAME_OK) return "the broker refuses the negotiation";
  return negotiation_decode_response(payload, &client->compression);
}

static bool was_offered(const struct pgcursus *client, const struct pgcursus_options *options) {
  if (options->compression_count == 0) return client->compression == COMPRESSION_NONE;
  for (size_t i = 0; i < options->compression_count; i++) {
    if ((enum compression)options->compressions[i] == client->compression) return true;
  }
  return false;
}

static enum pgcursus_result negotiate(struct pgcursus *client,
                                      const struct pgcursus_options *options, int64_t deadline) {
  enum pgcursus_result result = queue_negotiation(client, options);
  while (result == PGCURSUS_OK && (result = client_write_some(client)) == PGCURSUS_AGAIN) {
    result = client_wait(client, client->transport->write_wants, deadline);
  }
  if (result == PGCURSUS_OK) result = await_input(client, FRAME_HEADER_SIZE, deadline);
  if (result != PGCURSUS_OK) return result;

  struct frame_header header;
  const char *reason =
      frame_decode_header(client_input(client).data, COMPRESSION_NONE, NUMBERING_STANDARD, &header);
  if (reason) return client_fail(client, PGCURSUS_BROKEN, "not a CRS2 broker: %s", reason);
  result = await_input(client, FRAME_HEADER_SIZE + (size_t)header.encoded_length, deadline);
  if (result != PGCURSUS_OK) return result;

  struct slice encoded =
      slice_of(client_input(client).data + FRAME_HEADER_SIZE, header.encoded_length);
  reason = check_answer(client, &header, encoded);
  if (reason) return client_fail(client, PGCURSUS_BROKEN, "handshake failed: %s", reason);
  if (!was_offered(client, options)) {
    return client_fail(client, PGCURSUS_BROKEN,
                       "the broker chose a compression that was not offered");
  }
  client->input_used += FRAME_HEADER_SIZE + encoded.length;
  return PGCURSUS_OK;
}

struct pgcursus *pgcursus_connect(const struct pgcursus_options *options, char *problem,
                                  size_t size) {
  int timeout_ms = options->timeout_ms == 0 ? DEFAULT_TIMEOUT_MS : options->timeout_ms;
  int64_t deadline = client_deadline(timeout_ms);
  const char *host = options->host ? options->host : "127.0.0.1";
  const char *port = options->port ? options->port : "9000";
  struct pgcursus_transport *transport = options->transport;
  if (!transport) transport = open_transport(options, host, port, deadline, problem, size);
  if (!transport) return NULL;

  struct pgcursus *client = memory_allocate_zeroed(1, sizeof *client);
  client->transport = transport;
  client->timeout_ms = timeout_ms;
  client->next_request_id = 1;
  if (negotiate(client, options, deadline) == PGCURSUS_OK) return client;
  if (options->transport) {
    snprintf(problem, size, "%s", client->problem);
  } else {
    snprintf(problem, size, "%s:%s: %s", host, port, client->problem);
  }
  pgcursus_close(client);
  return NULL;
}

void pgcursus_close(struct pgcursus *client) {
  if (!client) return;
  client->transport->close(client->transport);
  buffer_release(&client->output);
  buffer_release(&client->input);
  buffer_release(&client->plain);
  arena_release(&client->scratch);
  free(client->pending);
  free(client);
}

enum pgcursus_compression pgcursus_negotiated(const struct pgcursus *client) {
  return (enum pgcursus_compression)client->compression;
}

void pgcursus_set_timeout(struct pgcursus *client, int timeout_ms) {
  client->timeout_ms = timeout_ms == 0 ? DEFAULT_TIMEOUT_MS : timeout_ms;
}

const char *pgcursus_problem(const struct pgcursus *client) {
  return client->problem;
}
