/* Salted hashes of tokens: what is stored instead of a token, and how one is compared with it. */
#ifndef PGCURSUS_BASE_TOKEN_HASH_H
#define PGCURSUS_BASE_TOKEN_HASH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

enum {
  TOKEN_HASH_SIZE = 32,
  TOKEN_SALT_SIZE = 16,
  /* Some 5 to 10 ms of one core. Tokens are random by default, where any number would do; it is
   * there for those that people choose. */
  TOKEN_HASH_ITERATIONS = 20000,
  TOKEN_HASH_MAX_ITERATIONS = 2000000,
};

/* PBKDF2-HMAC-SHA256. Takes milliseconds: never on the loop. */
void token_hash(struct slice token, struct slice salt, unsigned iterations,
                uint8_t hash[TOKEN_HASH_SIZE]);

/* HMAC-SHA256 under a key, for comparing tokens of any length in constant time. Takes microseconds.
 */
void token_digest(struct slice key, struct slice token, uint8_t digest[TOKEN_HASH_SIZE]);

/* In constant time. */
bool token_hash_equals(const uint8_t a[TOKEN_HASH_SIZE], const uint8_t b[TOKEN_HASH_SIZE]);

/* Bytes of the system's random generator; the process ends when there are none. */
void token_random(uint8_t *bytes, unsigned length);

#endif
