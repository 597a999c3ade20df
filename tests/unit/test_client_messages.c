/* Records through the client: publishing, acknowledgements, consuming. */
#include "client_fixture.h"
#include "crs2/wire/batch.h"
#include "crs2/wire/request.h"
#include "unit.h"

static const char ack_text[] =
    "{\"status\":\"OK\",\"last_offset\":42,\"producer_id\":\"a\\\"last_offset\\\":7\",\"producer_"
    "epoch\":0,"
    "\"seq_start\":3,\"seq_end\":4,\"leader\":\"localhost:9000\"}";

struct session {
  struct client_fixture fixture;
  struct pgcursus *client;
};

static int open_session(void **state) {
  struct session *session = calloc(1, sizeof *session);
  client_fixture_open(&session->fixture);
  session->client = client_fixture_connect(&session->fixture, PGCURSUS_LZ4);
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

static void respond(struct session *session, uint16_t command, uint64_t id, struct slice payload) {
  client_fixture_answer(&session->fixture, COMPRESSION_LZ4, FRAME_RESPONSE, command, FRAME_OK, id,
                        payload);
}

static void assert_bytes(struct pgcursus_bytes bytes, const char *text) {
  assert_int_equal(bytes.length, strlen(text));
  assert_memory_equal(bytes.data, text, bytes.length);
}

static void a_record_is_published_with_its_fields(void **state) {
  struct session *session = *state;
  respond(session, COMMAND_PUBLISH, 1, slice_text(ack_text));
  const struct pgcursus_record record = {.payload = pgcursus_text("a = b\n"),
                                         .key = pgcursus_text("k"),
                                         .producer_id = pgcursus_text("p"),
                                         .sequence = 3};
  struct pgcursus_ack ack;
  assert_int_equal(pgcursus_publish(session->client, "orders", -1, "all", true, &record, &ack),
                   PGCURSUS_OK);
  assert_int_equal(ack.last_offset, 42);
  assert_int_equal(ack.sequence_start, 3);
  assert_int_equal(ack.sequence_end, 4);

  struct buffer storage = {0};
  struct slice payload;
  client_fixture_take(&session->fixture, COMPRESSION_LZ4, &storage, &payload);
  struct arena arena = {0};
  struct request_fields request;
  assert_null(request_decode(payload, &arena, &request));
  assert_true(slice_equals_text(*request_find(&request, "message"), "a = b\n"));
  assert_true(slice_equals_text(*request_find(&request, "acks"), "all"));
  assert_true(slice_equals_text(*request_find(&request, "isIdempotent"), "true"));
  assert_true(slice_equals_text(*request_find(&request, "seqNum"), "3"));
  assert_null(request_find(&request, "partition"));
  assert_null(request_find(&request, "event_type"));
  arena_release(&arena);
  buffer_release(&storage);
}

static void acks_0_is_not_answered(void **state) {
  struct session *session = *state;
  const struct pgcursus_record record = {.payload = pgcursus_text("x"),
                                         .producer_id = pgcursus_text("p")};
  struct pgcursus_ack ack;
  assert_int_equal(pgcursus_publish(session->client, "orders", 0, "0", false, &record, &ack),
                   PGCURSUS_OK);
  assert_int_equal(ack.last_offset, -1);
  const struct pgcursus_batch batch = {.topic = pgcursus_text("orders"),
                                       .acks = pgcursus_text("0"),
                                       .record_count = 1,
                                       .records = &record};
  assert_int_equal(pgcursus_publish_batch(session->client, &batch, &ack), PGCURSUS_OK);
  assert_int_equal(ack.last_offset, -1);
  assert_int_equal(pgcursus_outstanding(session->client), 0);
}

static void a_batch_is_published_whole(void **state) {
  struct session *session = *state;
  respond(session, COMMAND_PUBLISH, 1, slice_text(ack_text));
  const struct pgcursus_record records[] = {
      {.payload = pgcursus_text("one"), .sequence = 3, .producer_id = pgcursus_text("p")},
      {.payload = pgcursus_text(""),
       .sequence = 4,
       .producer_id = pgcursus_text("p"),
       .key = pgcursus_text("k"),
       .timestamp_ms = 1700000000000,
       .metadata = pgcursus_text("m")},
  };
  const struct pgcursus_batch batch = {.topic = pgcursus_text("orders"),
                                       .partition = 2,
                                       .acks = pgcursus_text("all"),
                                       .idempotent = true,
                                       .record_count = 2,
                                       .records = records};
  struct pgcursus_ack ack;
  assert_int_equal(pgcursus_publish_batch(session->client, &batch, &ack), PGCURSUS_OK);

  struct buffer storage = {0};
  struct slice payload;
  client_fixture_take(&session->fixture, COMPRESSION_LZ4, &storage, &payload);
  struct arena arena = {0};
  struct batch sent;
  assert_null(batch_decode(payload, &arena, &sent));
  assert_true(sent.idempotent);
  assert_int_equal(sent.partition, 2);
  assert_int_equal(sent.batch_start, 3);
  assert_int_equal(sent.batch_end, 4);
  assert_true(slice_equals_text(sent.records[0].payload, "one"));
  assert_true(slice_equals_text(sent.records[1].key, "k"));
  assert_true(slice_equals_text(sent.records[1].metadata, "m"));
  assert_int_equal(sent.records[1].timestamp, 1700000000000);
  arena_release(&arena);
  buffer_release(&storage);
}

static void an_answer_that_is_no_acknowledgement_breaks(void **state) {
  struct session *session = *state;
  respond(session, COMMAND_PUBLISH, 1, slice_text("OK"));
  const struct pgcursus_record record = {.payload = pgcursus_text("x"),
                                         .producer_id = pgcursus_text("p")};
  struct pgcursus_ack ack;
  assert_int_equal(pgcursus_publish(session->client, "t", -1, NULL, false, &record, &ack),
                   PGCURSUS_BROKEN);
}

static void too_many_records_are_not_sent(void **state) {
  struct session *session = *state;
  const struct pgcursus_batch batch = {.topic = pgcursus_text("t"), .record_count = 100001};
  struct pgcursus_ack ack;
  assert_int_equal(pgcursus_publish_batch(session->client, &batch, &ack), PGCURSUS_INVALID);
}

static void consume_gives_the_records(void **state) {
  struct session *session = *state;
  struct record records[] = {{.offset = 5, .payload = slice_text("five")},
                             {.offset = 7,
                              .payload = slice_text("seven"),
                              .key = slice_text("k"),
                              .transactional_id = slice_text("tx"),
                              .transaction_state = slice_text("committed")}};
  const struct batch wire = {.topic = slice_text("orders"),
                             .partition = 1,
                             .acks = slice_text("1"),
                             .record_count = 2,
                             .records = records};
  struct buffer payload = {0};
  assert_null(batch_encode(&wire, &payload));
  respond(session, COMMAND_CONSUME, 1, buffer_slice(&payload));
  respond(session, COMMAND_CONSUME, 2, slice_of(payload.data, payload.length - 1));
  const struct pgcursus_fetch fetch = {
      .topic = "orders", .partition = 1, .offset = 5, .wait_ms = 10};
  struct pgcursus_batch batch;
  assert_int_equal(pgcursus_consume(session->client, &fetch, &batch), PGCURSUS_OK);
  assert_bytes(batch.topic, "orders");
  assert_int_equal(batch.partition, 1);
  assert_int_equal(batch.record_count, 2);
  assert_int_equal(batch.records[1].offset, 7);
  assert_bytes(batch.records[1].payload, "seven");
  assert_bytes(batch.records[1].key, "k");
  assert_bytes(batch.records[1].transaction_state, "committed");
  assert_int_equal(pgcursus_consume(session->client, &fetch, &batch), PGCURSUS_BROKEN);
  buffer_release(&payload);
}

/* commands-1 4.5 */
static void keys_are_placed_as_the_broker_places_them(void **state) {
  (void)state;
  assert_int_equal(pgcursus_partition_of_key(pgcursus_text("a"), 3), 1);
  assert_int_equal(pgcursus_partition_of_key(pgcursus_text("user-1"), 3), 2);
  assert_int_equal(pgcursus_partition_of_key(pgcursus_text("order-123"), 4), 2);
  assert_int_equal(pgcursus_partition_of_key(pgcursus_text("foobar"), 4), 0);
  assert_int_equal(pgcursus_partition_of_key(pgcursus_text("na\xc3\xafve"), 4), 3);
  assert_int_equal(pgcursus_partition_of_key(pgcursus_text("anything"), 1), 0);
}

static void fields_of_an_ok_line_are_found(void **state) {
  (void)state;
  struct pgcursus_bytes text =
      pgcursus_text("OK topic=a partitions=4 read_acl= xpartitions=9 last=1");
  assert_bytes(pgcursus_ok_field(text, "partitions"), "4");
  assert_bytes(pgcursus_ok_field(text, "last"), "1");
  assert_int_equal(pgcursus_ok_field(text, "read_acl").length, 0);
  assert_int_equal(pgcursus_ok_field(text, "absent").length, 0);
  assert_int_equal(pgcursus_ok_field(pgcursus_text(""), "absent").length, 0);
}

#define SESSION_TEST(name) cmocka_unit_test_setup_teardown(name, open_session, close_session)

int main(void) {
  const struct CMUnitTest tests[] = {
      SESSION_TEST(a_record_is_published_with_its_fields),
      SESSION_TEST(acks_0_is_not_answered),
      SESSION_TEST(a_batch_is_published_whole),
      SESSION_TEST(an_answer_that_is_no_acknowledgement_breaks),
      SESSION_TEST(too_many_records_are_not_sent),
      SESSION_TEST(consume_gives_the_records),
      cmocka_unit_test(keys_are_placed_as_the_broker_places_them),
      cmocka_unit_test(fields_of_an_ok_line_are_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
