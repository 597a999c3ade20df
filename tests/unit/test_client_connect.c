/* The client's handshake (crs2-wire 7). */
#include "client_fixture.h"
#include "crs2/wire/negotiate.h"
#include "unit.h"

static const enum pgcursus_compression wanted[] = {PGCURSUS_LZ4, PGCURSUS_NONE};

static struct pgcursus *connect_to(struct client_fixture *fixture, char *problem, size_t size) {
  const struct pgcursus_options options = {.compressions = wanted,
                                           .compression_count = 2,
                                           .timeout_ms = 200,
                                           .transport = client_fixture_transport(fixture)};
  problem[0] = '\0';
  return pgcursus_connect(&options, problem, size);
}

static void choose(struct client_fixture *fixture, enum compression compression) {
  struct buffer payload = {0};
  negotiation_encode_response(compression, &payload);
  client_fixture_answer(fixture, COMPRESSION_NONE, FRAME_NEGOTIATION_RESPONSE, COMMAND_NEGOTIATE,
                        FRAME_OK, 0, buffer_slice(&payload));
  buffer_release(&payload);
}

static void assert_fails(struct client_fixture *fixture, const char *part) {
  char problem[200];
  assert_null(connect_to(fixture, problem, sizeof problem));
  if (!strstr(problem, part)) fail_msg("\"%s\" does not say \"%s\"", problem, part);
  assert_true(fixture->is_closed);
  client_fixture_close(fixture);
}

static void the_offer_keeps_the_callers_order(void **state) {
  (void)state;
  struct client_fixture fixture;
  client_fixture_open(&fixture);
  choose(&fixture, COMPRESSION_NONE);
  char problem[200];
  struct pgcursus *client = connect_to(&fixture, problem, sizeof problem);
  assert_non_null(client);
  assert_int_equal(pgcursus_negotiated(client), PGCURSUS_NONE);
  struct buffer storage = {0};
  struct slice payload;
  struct frame_header header = client_fixture_take(&fixture, COMPRESSION_NONE, &storage, &payload);
  assert_int_equal(header.kind, FRAME_NEGOTIATION_REQUEST);
  assert_int_equal(header.request_id, 0);
  struct negotiation_request request;
  assert_null(negotiation_decode_request(payload, &request));
  assert_int_equal(request.compression_count, 2);
  assert_int_equal(request.compressions[0], COMPRESSION_LZ4);
  buffer_release(&storage);
  pgcursus_close(client);
  assert_true(fixture.is_closed);
  client_fixture_close(&fixture);
}

static void a_compression_that_was_not_offered_is_refused(void **state) {
  (void)state;
  struct client_fixture fixture;
  client_fixture_open(&fixture);
  choose(&fixture, COMPRESSION_GZIP);
  assert_fails(&fixture, "not offered");
}

static void a_closing_broker_fails_the_handshake(void **state) {
  (void)state;
  struct client_fixture fixture;
  client_fixture_open(&fixture);
  fixture.closes = true;
  assert_fails(&fixture, "closed the connection");
}

static void a_silent_broker_times_out(void **state) {
  (void)state;
  struct client_fixture fixture;
  client_fixture_open(&fixture);
  assert_fails(&fixture, "in time");
}

static void something_else_is_no_broker(void **state) {
  (void)state;
  struct client_fixture fixture;
  client_fixture_open(&fixture);
  buffer_append_text(&fixture.from_broker, "HTTP/1.1 400 Bad Request\r\nServer: none\r\n\r\n");
  assert_fails(&fixture, "not a CRS2 broker");
}

static void a_response_is_no_negotiation(void **state) {
  (void)state;
  struct client_fixture fixture;
  client_fixture_open(&fixture);
  client_fixture_respond(&fixture, COMMAND_HELP, 1, "OK");
  assert_fails(&fixture, "no negotiation response");
}

static void an_error_status_is_a_refusal(void **state) {
  (void)state;
  struct client_fixture fixture;
  client_fixture_open(&fixture);
  client_fixture_answer(&fixture, COMPRESSION_NONE, FRAME_NEGOTIATION_RESPONSE, COMMAND_NEGOTIATE,
                        FRAME_ERROR, 0, slice_text("xyz"));
  assert_fails(&fixture, "refuses");
}

static void an_unreachable_address_is_reported(void **state) {
  (void)state;
  const struct pgcursus_options options = {.host = "127.0.0.1", .port = "1", .timeout_ms = 2000};
  char problem[200] = "";
  assert_null(pgcursus_connect(&options, problem, sizeof problem));
  assert_non_null(strstr(problem, "cannot connect to 127.0.0.1:1"));
}

static void compressions_have_names(void **state) {
  (void)state;
  enum pgcursus_compression compression;
  assert_true(pgcursus_compression_by_name("Snappy", &compression));
  assert_int_equal(compression, PGCURSUS_SNAPPY);
  assert_false(pgcursus_compression_by_name("zstd", &compression));
  assert_string_equal(pgcursus_compression_name(PGCURSUS_LZ4), "lz4");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_offer_keeps_the_callers_order),
      cmocka_unit_test(a_compression_that_was_not_offered_is_refused),
      cmocka_unit_test(a_closing_broker_fails_the_handshake),
      cmocka_unit_test(a_silent_broker_times_out),
      cmocka_unit_test(something_else_is_no_broker),
      cmocka_unit_test(a_response_is_no_negotiation),
      cmocka_unit_test(an_error_status_is_a_refusal),
      cmocka_unit_test(an_unreachable_address_is_reported),
      cmocka_unit_test(compressions_have_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
