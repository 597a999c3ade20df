/* TLS over a socket as a transport, the server's side. The first reads and writes do the handshake.
 *
 * It logs what ends a handshake or breaks the protocol, because only here is the reason known. It
 * must never ask for more input while OpenSSL holds some, nor let OpenSSL wait for the other
 * direction unnoticed: either would be a connection that hangs or a loop that spins. */
#include <errno.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "net/tls_private.h"
#include "net/tls_socket.h"

enum {
  RECORD_SIZE = 16384,        /* the most plain text that one record holds */
  DISCARD_AT_CLOSE = 64 << 10 /* unread bytes taken before a close that follows an alert */
};

struct tls_state {
  SSL *ssl;
  struct tls_socket socket;
  char *refused_client; /* whose certificate was not accepted, or NULL */
  const char *peer;     /* the connection's */
  bool is_secure;       /* the handshake is done */
  bool has_failed;      /* for good; reported */
  bool has_ended;       /* the peer has finished sending */
  bool has_finished;    /* we have */
  bool renegotiates;    /* the peer asked for a new handshake */
  bool owes_outcome;    /* has_failed or has_ended came behind bytes, and was not returned yet */
  bool read_needs_write;
  bool write_needs_read;
};

static void count_handshake(const char *outcome) {
  static struct metric *handshakes;
  if (!handshakes) {
    handshakes =
        metric_counter("pgcursus_tls_handshakes_total",
                       "TLS handshakes of clients, by outcome (ok or failed).", "outcome", NULL);
  }
  metric_add(metric_with(handshakes, outcome, NULL), 1);
}

/* What to try, for the failures whose text alone does not say it. */
static const char *hint_of(unsigned long error) {
  if (ERR_GET_LIB(error) != ERR_LIB_SSL) return "";
  switch (ERR_GET_REASON(error)) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
      return " (does the client use TLS at all?)";
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
      return " (the client must offer TLS 1.2 or newer)";
    default:
      return "";
  }
}

int transport_tls_on_verify(int is_valid, X509_STORE_CTX *verification) {
  if (is_valid) return is_valid;
  const SSL *ssl = X509_STORE_CTX_get_ex_data(verification, SSL_get_ex_data_X509_STORE_CTX_idx());
  struct tls_state *tls = SSL_get_app_data(ssl);
  const X509 *certificate = X509_STORE_CTX_get0_cert(verification);
  char name[65] = "";
  if (certificate) {
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name,
                              sizeof name);
  }
  free(tls->refused_client);
  tls->refused_client = memory_copy_text(name);
  return is_valid;
}

static void describe_certificate(const struct tls_state *tls, char *text, size_t size) {
  const char *name = tls->refused_client ? tls->refused_client : "";
  const char *problem = X509_verify_cert_error_string(SSL_get_verify_result(tls->ssl));
  snprintf(text, size, "client certificate%s%s: %s", *name ? " of " : "", name, problem);
}

static void describe_failure(const struct tls_state *tls, char *text, size_t size) {
  unsigned long error = ERR_peek_error();
  if (ERR_GET_REASON(error) == SSL_R_CERTIFICATE_VERIFY_FAILED &&
      SSL_get_verify_result(tls->ssl) != X509_V_OK) {
    describe_certificate(tls, text, size);
    return;
  }
  char reason[128];
  tls_describe_error("protocol error", reason, sizeof reason);
  snprintf(text, size, "%s%s", reason, hint_of(error));
}

static void report_failure(struct tls_state *tls, const char *reason) {
  tls->has_failed = true;
  if (!tls->is_secure) count_handshake("failed");
  log_event(LOG_INFO, tls->is_secure ? "TLS connection broken" : "TLS handshake failed", "peer",
            tls->peer, "reason", reason, NULL);
}

/* A health check of a load balancer connects and goes: nothing to wake anybody for. */
static bool said_nothing(const struct tls_state *tls) {
  return SSL_get_state(tls->ssl) == TLS_ST_BEFORE && !tls_ended_in_record(tls->ssl);
}

/* An end without close_notify is one: frames carry their lengths, so nothing is lost unseen. */
static void note_end(struct tls_state *tls) {
  bool is_orderly = tls->is_secure ? !tls_ended_in_record(tls->ssl) : said_nothing(tls);
  if (is_orderly) {
    tls->has_ended = true;
  } else {
    report_failure(tls, tls->is_secure ? "the peer closed the connection inside a record"
                                       : "the peer closed the connection in the handshake");
  }
}

static void note_socket_failure(struct tls_state *tls) {
  if (tls->is_secure) {
    tls->has_failed = true; /* as on a plain socket: the connection's owner is told */
  } else {
    report_failure(tls, strerror(tls->socket.error));
  }
}

/* After a call that moved nothing: -1 with errno, or 0 at the end of input. */
static ssize_t outcome_of(const struct tls_state *tls) {
  if (tls->has_failed) {
    errno = tls->socket.error ? tls->socket.error : EPROTO;
    return -1;
  }
  if (tls->has_ended) return 0;
  errno = EAGAIN;
  return -1;
}

/* Sorts out why OpenSSL moved nothing. `result` is what SSL_read_ex or SSL_write_ex returned. */
static int note_result(struct tls_state *tls, int result) {
  int error = SSL_get_error(tls->ssl, result);
  char reason[256];
  switch (error) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      break;
    case SSL_ERROR_ZERO_RETURN:
      tls->has_ended = true;
      break;
    case SSL_ERROR_SYSCALL:
      if (tls->socket.error) {
        note_socket_failure(tls);
      } else {
        note_end(tls);
      }
      break;
    default:
      describe_failure(tls, reason, sizeof reason);
      report_failure(tls, reason);
  }
  ERR_clear_error();
  return error;
}

/* OpenSSL answers a renegotiation with a warning and goes on; such a peer has no business here. */
static void refuse_renegotiation(struct tls_state *tls) {
  if (tls->renegotiates && !tls->has_failed) report_failure(tls, "renegotiation is not allowed");
}

static void note_progress(struct tls_state *tls) {
  if (tls->is_secure || !SSL_is_init_finished(tls->ssl)) return;
  tls->is_secure = true;
  count_handshake("ok");
}

static ssize_t tls_read(int fd, void *state, void *data, size_t length) {
  struct tls_state *tls = state;
  /* All that is left to do is to empty the socket. */
  if (tls->has_finished) return recv(fd, data, length, 0);
  if (tls->has_failed || tls->has_ended) {
    tls->owes_outcome = false;
    return outcome_of(tls);
  }
  size_t total = 0, count = 0;
  tls->read_needs_write = false;
  do {
    ERR_clear_error();
    int result = SSL_read_ex(tls->ssl, (uint8_t *)data + total, length - total, &count);
    note_progress(tls);
    if (result != 1) {
      tls->read_needs_write = note_result(tls, result) == SSL_ERROR_WANT_WRITE;
      count = 0;
    }
    refuse_renegotiation(tls);
    total += count;
    /* More of this record, or behind a full one probably another. */
  } while (count && !tls->has_failed && total < length &&
           (count == RECORD_SIZE || SSL_pending(tls->ssl) > 0));
  if (!total) return outcome_of(tls);
  tls->owes_outcome = tls->has_failed || tls->has_ended;
  return (ssize_t)total;
}

/* The bytes from `position` on for one record: where they lie, or small parts joined in `room`. The
 * same bytes give the same record, so that OpenSSL can be asked again. */
static struct slice next_record(const struct iovec *parts, size_t count, size_t position,
                                uint8_t room[RECORD_SIZE]) {
  size_t length = 0;
  for (size_t i = 0; i < count && length < RECORD_SIZE; i++) {
    if (position >= parts[i].iov_len) {
      position -= parts[i].iov_len;
      continue;
    }
    const uint8_t *bytes = (const uint8_t *)parts[i].iov_base + position;
    size_t rest = parts[i].iov_len - position;
    if (length == 0 && (rest >= RECORD_SIZE || i + 1 == count)) {
      return slice_of(bytes, rest < RECORD_SIZE ? rest : RECORD_SIZE);
    }
    if (rest > RECORD_SIZE - length) rest = RECORD_SIZE - length;
    memcpy(room + length, bytes, rest);
    length += rest;
    position = 0;
  }
  return slice_of(room, length);
}

static ssize_t tls_write(int fd, void *state, const struct iovec *parts, size_t count) {
  (void)fd;
  struct tls_state *tls = state;
  uint8_t room[RECORD_SIZE];
  size_t total = 0;
  tls->write_needs_read = false;
  while (!tls->has_failed) {
    struct slice record = next_record(parts, count, total, room);
    if (!record.length) break;
    size_t written = 0;
    ERR_clear_error();
    int result = SSL_write_ex(tls->ssl, record.data, record.length, &written);
    note_progress(tls);
    if (result != 1) {
      tls->write_needs_read = note_result(tls, result) == SSL_ERROR_WANT_READ;
      break;
    }
    total += written;
  }
  if (total) return (ssize_t)total;
  if (tls->has_failed) {
    errno = tls->socket.error ? tls->socket.error : EPIPE;
    return -1;
  }
  errno = EAGAIN;
  return -1;
}

static bool tls_has_pending_input(const void *state) {
  const struct tls_state *tls = state;
  return tls->owes_outcome || (!tls->has_finished && SSL_pending(tls->ssl) > 0);
}

static bool tls_read_needs_write(const void *state) {
  return ((const struct tls_state *)state)->read_needs_write;
}

static bool tls_write_needs_read(const void *state) {
  return ((const struct tls_state *)state)->write_needs_read;
}

static bool tls_is_handshaking(const void *state) {
  const struct tls_state *tls = state;
  return !tls->is_secure && !tls->has_failed;
}

/* close_notify, when the socket takes it now: nobody waits for a peer that is being left. */
static void say_goodbye(struct tls_state *tls) {
  if (tls->has_finished || tls->has_failed || !tls->is_secure) return;
  ERR_clear_error();
  (void)SSL_shutdown(tls->ssl);
  ERR_clear_error();
}

static void tls_finish_output(int fd, void *state) {
  struct tls_state *tls = state;
  say_goodbye(tls);
  tls->has_finished = true;
  (void)shutdown(fd, SHUT_WR);
}

/* Unread bytes would turn the close into a reset, which can overtake the alert that says why. */
static void protect_alert(int fd) {
  uint8_t bytes[4096];
  (void)shutdown(fd, SHUT_WR);
  for (size_t taken = 0; taken < DISCARD_AT_CLOSE;) {
    ssize_t count = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (count <= 0) break;
    taken += (size_t)count;
  }
}

static void tls_close(int fd, void *state) {
  struct tls_state *tls = state;
  /* Whoever cut a handshake short has said why. */
  if (!tls->is_secure && !tls->has_failed && !said_nothing(tls)) count_handshake("failed");
  if (tls->has_failed && !tls->socket.error) protect_alert(fd);
  say_goodbye(tls);
  SSL_free(tls->ssl);
  close(fd);
  free(tls->refused_client);
  free(tls);
}

static const struct transport_ops transport_tls = {
    .read = tls_read,
    .write = tls_write,
    .has_pending_input = tls_has_pending_input,
    .read_needs_write = tls_read_needs_write,
    .write_needs_read = tls_write_needs_read,
    .is_handshaking = tls_is_handshaking,
    .finish_output = tls_finish_output,
    .close = tls_close,
};

static void on_event(const SSL *ssl, int where, int value) {
  struct tls_state *tls = SSL_get_app_data(ssl);
  if (where == SSL_CB_WRITE_ALERT && (value & 0xff) == SSL_AD_NO_RENEGOTIATION) {
    tls->renegotiates = true;
  }
}

void transport_tls_configure(SSL_CTX *context) {
  /* A write that was refused is repeated from the queue, whose blocks may have moved. Idle
   * connections give their buffers back. */
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_info_callback(context, on_event);
}

const struct transport_ops *transport_tls_accept(struct tls_server *server, int fd,
                                                 const char *peer, void **state) {
  struct tls_state *tls = memory_allocate_zeroed(1, sizeof *tls);
  tls->ssl = SSL_new(server->context);
  tls->socket.fd = fd;
  tls->peer = peer;
  if (!tls->ssl || !tls_socket_attach(tls->ssl, &tls->socket)) {
    ERR_clear_error();
    SSL_free(tls->ssl);
    free(tls);
    return NULL;
  }
  SSL_set_app_data(tls->ssl, tls);
  SSL_set_accept_state(tls->ssl);
  *state = tls;
  return &transport_tls;
}
