/* Hashes of tokens against published values, and comparison. */
#include "base/token_hash.h"
#include "unit.h"

static void assert_hash(const uint8_t hash[TOKEN_HASH_SIZE], const char *hexadecimal) {
  char text[2 * TOKEN_HASH_SIZE + 1];
  for (int i = 0; i < TOKEN_HASH_SIZE; i++) snprintf(text + 2 * i, 3, "%02x", hash[i]);
  assert_string_equal(text, hexadecimal);
}

/* RFC 7914, section 11. */
static void hashes_are_pbkdf2_hmac_sha256(void **state) {
  (void)state;
  uint8_t hash[TOKEN_HASH_SIZE];
  token_hash(slice_text("passwd"), slice_text("salt"), 1, hash);
  assert_hash(hash, "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc");
  token_hash(slice_text("Password"), slice_text("NaCl"), 80000, hash);
  assert_hash(hash, "4ddcd8f60b98be21830cee5ef22701f9641a4418d04c0414aeff08876b34ab56");
}

/* RFC 4231, test case 2. */
static void digests_are_hmac_sha256(void **state) {
  (void)state;
  uint8_t digest[TOKEN_HASH_SIZE];
  token_digest(slice_text("Jefe"), slice_text("what do ya want for nothing?"), digest);
  assert_hash(digest, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

static void an_empty_token_has_a_hash_like_any_other(void **state) {
  (void)state;
  uint8_t hash[TOKEN_HASH_SIZE], digest[TOKEN_HASH_SIZE];
  token_hash(slice_of(NULL, 0), slice_text("salt"), 1, hash);
  token_digest(slice_text("key"), slice_of(NULL, 0), digest);
  assert_false(token_hash_equals(hash, digest));
  assert_true(token_hash_equals(hash, hash));
}

static void every_byte_counts(void **state) {
  (void)state;
  uint8_t a[TOKEN_HASH_SIZE] = {0}, b[TOKEN_HASH_SIZE] = {0};
  for (int i = 0; i < TOKEN_HASH_SIZE; i++) {
    b[i] = 1;
    assert_false(token_hash_equals(a, b));
    b[i] = 0;
  }
  assert_true(token_hash_equals(a, b));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hashes_are_pbkdf2_hmac_sha256),
      cmocka_unit_test(digests_are_hmac_sha256),
      cmocka_unit_test(an_empty_token_has_a_hash_like_any_other),
      cmocka_unit_test(every_byte_counts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
