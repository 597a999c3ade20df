/* TLS over a connected socket as a transport, the client's side. The handshake is done by
 * client_tls_connect(), so that what follows only moves bytes.
 *
 * The broker's certificate is verified, and its name or address, unless the caller insists
 * otherwise. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "internal.h"
#include "net/tls_socket.h"

enum { RECORD_SIZE = 16384 };

struct tls_transport {
  struct pgcursus_transport base;
  SSL *ssl;
  struct tls_socket socket;
  char problem[200];
};

static struct tls_transport *tls_of(struct pgcursus_transport *transport) {
  return (struct tls_transport *)transport;
}

/* ---- moving bytes ---------------------------------------------------------------------------- */

/* A certificate that was refused says more than the error that follows from it. */
static void describe(struct tls_transport *tls) {
  char reason[120];
  tls_describe_error("the broker closed the connection in the handshake", reason, sizeof reason);
  long verified = SSL_get_verify_result(tls->ssl);
  bool refused = ERR_GET_REASON(ERR_peek_error()) == SSL_R_CERTIFICATE_VERIFY_FAILED;
  if (refused && verified != X509_V_OK) {
    snprintf(tls->problem, sizeof tls->problem, "the broker's certificate is not accepted: %s",
             X509_verify_cert_error_string(verified));
  } else {
    snprintf(tls->problem, sizeof tls->problem, "TLS: %s", reason);
  }
}

/* After a call that moved nothing: 0 at the end of input, else -1 with errno. */
static ssize_t outcome(struct tls_transport *tls, int result, short *wants, short usually) {
  int error = SSL_get_error(tls->ssl, result);
  *wants = usually;
  ssize_t moved = -1;
  errno = EAGAIN;
  switch (error) {
    case SSL_ERROR_WANT_READ:
      *wants = POLLIN;
      break;
    case SSL_ERROR_WANT_WRITE:
      *wants = POLLOUT;
      break;
    case SSL_ERROR_ZERO_RETURN:
      moved = 0;
      break;
    case SSL_ERROR_SYSCALL:
      if (!tls->socket.error && SSL_is_init_finished(tls->ssl) && !tls_ended_in_record(tls->ssl)) {
        moved = 0;
        break;
      }
      errno = tls->socket.error ? tls->socket.error : EPROTO;
      if (tls->socket.error) {
        snprintf(tls->problem, sizeof tls->problem, "%s", strerror(tls->socket.error));
      } else {
        describe(tls);
      }
      break;
    default:
      errno = EPROTO;
      describe(tls);
  }
  int saved = errno;
  ERR_clear_error();
  errno = saved;
  return moved;
}

static ssize_t tls_read(struct pgcursus_transport *transport, void *data, size_t size) {
  struct tls_transport *tls = tls_of(transport);
  size_t total = 0, count;
  do {
    ERR_clear_error();
    int result = SSL_read_ex(tls->ssl, (uint8_t *)data + total, size - total, &count);
    if (result != 1) {
      /* What went wrong behind these bytes goes wrong again. */
      ssize_t moved = outcome(tls, result, &transport->read_wants, POLLIN);
      return total ? (ssize_t)total : moved;
    }
    total += count;
  } while (total < size && (count == RECORD_SIZE || SSL_pending(tls->ssl) > 0));
  transport->read_wants = POLLIN;
  return (ssize_t)total;
}

static ssize_t tls_write(struct pgcursus_transport *transport, const void *data, size_t length) {
  struct tls_transport *tls = tls_of(transport);
  size_t written = 0;
  ERR_clear_error();
  int result = SSL_write_ex(tls->ssl, data, length, &written);
  if (result != 1) return outcome(tls, result, &transport->write_wants, POLLOUT);
  transport->write_wants = POLLOUT;
  return (ssize_t)written;
}

static const char *tls_problem(const struct pgcursus_transport *transport) {
  return ((const struct tls_transport *)transport)->problem;
}

static void tls_close(struct pgcursus_transport *transport) {
  struct tls_transport *tls = tls_of(transport);
  ERR_clear_error();
  if (tls->ssl && SSL_is_init_finished(tls->ssl) && !*tls->problem) (void)SSL_shutdown(tls->ssl);
  ERR_clear_error();
  SSL_free(tls->ssl);
  close(transport->fd);
  free(tls);
}

/* ---- setting up ------------------------------------------------------------------------------ */

static bool fail(char *problem, size_t size, const char *what, const char *path) {
  char reason[120];
  tls_describe_error("it cannot be used", reason, sizeof reason);
  snprintf(problem, size, "%s%s%s: %s", what, path ? " " : "", path ? path : "", reason);
  ERR_clear_error();
  return false;
}

static bool load_files(SSL_CTX *context, const struct pgcursus_tls *tls, char *problem,
                       size_t size) {
  if (tls->ca_file ? SSL_CTX_load_verify_file(context, tls->ca_file) != 1
                   : SSL_CTX_set_default_verify_paths(context) != 1) {
    return fail(problem, size, "CA file", tls->ca_file ? tls->ca_file : "of the system");
  }
  if (!tls->cert_file != !tls->key_file) {
    snprintf(problem, size, "a client certificate and its key belong together: one is missing");
    return false;
  }
  if (!tls->cert_file) return true;
  if (SSL_CTX_use_certificate_chain_file(context, tls->cert_file) != 1) {
    return fail(problem, size, "client certificate", tls->cert_file);
  }
  if (SSL_CTX_use_PrivateKey_file(context, tls->key_file, SSL_FILETYPE_PEM) != 1) {
    return fail(problem, size, "key of the client certificate", tls->key_file);
  }
  return true;
}

static SSL_CTX *make_context(const struct pgcursus_tls *tls, char *problem, size_t size) {
  ERR_clear_error();
  SSL_CTX *context = SSL_CTX_new(TLS_client_method());
  if (!context || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1) {
    (void)fail(problem, size, "TLS", NULL);
  } else if (load_files(context, tls, problem, size)) {
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_verify(context, tls->insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    return context;
  }
  SSL_CTX_free(context);
  return NULL;
}

static bool is_address(const char *name) {
  unsigned char bytes[sizeof(struct in6_addr)];
  return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

/* Who the certificate must be for; a name is also told to the broker (SNI). */
static bool expect_name(SSL *ssl, const char *name) {
  if (is_address(name)) return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
  SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

static struct tls_transport *make_transport(int fd, const struct pgcursus_tls *options,
                                            const char *name, char *problem, size_t size) {
  SSL_CTX *context = make_context(options, problem, size);
  SSL *ssl = context ? SSL_new(context) : NULL;
  SSL_CTX_free(context);
  struct tls_transport *tls = memory_allocate_zeroed(1, sizeof *tls);
  tls->socket.fd = fd;
  tls->ssl = ssl;
  tls->base = (struct pgcursus_transport){
      .fd = fd,
      .read_wants = POLLIN,
      .write_wants = POLLOUT,
      .read = tls_read,
      .write = tls_write,
      .close = tls_close,
      .problem = tls_problem,
  };
  if (ssl && tls_socket_attach(ssl, &tls->socket) && expect_name(ssl, name)) {
    SSL_set_connect_state(ssl);
    return tls;
  }
  if (context) (void)fail(problem, size, "TLS for", name);
  tls_close(&tls->base);
  return NULL;
}

/* One step of the handshake: 1 done, 0 wait for `*wants`, -1 failed. */
static int handshake(struct tls_transport *tls, short *wants) {
  ERR_clear_error();
  int result = SSL_do_handshake(tls->ssl);
  if (result == 1) return 1;
  return outcome(tls, result, wants, POLLIN) < 0 && errno == EAGAIN ? 0 : -1;
}

struct pgcursus_transport *client_tls_connect(int fd, const struct pgcursus_tls *options,
                                              const char *host, int64_t deadline, char *problem,
                                              size_t size) {
  const char *name = options->server_name ? options->server_name : host;
  struct tls_transport *tls = make_transport(fd, options, name, problem, size);
  if (!tls) return NULL;
  for (;;) {
    short wants = POLLIN;
    int done = handshake(tls, &wants);
    if (done > 0) return &tls->base;
    if (done < 0) break;
    int error = client_await_socket(fd, wants, deadline);
    if (error) {
      snprintf(tls->problem, sizeof tls->problem, "TLS handshake: %s", strerror(error));
      break;
    }
  }
  snprintf(problem, size, "%s", *tls->problem ? tls->problem : "TLS handshake failed");
  tls_close(&tls->base);
  return NULL;
}
