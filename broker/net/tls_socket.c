/* A BIO over a socket that belongs to somebody else. Moves bytes and knows nothing of TLS. */
#include "net/tls_socket.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* False: the socket is merely not ready. */
static bool note_failure(struct tls_socket *socket) {
  if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
  socket->error = errno;
  return true;
}

static int socket_write(BIO *bio, const char *data, int length) {
  struct tls_socket *socket = BIO_get_data(bio);
  ssize_t count;
  BIO_clear_retry_flags(bio);
  do {
    count = send(socket->fd, data, (size_t)length, MSG_NOSIGNAL);
  } while (count < 0 && errno == EINTR);
  if (count < 0 && !note_failure(socket)) BIO_set_retry_write(bio);
  return (int)count;
}

static int socket_read(BIO *bio, char *data, int size) {
  struct tls_socket *socket = BIO_get_data(bio);
  ssize_t count;
  BIO_clear_retry_flags(bio);
  do {
    count = recv(socket->fd, data, (size_t)size, 0);
  } while (count < 0 && errno == EINTR);
  if (count < 0 && !note_failure(socket)) BIO_set_retry_read(bio);
  if (count == 0) socket->ended = true;
  return (int)count;
}

/* No BIO_CTRL_EOF on purpose: told of the end, OpenSSL would also refuse to write, and a peer that
 * has only finished sending would not get its last answers. */
static long socket_control(BIO *bio, int command, long number, void *pointer) {
  (void)bio;
  (void)number;
  (void)pointer;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

/* Made once and kept: connections come and go. */
static const BIO_METHOD *socket_method(void) {
  static BIO_METHOD *method;
  if (method) return method;
  BIO_METHOD *made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
  if (!made) return NULL;
  BIO_meth_set_write(made, socket_write);
  BIO_meth_set_read(made, socket_read);
  BIO_meth_set_ctrl(made, socket_control);
  method = made;
  return method;
}

bool tls_socket_attach(SSL *ssl, struct tls_socket *socket) {
  const BIO_METHOD *method = socket_method();
  BIO *bio = method ? BIO_new(method) : NULL;
  if (!bio) return false;
  BIO_set_data(bio, socket);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl, bio, bio);
  return true;
}

bool tls_ended_in_record(const SSL *ssl) {
  /* Between records OpenSSL waits for the next header and holds no byte of it. */
  return SSL_has_pending(ssl) || strcmp(SSL_rstate_string(ssl), "RH") != 0;
}

void tls_describe_error(const char *otherwise, char *text, size_t size) {
  unsigned long error = ERR_peek_error();
  const char *reason = error ? ERR_reason_error_string(error) : NULL;
  if (error && ERR_SYSTEM_ERROR(error)) reason = strerror(ERR_GET_REASON(error));
  snprintf(text, size, "%s", reason ? reason : otherwise);
}
