/* TLS for a listener: the certificate, its key and the CA of client certificates in force.
 *
 * TLS 1.2 and newer only, no renegotiation, no session resumption: connections of a broker live
 * long, and without it every handshake checks the client's certificate. */
#ifndef PGCURSUS_NET_TLS_H
#define PGCURSUS_NET_TLS_H

#include <stdbool.h>
#include <stdint.h>

struct tls_server;

struct tls_files {
  const char *certificate; /* PEM: the certificate, then those that lead to its CA */
  const char *key;         /* PEM, without a passphrase */
  const char *client_ca;   /* PEM; "" or NULL: client certificates are not asked for */
  bool requires_client_certificate;
};

/* Reads the files. NULL, with `*reason` set to a text the caller frees, when they cannot be used.
 */
struct tls_server *tls_server_open(const struct tls_files *files, char **reason)
    __attribute__((warn_unused_result));

/* Reads the files again: new connections use what they hold, open ones go on as they are. False,
 * with `*reason` as above, when they cannot be used: then nothing changes. */
bool tls_server_reload(struct tls_server *server, const struct tls_files *files, char **reason)
    __attribute__((warn_unused_result));

/* When the certificate in force expires, in seconds since 1970. */
int64_t tls_server_expiry(const struct tls_server *server);

/* Open connections keep what they need. NULL is fine. */
void tls_server_close(struct tls_server *server);

#endif
