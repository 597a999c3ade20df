/* Certificates in temporary files, and a TLS client whose bytes the test moves itself. */
#ifndef PGCURSUS_TESTS_TLS_FIXTURE_H
#define PGCURSUS_TESTS_TLS_FIXTURE_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "net/tls.h"

struct tls_fixture {
  char directory[64];
  char certificate[96], key[96]; /* self-signed, for localhost */
};

void tls_fixture_open(struct tls_fixture *fixture);
void tls_fixture_close(struct tls_fixture *fixture);

/* A server with the fixture's certificate. */
struct tls_server *tls_fixture_server(const struct tls_fixture *fixture);

/* A client between two memory buffers: nothing moves but through the functions below. */
struct tls_client {
  SSL_CTX *context;
  SSL *ssl;
  BIO *incoming, *outgoing;
};

/* Accepts any certificate. `version` is TLS1_2_VERSION or TLS1_3_VERSION. */
void tls_client_open(struct tls_client *client, int version);
void tls_client_close(struct tls_client *client);

/* One step of the handshake; true when it is over for the client. */
bool tls_client_handshake(struct tls_client *client);

/* Gives the client what the server sent. */
void tls_client_feed(struct tls_client *client, const void *bytes, size_t length);

/* Takes what the client wants to send; the caller releases it. */
struct buffer tls_client_take(struct tls_client *client);

/* The records that carry these bytes. */
struct buffer tls_client_encrypt(struct tls_client *client, const void *bytes, size_t length);

/* Appends the plain bytes that have arrived; false once the server has closed with close_notify. */
bool tls_client_decrypt(struct tls_client *client, struct buffer *plain);

#endif
