/* OpenSSL over a non-blocking socket, for the broker and for libpgcursus: what OpenSSL's own socket
 * BIO does, without SIGPIPE, and with the end of input told apart from a failure. */
#ifndef PGCURSUS_NET_TLS_SOCKET_H
#define PGCURSUS_NET_TLS_SOCKET_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

struct tls_socket {
  int fd;
  int error;  /* errno of the last read or write that failed for good; 0 = none did */
  bool ended; /* the peer's FIN has been read */
};

/* Makes `ssl` read from and write to `socket`, which outlives it. The descriptor is not closed with
 * it. False when memory is short. */
bool tls_socket_attach(SSL *ssl, struct tls_socket *socket) __attribute__((warn_unused_result));

/* True when the peer's FIN came inside a TLS record. */
bool tls_ended_in_record(const SSL *ssl);

/* The oldest error of this thread's queue, or `otherwise`. */
void tls_describe_error(const char *otherwise, char *text, size_t size);

#endif
