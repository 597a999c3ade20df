/* Error payloads: what decodes can be rendered, and re-encodes to a fixed point when it has no more
 * fields than an encoder may send. */
#include "crs2/wire/error.h"
#include "fuzz.h"

static void check_round_trip(const struct wire_error *error, struct arena *arena) {
  struct buffer first = {0}, second = {0};
  struct wire_error again;
  FUZZ_CHECK(!error_encode(error, &first));
  FUZZ_CHECK(!error_decode(buffer_slice(&first), arena, &again));
  FUZZ_CHECK(slice_equals(again.code, error->code));
  FUZZ_CHECK(again.error_class == error->error_class && again.retryable == error->retryable);
  FUZZ_CHECK(again.field_count == error->field_count);
  FUZZ_CHECK(!error_encode(&again, &second));
  FUZZ_CHECK(slice_equals(buffer_slice(&first), buffer_slice(&second)));
  buffer_release(&first);
  buffer_release(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct arena arena = {0};
  struct buffer text = {0};
  struct wire_error error;
  if (!error_decode(slice_of(data, size), &arena, &error)) {
    error_render(&error, &text);
    FUZZ_CHECK(text.length > error.code.length);
    if (error.field_count <= ERROR_MAX_FIELDS) check_round_trip(&error, &arena);
  }
  enum error_class error_class;
  bool retryable;
  error_classify(slice_of(data, size), &error_class, &retryable);
  FUZZ_CHECK(error_class >= ERROR_VALIDATION && error_class <= ERROR_INTERNAL);
  buffer_release(&text);
  arena_release(&arena);
  return 0;
}
