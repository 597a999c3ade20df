/* CRQ2 requests. There is one encoding of each request, so what decodes must encode to the same
 * bytes. The same input is also read as a line of text. */
#include "crs2/wire/request.h"
#include "fuzz.h"

static void check_payload(struct slice payload) {
  struct arena arena = {0};
  struct buffer again = {0};
  struct request_fields request;
  if (!request_decode(payload, &arena, &request)) {
    FUZZ_CHECK(!request_encode(&request, &again));
    FUZZ_CHECK(slice_equals(buffer_slice(&again), payload));
    for (unsigned i = 0; i < request.field_count; i++) {
      char *name = arena_copy_text(&arena, request.fields[i].name);
      FUZZ_CHECK(request_find(&request, name) == &request.fields[i].value);
    }
  }
  buffer_release(&again);
  arena_release(&arena);
}

static void check_line(struct slice line) {
  struct arena arena = {0};
  struct buffer payload = {0};
  struct slice command;
  struct request_fields request, again;
  if (!request_parse_line(line, &arena, &command, &request)) {
    FUZZ_CHECK(command.length > 0);
    if (!request_encode(&request, &payload)) {
      FUZZ_CHECK(!request_decode(buffer_slice(&payload), &arena, &again));
      FUZZ_CHECK(again.field_count == request.field_count);
      FUZZ_CHECK(again.positional_count == request.positional_count);
    }
  }
  buffer_release(&payload);
  arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  check_payload(slice_of(data, size));
  check_line(slice_of(data, size));
  return 0;
}
