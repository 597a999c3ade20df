/* libpgcursus: a small C client of pgcursus and of any other broker that speaks CRS2 ("Wire v2").
 *
 * One `struct pgcursus` is one connection. It is not thread-safe; use one per thread. The broker
 * answers the requests of a connection in order, so parallel work needs several connections.
 *
 * There are two ways to use it, and they mix:
 *   blocking      pgcursus_call(), pgcursus_publish(), pgcursus_publish_batch(), pgcursus_consume()
 *   event driven  pgcursus_send*() queue requests; whenever poll(2) on pgcursus_fd() reports
 *                 pgcursus_poll_events(), call pgcursus_try_flush() and pgcursus_try_receive()
 *
 * Every view of bytes that a function returns (reply payload, error, records) belongs to the handle
 * and is valid until the next call that receives. When memory is exhausted the process ends with a
 * message. The library never reconnects: after PGCURSUS_BROKEN the caller closes the handle and
 * decides. */
#ifndef PGCURSUS_H
#define PGCURSUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PGCURSUS_MUST_CHECK __attribute__((warn_unused_result))

struct pgcursus;

/* Bytes that somebody else owns; not NUL-terminated. */
struct pgcursus_bytes {
  const void *data;
  size_t length;
};

struct pgcursus_bytes pgcursus_text(const char *text);

enum pgcursus_result {
  PGCURSUS_OK = 0,
  PGCURSUS_REFUSED, /* the broker answered with an error: pgcursus_last_error() */
  PGCURSUS_INVALID, /* the request cannot be expressed; nothing was sent: pgcursus_problem() */
  PGCURSUS_AGAIN,   /* pgcursus_try_*(): not yet */
  PGCURSUS_TIMEOUT, /* no complete answer in time. It may still come, so the outcome is unknown */
  PGCURSUS_BROKEN,  /* connection lost, or the broker broke the protocol; only closing is left */
};

enum pgcursus_compression {
  PGCURSUS_NONE = 0,
  PGCURSUS_GZIP = 1,
  PGCURSUS_SNAPPY = 2,
  PGCURSUS_LZ4 = 3,
};

/* ---- transport ------------------------------------------------------------------------------- */

/* How bytes travel: plain TCP and TLS are built in, anything else (a socket pair in a test) is a
 * struct of the caller whose first member is this one. All calls must be non-blocking. */
struct pgcursus_transport {
  int fd;            /* what poll(2) watches */
  short read_wants;  /* POLLIN, or POLLOUT while a read can only go on after a write */
  short write_wants; /* POLLOUT, or POLLIN likewise */
  /* Bytes moved; 0 from read is the end of input; -1 with errno (EAGAIN: not now). */
  ssize_t (*read)(struct pgcursus_transport *transport, void *data, size_t size);
  ssize_t (*write)(struct pgcursus_transport *transport, const void *data, size_t length);
  void (*close)(struct pgcursus_transport *transport); /* also frees it */
  /* Why the last read or write failed, in words; NULL, or empty: errno says it. */
  const char *(*problem)(const struct pgcursus_transport *transport);
};

/* Wraps a connected stream socket, which then belongs to the transport, and makes it non-blocking.
 */
struct pgcursus_transport *pgcursus_transport_socket(int fd);

/* ---- connection ------------------------------------------------------------------------------ */

/* TLS 1.2 or newer. Zeroed, it verifies the broker's certificate against the system's CAs and the
 * host's name. */
struct pgcursus_tls {
  const char *ca_file;     /* PEM; NULL = the CAs of the system */
  const char *cert_file;   /* PEM; the client's own certificate and key, or both NULL */
  const char *key_file;    /* PEM, without a passphrase */
  const char *server_name; /* what the broker's certificate is for; NULL = `host` */
  bool insecure;           /* accept any certificate: protects against listeners only */
};

struct pgcursus_options {
  const char *host; /* name or address; NULL = 127.0.0.1. Not looked at when `transport` is set */
  const char *port; /* NULL = 9000 */
  /* What the caller accepts, best first; the broker takes the first it has. NULL = none only. */
  const enum pgcursus_compression *compressions;
  size_t compression_count; /* at most 4, no repeats */
  int timeout_ms; /* for connecting and for each answer; 0 = 30,000, negative = no limit */
  const struct pgcursus_tls *tls; /* NULL = not encrypted. Not looked at when `transport` is set */
  struct pgcursus_transport *transport; /* connected; becomes the handle's, also on failure */
};

/* Connects and negotiates. NULL on failure, with a sentence in `problem` (cut to `size`). */
struct pgcursus *pgcursus_connect(const struct pgcursus_options *options, char *problem,
                                  size_t size) PGCURSUS_MUST_CHECK;

/* Closes at once; requests in flight are lost to the caller, not necessarily to the broker. NULL is
 * fine. */
void pgcursus_close(struct pgcursus *client);

enum pgcursus_compression pgcursus_negotiated(const struct pgcursus *client);
const char *pgcursus_compression_name(enum pgcursus_compression compression);
bool pgcursus_compression_by_name(const char *name,
                                  enum pgcursus_compression *compression) PGCURSUS_MUST_CHECK;

/* As in struct pgcursus_options; for the calls that follow. */
void pgcursus_set_timeout(struct pgcursus *client, int timeout_ms);

/* A sentence about the last result other than OK, AGAIN and REFUSED. */
const char *pgcursus_problem(const struct pgcursus *client);

/* ---- requests and answers -------------------------------------------------------------------- */

struct pgcursus_field {
  struct pgcursus_bytes name;
  struct pgcursus_bytes value; /* any bytes */
};

/* A typed error of the broker (crs2-wire 12). */
struct pgcursus_error {
  struct pgcursus_bytes code;
  int error_class;        /* 1 validation .. 8 internal */
  const char *class_name; /* "validation", ... */
  bool retryable;
  struct pgcursus_bytes message;
  size_t field_count;
  const struct pgcursus_field *fields;
  const char *readable; /* the whole error on one line, beginning "ERROR: " */
};

struct pgcursus_reply {
  uint64_t request_id;
  uint16_t command;   /* number of section 6 */
  bool is_stream;     /* a stream frame (kind 5) rather than a response (kind 4) */
  bool is_stream_end; /* the broker closes the stream; the payload says why */
  struct pgcursus_bytes
      payload; /* plain bytes: text "OK ...", JSON or a batch; of an error, its encoding */
};

/* The error of the last result REFUSED, until the next answer is received. */
const struct pgcursus_error *pgcursus_last_error(const struct pgcursus *client);

/* Value of an error's field; empty when there is none. */
struct pgcursus_bytes pgcursus_error_field(const struct pgcursus_error *error, const char *name);

/* The number of a command's name in any letter case, or 0. */
uint16_t pgcursus_command_by_name(const char *name);
const char *pgcursus_command_name(uint16_t command);

/* Sends one request and waits for its answer; a PUBLISH with acks 0 gets none and returns OK with
 * an empty reply once it is written. Must not be used while earlier answers are outstanding
 * (INVALID). */
enum pgcursus_result pgcursus_call(struct pgcursus *client, uint16_t command,
                                   const struct pgcursus_field *fields, size_t field_count,
                                   struct pgcursus_reply *reply) PGCURSUS_MUST_CHECK;

/* Queues a request; `request_id` may be NULL. Fields must not repeat a name. */
enum pgcursus_result pgcursus_send(struct pgcursus *client, uint16_t command,
                                   const struct pgcursus_field *fields, size_t field_count,
                                   uint64_t *request_id) PGCURSUS_MUST_CHECK;

/* Writes all that is queued, reading answers into memory meanwhile so that neither side waits for
 * ever. */
enum pgcursus_result pgcursus_flush(struct pgcursus *client) PGCURSUS_MUST_CHECK;

/* Flushes and waits for the next answer. Answers come in the order of the requests; any other order
 * is BROKEN. REFUSED fills in `reply` too. */
enum pgcursus_result pgcursus_receive(struct pgcursus *client,
                                      struct pgcursus_reply *reply) PGCURSUS_MUST_CHECK;

/* Requests sent whose answer has not been received. */
size_t pgcursus_outstanding(const struct pgcursus *client);

/* The non-blocking halves. AGAIN means: wait for pgcursus_poll_events() on pgcursus_fd(). */
enum pgcursus_result pgcursus_try_flush(struct pgcursus *client) PGCURSUS_MUST_CHECK;
enum pgcursus_result pgcursus_try_receive(struct pgcursus *client,
                                          struct pgcursus_reply *reply) PGCURSUS_MUST_CHECK;
int pgcursus_fd(const struct pgcursus *client);
short pgcursus_poll_events(const struct pgcursus *client);

/* For load generators: a whole frame, ready in wire form and in the negotiated compression. Its
 * request id is overwritten; `expects_answer` is false for acks 0. */
enum pgcursus_result pgcursus_send_frame(struct pgcursus *client, uint8_t *frame, size_t length,
                                         bool expects_answer) PGCURSUS_MUST_CHECK;

/* ---- records --------------------------------------------------------------------------------- */

/* A zeroed struct with a payload is a valid record to publish. */
struct pgcursus_record {
  uint64_t offset; /* received records only */
  struct pgcursus_bytes payload;
  struct pgcursus_bytes key;
  int64_t timestamp_ms; /* Unix milliseconds; 0 = none */
  struct pgcursus_bytes producer_id;
  uint64_t sequence;
  int64_t epoch;
  struct pgcursus_bytes event_type;
  uint32_t schema_version;
  uint64_t aggregate_version;
  struct pgcursus_bytes metadata;
  /* Received records only: */
  struct pgcursus_bytes transactional_id;
  struct pgcursus_bytes transaction_state;  /* empty, "open", "committed", "aborted" */
  struct pgcursus_bytes transaction_marker; /* empty, "commit", "abort" */
  struct pgcursus_bytes event_id;
  struct pgcursus_bytes payload_digest;
};

struct pgcursus_batch {
  struct pgcursus_bytes topic;
  int32_t partition;
  struct pgcursus_bytes acks; /* "", "0", "1", "-1" or "all"; "" = "1" */
  bool idempotent;
  size_t record_count; /* at most 100,000 */
  const struct pgcursus_record *records;
};

/* What a PUBLISH was answered (13.2). `last_offset` is -1 for acks 0. */
struct pgcursus_ack {
  int64_t last_offset;
  uint64_t sequence_start;
  uint64_t sequence_end;
};

/* A record whose partition the broker chooses (`partition` < 0) or is told. `acks` NULL = "1". The
 * producer id may not be empty here. */
enum pgcursus_result pgcursus_publish(struct pgcursus *client, const char *topic, int32_t partition,
                                      const char *acks, bool idempotent,
                                      const struct pgcursus_record *record,
                                      struct pgcursus_ack *ack) PGCURSUS_MUST_CHECK;

/* The same, queued. */
enum pgcursus_result pgcursus_send_publish(struct pgcursus *client, const char *topic,
                                           int32_t partition, const char *acks, bool idempotent,
                                           const struct pgcursus_record *record,
                                           uint64_t *request_id) PGCURSUS_MUST_CHECK;

/* All records to one partition, all or none. */
enum pgcursus_result pgcursus_publish_batch(struct pgcursus *client,
                                            const struct pgcursus_batch *batch,
                                            struct pgcursus_ack *ack) PGCURSUS_MUST_CHECK;
enum pgcursus_result pgcursus_send_batch(struct pgcursus *client,
                                         const struct pgcursus_batch *batch,
                                         uint64_t *request_id) PGCURSUS_MUST_CHECK;

/* Reads the answer of a PUBLISH; BROKEN when it is not one. */
enum pgcursus_result pgcursus_read_ack(struct pgcursus *client, const struct pgcursus_reply *reply,
                                       struct pgcursus_ack *ack) PGCURSUS_MUST_CHECK;

struct pgcursus_fetch {
  const char *topic;
  int32_t partition;
  uint64_t offset;
  const char *member; /* NULL = "pgcursus" */
  const char
      *group; /* NULL = the broker's default group; its committed offset goes before `offset` */
  const char *isolation; /* NULL = read_committed */
  unsigned max_records;  /* 0 = as many as the broker allows */
  unsigned wait_ms;      /* long poll, at most 30,000; the timeout is extended by it */
};

/* One CONSUME. An empty batch is a success. */
enum pgcursus_result pgcursus_consume(struct pgcursus *client, const struct pgcursus_fetch *fetch,
                                      struct pgcursus_batch *batch) PGCURSUS_MUST_CHECK;
enum pgcursus_result pgcursus_send_consume(struct pgcursus *client,
                                           const struct pgcursus_fetch *fetch,
                                           uint64_t *request_id) PGCURSUS_MUST_CHECK;

/* STREAM: `offset` and `group` as above (a group is compulsory), `wait_ms` does not matter. Frames
 * come by pgcursus_receive() until is_stream_end: batches, and empty payloads at least every 5 s.
 * The connection is good for nothing else once the first has come. */
enum pgcursus_result pgcursus_send_stream(struct pgcursus *client,
                                          const struct pgcursus_fetch *fetch,
                                          uint64_t *request_id) PGCURSUS_MUST_CHECK;

/* True when a payload is a batch rather than text. */
bool pgcursus_is_batch(struct pgcursus_bytes payload);

/* Decodes a batch; BROKEN when it is malformed. */
enum pgcursus_result pgcursus_read_batch(struct pgcursus *client,
                                         const struct pgcursus_reply *reply,
                                         struct pgcursus_batch *batch) PGCURSUS_MUST_CHECK;

/* The partition a keyed record belongs to: FNV-1a 64 of the key modulo the partition count. */
int32_t pgcursus_partition_of_key(struct pgcursus_bytes key, int32_t partition_count);

/* Value of `name` in an answer of the form "OK name=value name=value ..."; empty when absent. */
struct pgcursus_bytes pgcursus_ok_field(struct pgcursus_bytes text, const char *name);

#ifdef __cplusplus
}
#endif

#endif
