/* Requests and answers of the client: order, pipelining, errors, and frames that a broker must not
 * send. */
#include "client_fixture.h"
#include "crs2/wire/error.h"
#include "unit.h"

struct session {
  struct client_fixture fixture;
  struct pgcursus *client;
};

static int open_session(void **state) {
  struct session *session = calloc(1, sizeof *session);
  client_fixture_open(&session->fixture);
  session->client = client_fixture_connect(&session->fixture, PGCURSUS_NONE);
  *state = session;
  return 0;
}

static int close_session(void **state) {
  struct session *session = *state;
  pgcursus_close(session->client);
  client_fixture_close(&session->fixture);
  free(session);
  return 0;
}

static void assert_payload(const struct pgcursus_reply *reply, const char *text) {
  assert_int_equal(reply->payload.length, strlen(text));
  assert_memory_equal(reply->payload.data, text, strlen(text));
}

static void add_error(struct client_fixture *fixture, uint16_t command, uint64_t id) {
  struct error_field fields[] = {{slice_text("topic"), slice_text("a b")},
                                 {slice_text("operation"), slice_text("read")}};
  const struct wire_error error = {.code = slice_text("NOT_AUTHORIZED_FOR_TOPIC"),
                                   .error_class = ERROR_AUTHORIZATION,
                                   .field_count = 2,
                                   .fields = fields};
  struct buffer payload = {0};
  assert_null(error_encode(&error, &payload));
  client_fixture_answer(fixture, COMPRESSION_NONE, FRAME_RESPONSE, command, FRAME_ERROR, id,
                        buffer_slice(&payload));
  buffer_release(&payload);
}

static void a_call_sends_its_fields_and_returns_the_answer(void **state) {
  struct session *session = *state;
  client_fixture_respond(&session->fixture, COMMAND_DESCRIBE, 1, "{}");
  const struct pgcursus_field fields[] = {{pgcursus_text("topic"), pgcursus_text("orders")}};
  struct pgcursus_reply reply;
  assert_int_equal(pgcursus_call(session->client, COMMAND_DESCRIBE, fields, 1, &reply),
                   PGCURSUS_OK);
  assert_payload(&reply, "{}");
  struct buffer storage = {0};
  struct slice payload;
  struct frame_header header =
      client_fixture_take(&session->fixture, COMPRESSION_NONE, &storage, &payload);
  assert_int_equal(header.kind, FRAME_REQUEST);
  assert_int_equal(header.command, COMMAND_DESCRIBE);
  assert_int_equal(header.request_id, 1);
  buffer_release(&storage);
}

static void answers_may_arrive_byte_by_byte(void **state) {
  struct session *session = *state;
  session->fixture.read_limit = 1;
  client_fixture_respond(&session->fixture, COMMAND_HELP, 1, "OK one");
  client_fixture_respond(&session->fixture, COMMAND_HELP, 2, "OK two");
  struct pgcursus_reply reply;
  assert_int_equal(pgcursus_call(session->client, COMMAND_HELP, NULL, 0, &reply), PGCURSUS_OK);
  assert_payload(&reply, "OK one");
  assert_int_equal(pgcursus_call(session->client, COMMAND_HELP, NULL, 0, &reply), PGCURSUS_OK);
  assert_payload(&reply, "OK two");
}

static void many_requests_may_be_in_flight(void **state) {
  struct session *session = *state;
  for (uint64_t id = 1; id <= 100; id++) {
    uint64_t given;
    assert_int_equal(pgcursus_send(session->client, COMMAND_HELP, NULL, 0, &given), PGCURSUS_OK);
    assert_int_equal(given, id);
    client_fixture_respond(&session->fixture, COMMAND_HELP, id, "OK");
  }
  assert_int_equal(pgcursus_outstanding(session->client), 100);
  struct pgcursus_reply reply;
  assert_int_equal(pgcursus_call(session->client, COMMAND_HELP, NULL, 0, &reply), PGCURSUS_INVALID);
  for (uint64_t id = 1; id <= 100; id++) {
    assert_int_equal(pgcursus_receive(session->client, &reply), PGCURSUS_OK);
    assert_int_equal(reply.request_id, id);
  }
  assert_int_equal(pgcursus_outstanding(session->client), 0);
}

static void an_error_is_a_refusal_and_the_connection_goes_on(void **state) {
  struct session *session = *state;
  add_error(&session->fixture, COMMAND_LIST, 1);
  client_fixture_respond(&session->fixture, COMMAND_HELP, 2, "OK");
  struct pgcursus_reply reply;
  assert_int_equal(pgcursus_call(session->client, COMMAND_LIST, NULL, 0, &reply), PGCURSUS_REFUSED);
  const struct pgcursus_error *error = pgcursus_last_error(session->client);
  assert_string_equal(error->class_name, "authorization");
  assert_false(error->retryable);
  assert_int_equal(error->field_count, 2);
  assert_memory_equal(pgcursus_error_field(error, "operation").data, "read", 4);
  assert_int_equal(pgcursus_error_field(error, "absent").length, 0);
  assert_string_equal(error->readable,
                      "ERROR: NOT_AUTHORIZED_FOR_TOPIC class=authorization retryable=false "
                      "operation=read topic=\"a b\"");
  assert_int_equal(pgcursus_call(session->client, COMMAND_HELP, NULL, 0, &reply), PGCURSUS_OK);
}

static void assert_broken(struct session *session) {
  struct pgcursus_reply reply;
  assert_int_equal(pgcursus_call(session->client, COMMAND_HELP, NULL, 0, &reply), PGCURSUS_BROKEN);
  assert_true(strlen(pgcursus_problem(session->client)) > 0);
  assert_int_equal(pgcursus_call(session->client, COMMAND_HELP, NULL, 0, &reply), PGCURSUS_BROKEN);
}

static void an_answer_to_another_request_breaks(void **state) {
  struct session *session = *state;
  client_fixture_respond(&session->fixture, COMMAND_HELP, 7, "OK");
  assert_broken(session);
}

static void an_answer_to_another_command_breaks(void **state) {
  struct session *session = *state;
  client_fixture_respond(&session->fixture, COMMAND_LIST, 1, "OK");
  assert_broken(session);
}

static void a_request_from_the_broker_breaks(void **state) {
  struct session *session = *state;
  client_fixture_answer(&session->fixture, COMPRESSION_NONE, FRAME_REQUEST, COMMAND_HELP,
                        FRAME_NONE, 1, slice_text("x"));
  assert_broken(session);
}

static void another_compression_breaks(void **state) {
  struct session *session = *state;
  client_fixture_answer(&session->fixture, COMPRESSION_GZIP, FRAME_RESPONSE, COMMAND_HELP, FRAME_OK,
                        1, slice_text("OK"));
  assert_broken(session);
}

static void a_damaged_payload_breaks(void **state) {
  struct session *session = *state;
  client_fixture_respond(&session->fixture, COMMAND_HELP, 1, "OK");
  session->fixture.from_broker.data[session->fixture.from_broker.length - 1] ^= 1;
  assert_broken(session);
}

static void a_malformed_error_breaks(void **state) {
  struct session *session = *state;
  client_fixture_answer(&session->fixture, COMPRESSION_NONE, FRAME_RESPONSE, COMMAND_HELP,
                        FRAME_ERROR, 1, slice_text("no error"));
  assert_broken(session);
}

static void the_end_inside_a_frame_breaks(void **state) {
  struct session *session = *state;
  client_fixture_respond(&session->fixture, COMMAND_HELP, 1, "OK and more");
  session->fixture.from_broker.length -= 3;
  session->fixture.closes = true;
  assert_broken(session);
  assert_non_null(strstr(pgcursus_problem(session->client), "inside a frame"));
}

static void a_late_answer_times_out_and_can_still_be_had(void **state) {
  struct session *session = *state;
  struct pgcursus_reply reply;
  assert_int_equal(pgcursus_call(session->client, COMMAND_HELP, NULL, 0, &reply), PGCURSUS_TIMEOUT);
  client_fixture_respond(&session->fixture, COMMAND_HELP, 1, "OK");
  assert_int_equal(pgcursus_receive(session->client, &reply), PGCURSUS_OK);
  assert_payload(&reply, "OK");
}

static void invalid_fields_are_not_sent(void **state) {
  struct session *session = *state;
  const struct pgcursus_field twice[] = {{pgcursus_text("topic"), pgcursus_text("a")},
                                         {pgcursus_text("topic"), pgcursus_text("b")}};
  struct pgcursus_reply reply;
  assert_int_equal(pgcursus_call(session->client, COMMAND_LIST, twice, 2, &reply),
                   PGCURSUS_INVALID);
  assert_int_equal(session->fixture.to_broker.length, 0);
  assert_int_equal(pgcursus_outstanding(session->client), 0);
}

static void acks_0_awaits_nothing(void **state) {
  struct session *session = *state;
  const struct pgcursus_field fields[] = {{pgcursus_text("topic"), pgcursus_text("a")},
                                          {pgcursus_text("acks"), pgcursus_text(" 0 ")}};
  struct pgcursus_reply reply;
  assert_int_equal(pgcursus_call(session->client, COMMAND_PUBLISH, fields, 2, &reply), PGCURSUS_OK);
  assert_int_equal(reply.payload.length, 0);
  assert_true(session->fixture.to_broker.length > 0);
  client_fixture_respond(&session->fixture, COMMAND_HELP, 2, "OK");
  assert_int_equal(pgcursus_call(session->client, COMMAND_HELP, NULL, 0, &reply), PGCURSUS_OK);
}

/* READ_STREAM is answered by two frames, of either kind. */
static void two_frames_belong_to_one_read_stream(void **state) {
  struct session *session = *state;
  const enum frame_kind kinds[] = {FRAME_STREAM, FRAME_RESPONSE};
  struct pgcursus_reply reply;
  for (uint64_t i = 0; i < 2; i++) {
    uint64_t id = 2 * i + 1;
    for (int part = 0; part < 2; part++) {
      client_fixture_answer(&session->fixture, COMPRESSION_NONE, kinds[i], COMMAND_READ_STREAM,
                            FRAME_OK, id, slice_text(part == 0 ? "{}" : "batch"));
    }
    client_fixture_respond(&session->fixture, COMMAND_HELP, id + 1, "OK");
    assert_int_equal(pgcursus_call(session->client, COMMAND_READ_STREAM, NULL, 0, &reply),
                     PGCURSUS_OK);
    assert_payload(&reply, "{}");
    assert_int_equal(pgcursus_receive(session->client, &reply), PGCURSUS_OK);
    assert_payload(&reply, "batch");
    assert_int_equal(pgcursus_outstanding(session->client), 0);
    assert_int_equal(pgcursus_call(session->client, COMMAND_HELP, NULL, 0, &reply), PGCURSUS_OK);
  }
}

static void a_stream_runs_to_its_end(void **state) {
  struct session *session = *state;
  const char *const payloads[] = {"data", "", "STREAM_CONTROL type=CLOSE reason=stopped offset=1"};
  for (int i = 0; i < 3; i++) {
    client_fixture_answer(&session->fixture, COMPRESSION_NONE, FRAME_STREAM, COMMAND_STREAM,
                          i == 2 ? FRAME_STREAM_END : FRAME_OK, 1, slice_text(payloads[i]));
  }
  struct pgcursus_reply reply;
  assert_int_equal(pgcursus_call(session->client, COMMAND_STREAM, NULL, 0, &reply), PGCURSUS_OK);
  assert_true(reply.is_stream && !reply.is_stream_end);
  assert_int_equal(pgcursus_receive(session->client, &reply), PGCURSUS_OK);
  assert_int_equal(reply.payload.length, 0);
  assert_int_equal(pgcursus_receive(session->client, &reply), PGCURSUS_OK);
  assert_true(reply.is_stream_end);
}

static void a_prepared_frame_gets_the_next_id(void **state) {
  struct session *session = *state;
  struct buffer frame = {0};
  const struct frame_header header = {
      .kind = FRAME_REQUEST, .command = COMMAND_PUBLISH, .request_id = 99};
  assert_null(frame_encode(&frame, &header, slice_text("payload")));
  struct pgcursus_reply reply;
  for (uint64_t id = 1; id <= 2; id++) {
    client_fixture_respond(&session->fixture, COMMAND_PUBLISH, id, "{}");
    assert_int_equal(pgcursus_send_frame(session->client, frame.data, frame.length, true),
                     PGCURSUS_OK);
    assert_int_equal(pgcursus_receive(session->client, &reply), PGCURSUS_OK);
    assert_int_equal(reply.request_id, id);
  }
  buffer_release(&frame);
}

#define SESSION_TEST(name) cmocka_unit_test_setup_teardown(name, open_session, close_session)

int main(void) {
  const struct CMUnitTest tests[] = {
      SESSION_TEST(a_call_sends_its_fields_and_returns_the_answer),
      SESSION_TEST(answers_may_arrive_byte_by_byte),
      SESSION_TEST(many_requests_may_be_in_flight),
      SESSION_TEST(an_error_is_a_refusal_and_the_connection_goes_on),
      SESSION_TEST(an_answer_to_another_request_breaks),
      SESSION_TEST(an_answer_to_another_command_breaks),
      SESSION_TEST(a_request_from_the_broker_breaks),
      SESSION_TEST(another_compression_breaks),
      SESSION_TEST(a_damaged_payload_breaks),
      SESSION_TEST(a_malformed_error_breaks),
      SESSION_TEST(the_end_inside_a_frame_breaks),
      SESSION_TEST(a_late_answer_times_out_and_can_still_be_had),
      SESSION_TEST(invalid_fields_are_not_sent),
      SESSION_TEST(acks_0_awaits_nothing),
      SESSION_TEST(two_frames_belong_to_one_read_stream),
      SESSION_TEST(a_stream_runs_to_its_end),
      SESSION_TEST(a_prepared_frame_gets_the_next_id),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
