/* Every golden vector of the CRS2 wire protocol: what is valid decodes to what the file says and
 * encodes back, what is invalid is refused, and nothing valid survives the loss of its last bytes.
 */
#include <stdio.h>

#include "base/crc32c.h"
#include "crs2/wire/error.h"
#include "crs2/wire/frame.h"
#include "crs2/wire/negotiate.h"
#include "crs2/wire/request.h"
#include "unit.h"
#include "vectors.h"

struct fixture {
  struct arena arena;
  struct buffer out;
};

static int set_up(void **state) {
  *state = calloc(1, sizeof(struct fixture));
  vectors_open();
  return *state ? 0 : -1;
}

static int tear_down(void **state) {
  struct fixture *fixture = *state;
  arena_release(&fixture->arena);
  buffer_release(&fixture->out);
  free(fixture);
  return 0;
}

/* Calls `check` for each item of a list of the file. */
static void for_each(const char *list, struct fixture *fixture,
                     void (*check)(struct fixture *fixture, struct json_object *item)) {
  struct json_object *items = vectors_list(list);
  for (size_t i = 0; i < json_object_array_length(items); i++) {
    fixture->out.length = 0;
    check(fixture, json_object_array_get_idx(items, i));
    arena_release(&fixture->arena);
  }
}

/* ---- one decoder for each layer, in one shape ---- */

static const char *decode_frame(struct slice bytes, enum compression compression,
                                struct arena *arena, struct frame_header *header,
                                struct slice *payload) {
  struct buffer storage = {0};
  if (bytes.length < FRAME_HEADER_SIZE) return "short";
  const char *refusal = frame_decode_header(bytes.data, compression, NUMBERING_STANDARD, header);
  if (!refusal)
    refusal = frame_decode_payload(
        header, slice_of(bytes.data + FRAME_HEADER_SIZE, bytes.length - FRAME_HEADER_SIZE),
        &storage, payload);
  if (!refusal) *payload = slice_of(arena_copy_text(arena, *payload), payload->length);
  buffer_release(&storage);
  return refusal;
}

static const char *refuse_frame(struct slice bytes, enum compression compression,
                                struct arena *arena) {
  struct frame_header header;
  struct slice payload;
  return decode_frame(bytes, compression, arena, &header, &payload);
}

static const char *refuse_negotiation_request(struct slice bytes, enum compression unused,
                                              struct arena *arena) {
  (void)unused, (void)arena;
  struct negotiation_request request;
  enum compression selected;
  const char *refusal = negotiation_decode_request(bytes, &request);
  return refusal ? refusal : negotiation_select(&request, &selected);
}

static const char *refuse_negotiation_response(struct slice bytes, enum compression unused,
                                               struct arena *arena) {
  (void)unused, (void)arena;
  enum compression selected;
  return negotiation_decode_response(bytes, &selected);
}

static const char *refuse_command(struct slice bytes, enum compression unused,
                                  struct arena *arena) {
  (void)unused;
  struct request_fields request;
  return request_decode(bytes, arena, &request);
}

static const char *refuse_record(struct slice bytes, enum compression unused, struct arena *arena) {
  (void)unused, (void)arena;
  struct record record;
  struct slice topic;
  int32_t partition;
  return record_decode(bytes, &record, &topic, &partition);
}

static const char *refuse_batch(struct slice bytes, enum compression unused, struct arena *arena) {
  (void)unused;
  struct batch batch;
  return batch_decode(bytes, arena, &batch);
}

static const char *refuse_error(struct slice bytes, enum compression unused, struct arena *arena) {
  (void)unused;
  struct wire_error error;
  return error_decode(bytes, arena, &error);
}

typedef const char *(*refuse_function)(struct slice bytes, enum compression compression,
                                       struct arena *arena);

static const struct layer {
  const char *name;
  refuse_function refuse;
} layers[] = {
    {"frame", refuse_frame},
    {"negotiation_request", refuse_negotiation_request},
    {"negotiation_response", refuse_negotiation_response},
    {"command", refuse_command},
    {"record", refuse_record},
    {"batch", refuse_batch},
    {"error", refuse_error},
};
#define LAYER_COUNT (sizeof layers / sizeof *layers)

static size_t layer_of(struct json_object *item) {
  for (size_t i = 0; i < LAYER_COUNT; i++)
    if (slice_equals_text(vectors_text(item, "layer"), layers[i].name)) return i;
  fail_msg("unknown layer %s", json_object_get_string(vectors_member(item, "layer")));
  return 0;
}

/* No valid encoding is a prefix of another one. A copy of the exact size lets the sanitizer see a
 * read past the end. */
static void check_truncations(const char *name, struct slice valid, enum compression compression,
                              refuse_function refuse) {
  for (size_t length = 0; length < valid.length; length++) {
    struct arena arena = {0};
    uint8_t *copy = malloc(length ? length : 1);
    memcpy(copy, valid.data, length);
    if (!refuse(slice_of(copy, length), compression, &arena))
      fail_msg("%s: accepted when cut to %zu bytes", name, length);
    free(copy);
    arena_release(&arena);
  }
}

/* ---- the lists of the file ---- */

static void check_crc32c(struct fixture *fixture, struct json_object *item) {
  uint32_t want =
      (uint32_t)strtoul(json_object_get_string(vectors_member(item, "crc32c")), NULL, 16);
  CHECK(vectors_name(item), crc32c(vectors_hex(item, "hex", &fixture->arena)) == want);
}

static void crc32c_vectors(void **state) {
  for_each("crc32c", *state, check_crc32c);
}

static void check_negotiation(struct fixture *fixture, struct json_object *item) {
  const char *name = vectors_name(item);
  struct slice bytes = vectors_hex(item, "hex", &fixture->arena);
  struct json_object *want = vectors_member(item, "request");
  struct json_object *ids = vectors_member(want, "compressions");
  struct negotiation_request request;
  enum compression selected;
  CHECK(name, negotiation_decode_request(bytes, &request) == NULL);
  CHECK(name, request.minimum_version == vectors_number(want, "minimum"));
  CHECK(name, request.maximum_version == vectors_number(want, "maximum"));
  CHECK(name, request.compression_count == json_object_array_length(ids));
  for (size_t i = 0; i < request.compression_count; i++)
    CHECK(name,
          (int)request.compressions[i] == json_object_get_int(json_object_array_get_idx(ids, i)));
  CHECK(name, negotiation_select(&request, &selected) == NULL);
  CHECK(name, selected == vectors_number(item, "selected"));
  negotiation_encode_request(&request, &fixture->out);
  CHECK(name, slice_equals(buffer_slice(&fixture->out), bytes));
  check_truncations(name, bytes, COMPRESSION_NONE, refuse_negotiation_request);
}

static void negotiation_vectors(void **state) {
  for_each("negotiation", *state, check_negotiation);
}

static void check_header(const char *name, struct json_object *want,
                         const struct frame_header *header) {
  uint32_t crc =
      (uint32_t)strtoul(json_object_get_string(vectors_member(want, "crc32c")), NULL, 16);
  CHECK(name, header->kind == vectors_number(want, "kind"));
  CHECK(name, header->command == vectors_number(want, "command"));
  CHECK(name, header->status == vectors_number(want, "status"));
  CHECK(name, header->request_id == vectors_number(want, "request_id"));
  CHECK(name, header->encoded_length == vectors_number(want, "encoded_length"));
  CHECK(name, header->decoded_length == vectors_number(want, "decoded_length"));
  CHECK(name, header->crc32c == crc);
}

/* Both ways of making a frame give the same; where the compressor may differ, it must decode back.
 */
static void check_frame_encoding(struct fixture *fixture, const char *name, struct slice bytes,
                                 const struct frame_header *header, struct slice payload,
                                 enum compression compression, bool exact) {
  struct buffer finished = {0};
  CHECK(name, frame_encode(&fixture->out, header, payload) == NULL);
  size_t start = frame_begin(&finished);
  buffer_append_slice(&finished, payload);
  CHECK(name, frame_finish(&finished, start, header) == NULL);
  CHECK(name, slice_equals(buffer_slice(&finished), buffer_slice(&fixture->out)));
  if (exact) CHECK(name, slice_equals(buffer_slice(&fixture->out), bytes));
  struct frame_header again;
  struct slice decoded;
  CHECK(name, decode_frame(buffer_slice(&fixture->out), compression, &fixture->arena, &again,
                           &decoded) == NULL);
  CHECK(name, slice_equals(decoded, payload));
  buffer_release(&finished);
}

static void check_frame(struct fixture *fixture, struct json_object *item) {
  const char *name = vectors_name(item);
  struct slice bytes = vectors_hex(item, "hex", &fixture->arena), payload;
  struct json_object *want = vectors_member(item, "frame");
  enum compression compression = (enum compression)vectors_number(item, "compression");
  struct frame_header header;
  CHECK(name, decode_frame(bytes, compression, &fixture->arena, &header, &payload) == NULL);
  check_header(name, want, &header);
  CHECK(name, bytes.data[7] == vectors_number(want, "flags"));
  CHECK(name, slice_equals(payload, vectors_hex(want, "payload_hex", &fixture->arena)));
  check_frame_encoding(fixture, name, bytes, &header, payload, compression,
                       json_object_get_boolean(vectors_member(item, "exact")));
  check_truncations(name, bytes, compression, refuse_frame);
}

static void frame_vectors(void **state) {
  for_each("frames", *state, check_frame);
}

static enum compression compression_named(struct slice name) {
  for (unsigned id = 0; id < COMPRESSION_COUNT; id++)
    if (slice_equals_text(name, compression_name((enum compression)id)))
      return (enum compression)id;
  fail_msg("unknown compression");
  return COMPRESSION_NONE;
}

static void check_compression(struct fixture *fixture, struct json_object *item) {
  const char *name = vectors_name(item);
  enum compression id = compression_named(vectors_text(item, "algorithm"));
  struct slice encoded = vectors_hex(item, "encoded_hex", &fixture->arena);
  struct slice plain = vectors_hex(item, "decoded_hex", &fixture->arena);
  uint32_t length = (uint32_t)plain.length;
  struct buffer again = {0};
  CHECK(name, compress_decode(id, encoded, length, &fixture->out) == NULL);
  CHECK(name, slice_equals(buffer_slice(&fixture->out), plain));
  CHECK(name, compress_decode(id, encoded, length + 1, &fixture->out) != NULL);
  CHECK(name, length == 0 || compress_decode(id, encoded, length - 1, &fixture->out) != NULL);
  CHECK(name, fixture->out.length == plain.length);
  fixture->out.length = 0;
  CHECK(name, compress_encode(id, plain, &again) == NULL);
  CHECK(name, compress_decode(id, buffer_slice(&again), length, &fixture->out) == NULL);
  CHECK(name, slice_equals(buffer_slice(&fixture->out), plain));
  buffer_release(&again);
}

static void compression_vectors(void **state) {
  for_each("compression", *state, check_compression);
}

static void check_arguments(const char *name, struct json_object *item,
                            const struct request_fields *request) {
  struct json_object *positionals = vectors_member(item, "positionals");
  struct json_object *fields = vectors_member(item, "fields");
  CHECK(name, request->positional_count == json_object_array_length(positionals));
  CHECK(name, request->field_count == json_object_array_length(fields));
  for (size_t i = 0; i < request->positional_count; i++)
    CHECK(name, slice_equals(request->positionals[i],
                             vectors_string(json_object_array_get_idx(positionals, i))));
  for (size_t i = 0; i < request->field_count; i++) {
    struct json_object *pair = json_object_array_get_idx(fields, i);
    struct slice value = vectors_string(json_object_array_get_idx(pair, 1));
    CHECK(name, slice_equals(request->fields[i].name,
                             vectors_string(json_object_array_get_idx(pair, 0))));
    CHECK(name, slice_equals(request->fields[i].value, value));
  }
}

static void check_line(struct fixture *fixture, const char *name, struct slice line,
                       struct slice command, struct request_fields *request) {
  struct slice word;
  CHECK(name, request_parse_line(line, &fixture->arena, &word, request) == NULL);
  CHECK(name, command_by_name(word) != 0 && command_by_name(word) == command_by_name(command));
}

static void check_command(struct fixture *fixture, struct json_object *item) {
  const char *name = vectors_name(item);
  struct slice bytes = vectors_hex(item, "hex", &fixture->arena);
  struct request_fields request;
  CHECK(name, request_decode(bytes, &fixture->arena, &request) == NULL);
  check_arguments(name, item, &request);
  CHECK(name, request_encode(&request, &fixture->out) == NULL);
  CHECK(name, slice_equals(buffer_slice(&fixture->out), bytes));
  if (json_object_object_get_ex(item, "text", NULL)) {
    check_line(fixture, name, vectors_text(item, "text"), vectors_text(item, "command"), &request);
    check_arguments(name, item, &request);
  }
  check_truncations(name, bytes, COMPRESSION_NONE, refuse_command);
}

static void command_vectors(void **state) {
  for_each("commands", *state, check_command);
}

static void check_batch(struct fixture *fixture, struct json_object *item) {
  const char *name = vectors_name(item);
  struct slice bytes = vectors_hex(item, "hex", &fixture->arena);
  struct json_object *want = vectors_member(item, "batch");
  struct batch batch;
  CHECK(name, batch_is_batch(bytes));
  CHECK(name, batch_decode(bytes, &fixture->arena, &batch) == NULL);
  vectors_check_batch(name, want, &batch);
  CHECK(name, batch_encode(&batch, &fixture->out) == NULL);
  bool canonical = json_object_get_boolean(vectors_member(item, "canonical"));
  CHECK(name, slice_equals(buffer_slice(&fixture->out), bytes) == canonical);
  /* From the values alone, too: presence is derived, never copied. */
  struct batch built;
  vectors_build_batch(want, &fixture->arena, &built);
  for (uint32_t i = 0; i < built.record_count; i++) built.records[i].presence = 0;
  fixture->out.length = 0;
  CHECK(name, batch_encode(&built, &fixture->out) == NULL);
  CHECK(name, slice_equals(buffer_slice(&fixture->out), bytes) == canonical);
  check_truncations(name, bytes, COMPRESSION_NONE, refuse_batch);
}

static void batch_vectors(void **state) {
  for_each("batches", *state, check_batch);
}

static void check_error_members(const char *name, struct json_object *want,
                                const struct wire_error *error) {
  struct json_object *fields = vectors_member(want, "fields");
  CHECK(name, slice_equals(error->code, vectors_text(want, "code")));
  CHECK(name, slice_equals_text(vectors_text(want, "class"), error_class_name(error->error_class)));
  CHECK(name, error->retryable == json_object_get_boolean(vectors_member(want, "retryable")));
  CHECK(name, slice_equals(error->message, vectors_text(want, "message")));
  CHECK(name, error->field_count == json_object_object_length(fields));
  for (unsigned i = 0; i < error->field_count; i++) {
    char key[64];
    snprintf(key, sizeof key, "%.*s", (int)error->fields[i].name.length,
             (const char *)error->fields[i].name.data);
    CHECK(name, slice_equals(error->fields[i].value, vectors_text(fields, key)));
  }
}

static void check_error(struct fixture *fixture, struct json_object *item) {
  const char *name = vectors_name(item);
  struct slice bytes = vectors_hex(item, "hex", &fixture->arena);
  struct wire_error error;
  CHECK(name, error_decode(bytes, &fixture->arena, &error) == NULL);
  check_error_members(name, vectors_member(item, "error"), &error);
  CHECK(name, error_encode(&error, &fixture->out) == NULL);
  CHECK(name, slice_equals(buffer_slice(&fixture->out), bytes));
  fixture->out.length = 0;
  error_render(&error, &fixture->out);
  CHECK(name, slice_equals(buffer_slice(&fixture->out), vectors_text(item, "text")));
  check_truncations(name, bytes, COMPRESSION_NONE, refuse_error);
}

static void error_vectors(void **state) {
  for_each("errors", *state, check_error);
}

/* Cutting the last byte off an input that is wrong because of that byte makes it right. */
static bool is_right_without_its_last_byte(struct slice reason, struct slice name) {
  return slice_equals_text(reason, "trailing_bytes") ||
         slice_equals_text(name, "negotiation_response_long");
}

static void invalid_vectors(void **state) {
  struct fixture *fixture = *state;
  struct json_object *items = vectors_list("invalid");
  size_t seen[LAYER_COUNT] = {0};
  for (size_t i = 0; i < json_object_array_length(items); i++) {
    struct json_object *item = json_object_array_get_idx(items, i);
    const char *name = vectors_name(item);
    size_t layer = layer_of(item);
    struct slice bytes = vectors_hex(item, "hex", &fixture->arena);
    enum compression compression = COMPRESSION_NONE;
    if (json_object_object_get_ex(item, "compression", NULL))
      compression = (enum compression)vectors_number(item, "compression");
    seen[layer]++;
    CHECK(name, layers[layer].refuse(bytes, compression, &fixture->arena) != NULL);
    struct slice shorter = slice_of(bytes.data, bytes.length ? bytes.length - 1 : 0);
    if (!is_right_without_its_last_byte(vectors_text(item, "reason"), slice_text(name)))
      CHECK(name, layers[layer].refuse(shorter, compression, &fixture->arena) != NULL);
    arena_release(&fixture->arena);
  }
  for (size_t i = 0; i < LAYER_COUNT; i++) CHECK(layers[i].name, seen[i] > 0);
}

/* ---- the reference's own fixture ---- */

static void check_fixture_frame(struct fixture *fixture, struct json_object *item,
                                struct json_object *want) {
  const char *name = vectors_name(item);
  struct slice bytes = vectors_hex(item, "hex", &fixture->arena), payload;
  struct slice wanted = vectors_hex(want, "payload_hex", &fixture->arena);
  enum compression compression = (enum compression)vectors_number(want, "compression");
  struct frame_header header;
  CHECK(name, decode_frame(bytes, compression, &fixture->arena, &header, &payload) == NULL);
  CHECK(name, header.kind == FRAME_REQUEST && header.command == COMMAND_PUBLISH);
  CHECK(name, header.request_id == vectors_number(want, "request_id"));
  CHECK(name, slice_equals(payload, wanted));
  /* `exact` says what one encoder gave; another compressor may choose other bytes. */
  bool exact = compression == COMPRESSION_NONE;
  check_frame_encoding(fixture, name, bytes, &header, payload, compression, exact);
}

static void check_fixture_command(struct fixture *fixture, struct json_object *item,
                                  struct json_object *want) {
  const char *name = vectors_name(item);
  struct request_fields request;
  check_line(fixture, name, vectors_text(want, "text"), vectors_text(want, "command"), &request);
  CHECK(name, request_encode(&request, &fixture->out) == NULL);
  CHECK(name, slice_equals(buffer_slice(&fixture->out), vectors_hex(item, "hex", &fixture->arena)));
}

/* The fixture's record is version 3 without anything that needs it; we send version 2 (ruling D1),
 * which must give the bytes of the version 2 fixture. */
static void check_fixture_batch(struct fixture *fixture, struct json_object *item,
                                struct json_object *want) {
  const char *name = vectors_name(item);
  struct json_object *old = vectors_member(vectors_open(), "public_fixture_record_v2");
  struct slice version_2 = vectors_hex(old, "hex", &fixture->arena);
  struct slice both[] = {vectors_hex(item, "hex", &fixture->arena), version_2};
  for (size_t i = 0; i < 2; i++) {
    struct batch batch;
    fixture->out.length = 0;
    CHECK(name, batch_decode(both[i], &fixture->arena, &batch) == NULL);
    vectors_check_batch(name, vectors_member(want, "batch"), &batch);
    CHECK(name, batch_encode(&batch, &fixture->out) == NULL);
    CHECK(name, slice_equals(buffer_slice(&fixture->out), version_2));
  }
}

static void check_fixture_error(struct fixture *fixture, struct json_object *item,
                                struct json_object *want) {
  const char *name = vectors_name(item);
  struct slice bytes = vectors_hex(item, "hex", &fixture->arena);
  struct wire_error error;
  CHECK(name, error_decode(bytes, &fixture->arena, &error) == NULL);
  check_error_members(name, vectors_member(want, "error"), &error);
  CHECK(name, error_encode(&error, &fixture->out) == NULL);
  CHECK(name, slice_equals(buffer_slice(&fixture->out), bytes));
}

static void check_fixture_negotiation(struct fixture *fixture, struct json_object *item,
                                      struct json_object *want) {
  const char *name = vectors_name(item);
  struct slice bytes = vectors_hex(item, "hex", &fixture->arena);
  if (json_object_object_get_ex(want, "compressions", NULL)) {
    struct json_object *ids = vectors_member(want, "compressions");
    struct negotiation_request request;
    CHECK(name, negotiation_decode_request(bytes, &request) == NULL);
    CHECK(name, request.compression_count == json_object_array_length(ids));
    for (size_t i = 0; i < request.compression_count; i++)
      CHECK(name,
            (int)request.compressions[i] == json_object_get_int(json_object_array_get_idx(ids, i)));
    negotiation_encode_request(&request, &fixture->out);
  } else {
    enum compression compression;
    CHECK(name, negotiation_decode_response(bytes, &compression) == NULL);
    CHECK(name, compression == vectors_number(want, "compression"));
    negotiation_encode_response(compression, &fixture->out);
  }
  CHECK(name, slice_equals(buffer_slice(&fixture->out), bytes));
}

static void public_fixture(void **state) {
  struct fixture *fixture = *state;
  struct json_object *items =
      vectors_member(vectors_member(vectors_open(), "public_fixture"), "vectors");
  struct json_object *decoded = vectors_member(vectors_open(), "public_fixture_decoded");
  assert_int_equal(json_object_array_length(items), json_object_object_length(decoded));
  for (size_t i = 0; i < json_object_array_length(items); i++) {
    struct json_object *item = json_object_array_get_idx(items, i);
    const char *name = vectors_name(item);
    struct json_object *want = vectors_member(decoded, name);
    fixture->out.length = 0;
    if (strncmp(name, "negotiation_", 12) == 0)
      check_fixture_negotiation(fixture, item, want);
    else if (strstr(name, "_publish_frame"))
      check_fixture_frame(fixture, item, want);
    else if (json_object_object_get_ex(want, "text", NULL))
      check_fixture_command(fixture, item, want);
    else if (json_object_object_get_ex(want, "batch", NULL))
      check_fixture_batch(fixture, item, want);
    else
      check_fixture_error(fixture, item, want);
    arena_release(&fixture->arena);
  }
}

static size_t check_command_ids(struct json_object *ids) {
  json_object_object_foreach(ids, name, id) {
    CHECK(name, command_by_name(slice_text(name)) == json_object_get_int(id));
    CHECK(name, strcmp(command_name((uint16_t)json_object_get_int(id)), name) == 0);
  }
  return (size_t)json_object_object_length(ids);
}

static void constants(void **state) {
  (void)state;
  struct json_object *all = vectors_member(vectors_open(), "constants");
  size_t known = check_command_ids(vectors_member(all, "command_ids")) +
                 check_command_ids(vectors_member(all, "newer_command_ids"));
  assert_int_equal(known, COMMAND_COUNT - 1);
  check_command_ids(
      vectors_member(vectors_member(vectors_open(), "public_fixture"), "command_ids"));
  assert_int_equal(vectors_number(all, "header_size"), FRAME_HEADER_SIZE);
  assert_int_equal(vectors_number(all, "max_payload"), FRAME_MAX_PAYLOAD);
  assert_int_equal(vectors_number(all, "max_records"), BATCH_MAX_RECORDS);
  assert_int_equal(vectors_number(all, "max_arguments"), REQUEST_MAX_ARGUMENTS);
  assert_int_equal(vectors_number(all, "max_error_fields"), ERROR_MAX_FIELDS);
  struct json_object *classes = vectors_member(all, "error_classes");
  assert_int_equal(json_object_object_length(classes), ERROR_INTERNAL);
  json_object_object_foreach(classes, name, number) {
    assert_string_equal(error_class_name((enum error_class)json_object_get_int(number)), name);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(constants),
      cmocka_unit_test_setup_teardown(crc32c_vectors, set_up, tear_down),
      cmocka_unit_test_setup_teardown(public_fixture, set_up, tear_down),
      cmocka_unit_test_setup_teardown(negotiation_vectors, set_up, tear_down),
      cmocka_unit_test_setup_teardown(frame_vectors, set_up, tear_down),
      cmocka_unit_test_setup_teardown(compression_vectors, set_up, tear_down),
      cmocka_unit_test_setup_teardown(command_vectors, set_up, tear_down),
      cmocka_unit_test_setup_teardown(batch_vectors, set_up, tear_down),
      cmocka_unit_test_setup_teardown(error_vectors, set_up, tear_down),
      cmocka_unit_test_setup_teardown(invalid_vectors, set_up, tear_down),
  };
  int failures = cmocka_run_group_tests(tests, NULL, NULL);
  vectors_close();
  return failures;
}
