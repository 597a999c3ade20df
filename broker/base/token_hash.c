/* Hashes of tokens, by OpenSSL. Keeps no token and never prints one. */
#include "base/token_hash.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>

/* Only memory that ran out, or a broken installation, leads here. */
static void insist(bool done) {
  if (done) return;
  fputs("OpenSSL cannot compute SHA-256 or random numbers\n", stderr);
  abort();
}

void token_hash(struct slice token, struct slice salt, unsigned iterations,
                uint8_t hash[TOKEN_HASH_SIZE]) {
  const char *text = token.length ? (const char *)token.data : "";
  insist(PKCS5_PBKDF2_HMAC(text, (int)token.length, salt.data, (int)salt.length, (int)iterations,
                           EVP_sha256(), TOKEN_HASH_SIZE, hash) == 1);
}

void token_digest(struct slice key, struct slice token, uint8_t digest[TOKEN_HASH_SIZE]) {
  const uint8_t *text = token.length ? token.data : (const uint8_t *)"";
  insist(HMAC(EVP_sha256(), key.data, (int)key.length, text, token.length, digest, NULL) != NULL);
}

bool token_hash_equals(const uint8_t a[TOKEN_HASH_SIZE], const uint8_t b[TOKEN_HASH_SIZE]) {
  return CRYPTO_memcmp(a, b, TOKEN_HASH_SIZE) == 0;
}

void token_random(uint8_t *bytes, unsigned length) {
  insist(RAND_bytes(bytes, (int)length) == 1);
}
