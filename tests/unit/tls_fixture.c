/* See tls_fixture.h. */
#include "tls_fixture.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include "unit.h"

static EVP_PKEY *make_key(void) {
  EVP_PKEY *key = EVP_EC_gen("P-256");
  assert_non_null(key);
  return key;
}

static X509 *make_certificate(EVP_PKEY *key) {
  X509 *certificate = X509_new();
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_NAME *name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"localhost", -1, -1,
                             0);
  X509_set_issuer_name(certificate, name);
  X509_set_pubkey(certificate, key);
  assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
  return certificate;
}

void tls_fixture_open(struct tls_fixture *fixture) {
  snprintf(fixture->directory, sizeof fixture->directory, "/tmp/pgcursus-tls-XXXXXX");
  assert_non_null(mkdtemp(fixture->directory));
  snprintf(fixture->certificate, sizeof fixture->certificate, "%s/server.pem", fixture->directory);
  snprintf(fixture->key, sizeof fixture->key, "%s/server.key", fixture->directory);
  EVP_PKEY *key = make_key();
  X509 *certificate = make_certificate(key);
  FILE *file = fopen(fixture->certificate, "w");
  assert_int_equal(PEM_write_X509(file, certificate), 1);
  fclose(file);
  file = fopen(fixture->key, "w");
  assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
  fclose(file);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

void tls_fixture_close(struct tls_fixture *fixture) {
  unlink(fixture->certificate);
  unlink(fixture->key);
  rmdir(fixture->directory);
}

struct tls_server *tls_fixture_server(const struct tls_fixture *fixture) {
  const struct tls_files files = {.certificate = fixture->certificate, .key = fixture->key};
  char *reason = NULL;
  struct tls_server *server = tls_server_open(&files, &reason);
  if (!server) fail_msg("%s", reason);
  return server;
}

void tls_client_open(struct tls_client *client, int version) {
  client->context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_min_proto_version(client->context, version);
  SSL_CTX_set_max_proto_version(client->context, version);
  client->ssl = SSL_new(client->context);
  client->incoming = BIO_new(BIO_s_mem());
  client->outgoing = BIO_new(BIO_s_mem());
  SSL_set_bio(client->ssl, client->incoming, client->outgoing);
  SSL_set_connect_state(client->ssl);
}

void tls_client_close(struct tls_client *client) {
  SSL_free(client->ssl);
  SSL_CTX_free(client->context);
}

bool tls_client_handshake(struct tls_client *client) {
  ERR_clear_error();
  int result = SSL_do_handshake(client->ssl);
  if (result != 1) assert_int_equal(SSL_get_error(client->ssl, result), SSL_ERROR_WANT_READ);
  return result == 1;
}

void tls_client_feed(struct tls_client *client, const void *bytes, size_t length) {
  if (length) assert_int_equal(BIO_write(client->incoming, bytes, (int)length), length);
}

struct buffer tls_client_take(struct tls_client *client) {
  struct buffer bytes = {0};
  size_t pending = BIO_ctrl_pending(client->outgoing);
  if (pending) {
    assert_int_equal(BIO_read(client->outgoing, buffer_extend(&bytes, pending), (int)pending),
                     pending);
  }
  return bytes;
}

struct buffer tls_client_encrypt(struct tls_client *client, const void *bytes, size_t length) {
  size_t written;
  assert_int_equal(SSL_write_ex(client->ssl, bytes, length, &written), 1);
  assert_int_equal(written, length);
  return tls_client_take(client);
}

bool tls_client_decrypt(struct tls_client *client, struct buffer *plain) {
  for (;;) {
    size_t count;
    ERR_clear_error();
    int result = SSL_read_ex(client->ssl, buffer_reserve(plain, 16384), 16384, &count);
    if (result != 1) {
      int error = SSL_get_error(client->ssl, result);
      if (error != SSL_ERROR_ZERO_RETURN) assert_int_equal(error, SSL_ERROR_WANT_READ);
      return error != SSL_ERROR_ZERO_RETURN;
    }
    plain->length += count;
  }
}
