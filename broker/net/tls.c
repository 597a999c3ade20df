/* Turns certificate files into an OpenSSL context, completely or not at all. Says which file is
 * wrong and why; logs nothing. */
#include "net/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "net/tls_private.h"
#include "net/tls_socket.h"

static bool fail(char **reason, const char *what, const char *path, const char *problem) {
  char described[160];
  if (!problem) {
    tls_describe_error("OpenSSL gives no reason", described, sizeof described);
    problem = described;
  }
  struct buffer text = {0};
  buffer_append_format(&text, "%s%s%s: %s", what, path ? " " : "", path ? path : "", problem);
  buffer_append_u8(&text, 0);
  *reason = (char *)text.data;
  ERR_clear_error();
  return false;
}

/* A daemon has nobody to ask. */
static int no_passphrase(char *text, int size, int is_writing, void *context) {
  (void)text;
  (void)size;
  (void)is_writing;
  *(bool *)context = true;
  return -1;
}

static bool use_certificate(SSL_CTX *context, const char *path, char **reason) {
  if (SSL_CTX_use_certificate_chain_file(context, path) == 1) return true;
  bool empty = ERR_GET_REASON(ERR_peek_error()) == PEM_R_NO_START_LINE;
  return fail(reason, "certificate", path, empty ? "no PEM certificate in it" : NULL);
}

static bool use_key(SSL_CTX *context, const char *path, char **reason) {
  bool wants_passphrase = false;
  SSL_CTX_set_default_passwd_cb(context, no_passphrase);
  SSL_CTX_set_default_passwd_cb_userdata(context, &wants_passphrase);
  int used = SSL_CTX_use_PrivateKey_file(context, path, SSL_FILETYPE_PEM);
  SSL_CTX_set_default_passwd_cb_userdata(context, NULL);
  SSL_CTX_set_default_passwd_cb(context, NULL);
  if (used == 1) return true;
  if (wants_passphrase) {
    return fail(reason, "private key", path, "it has a passphrase; write it without one");
  }
  bool mismatch = ERR_GET_REASON(ERR_peek_error()) == X509_R_KEY_VALUES_MISMATCH ||
                  ERR_GET_REASON(ERR_peek_error()) == X509_R_KEY_TYPE_MISMATCH;
  return fail(reason, "private key", path,
              mismatch ? "it does not belong to the certificate" : NULL);
}

/* Names the certificates to clients too, so that those with several choose the right one. */
static bool use_client_ca(SSL_CTX *context, const struct tls_files *files, char **reason) {
  if (!files->client_ca || !*files->client_ca) {
    if (!files->requires_client_certificate) return true;
    return fail(reason, "client certificates are required", NULL, "there is no CA to check them");
  }
  if (SSL_CTX_load_verify_file(context, files->client_ca) != 1) {
    return fail(reason, "client CA", files->client_ca, NULL);
  }
  STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(files->client_ca);
  if (!names) return fail(reason, "client CA", files->client_ca, NULL);
  SSL_CTX_set_client_CA_list(context, names);
  int mode = SSL_VERIFY_PEER;
  if (files->requires_client_certificate) mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
  SSL_CTX_set_verify(context, mode, transport_tls_on_verify);
  return true;
}

static int64_t expiry_of(SSL_CTX *context) {
  struct tm fields;
  const X509 *certificate = SSL_CTX_get0_certificate(context);
  if (!certificate || ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &fields) != 1) return 0;
  return (int64_t)timegm(&fields);
}

static bool set_rules(SSL_CTX *context) {
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION |
                                   SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  transport_tls_configure(context);
  return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
         SSL_CTX_set_num_tickets(context, 0) == 1;
}

static SSL_CTX *make_context(const struct tls_files *files, char **reason) {
  ERR_clear_error();
  SSL_CTX *context = SSL_CTX_new(TLS_server_method());
  if (!context || !set_rules(context)) {
    (void)fail(reason, "TLS", NULL, NULL);
  } else if (use_certificate(context, files->certificate, reason) &&
             use_key(context, files->key, reason) && use_client_ca(context, files, reason)) {
    return context;
  }
  SSL_CTX_free(context);
  return NULL;
}

struct tls_server *tls_server_open(const struct tls_files *files, char **reason) {
  SSL_CTX *context = make_context(files, reason);
  if (!context) return NULL;
  struct tls_server *server = memory_allocate_zeroed(1, sizeof *server);
  server->context = context;
  server->expiry = expiry_of(context);
  return server;
}

bool tls_server_reload(struct tls_server *server, const struct tls_files *files, char **reason) {
  SSL_CTX *context = make_context(files, reason);
  if (!context) return false;
  SSL_CTX_free(server->context);
  server->context = context;
  server->expiry = expiry_of(context);
  return true;
}

int64_t tls_server_expiry(const struct tls_server *server) {
  return server->expiry;
}

void tls_server_close(struct tls_server *server) {
  if (!server) return;
  SSL_CTX_free(server->context);
  free(server);
}
