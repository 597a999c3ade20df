/* Handshake payloads: each has one encoding, so what decodes must encode to the same bytes. */
#include "crs2/wire/negotiate.h"
#include "fuzz.h"

static void check_request(struct slice payload) {
  struct negotiation_request request;
  if (negotiation_decode_request(payload, &request)) return;
  struct buffer again = {0};
  negotiation_encode_request(&request, &again);
  FUZZ_CHECK(slice_equals(buffer_slice(&again), payload));
  enum compression selected = COMPRESSION_NONE;
  if (!negotiation_select(&request, &selected)) FUZZ_CHECK(selected == request.compressions[0]);
  buffer_release(&again);
}

static void check_response(struct slice payload) {
  enum compression compression = COMPRESSION_NONE;
  if (negotiation_decode_response(payload, &compression)) return;
  struct buffer again = {0};
  negotiation_encode_response(compression, &again);
  FUZZ_CHECK(slice_equals(buffer_slice(&again), payload));
  buffer_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  check_request(slice_of(data, size));
  check_response(slice_of(data, size));
  return 0;
}
