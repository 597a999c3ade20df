/* Shared by tls.c, which makes contexts, and transport_tls.c, which uses them. */
#ifndef PGCURSUS_NET_TLS_PRIVATE_H
#define PGCURSUS_NET_TLS_PRIVATE_H

#include <openssl/ssl.h>

#include "net/tls.h"
#include "net/transport.h"

struct tls_server {
  SSL_CTX *context; /* the one in force; each connection holds a reference to its own */
  int64_t expiry;
};

/* transport_tls.c: sets up what concerns single connections. */
void transport_tls_configure(SSL_CTX *context);
/* Called by OpenSSL for each certificate of a client: keeps the name of one that is refused. */
int transport_tls_on_verify(int is_valid, X509_STORE_CTX *verification);

#endif
