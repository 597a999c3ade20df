/* The vectors file as slices and numbers; what is missing or malformed fails the running test. */
#include "vectors.h"

#include <stdio.h>

#include "unit.h"

static struct json_object *file;

struct json_object *vectors_open(void) {
  if (file) return file;
  const char *path = getenv("PGCURSUS_VECTORS");
  if (!path) path = "tests/vectors/crs2-wire-v2.json";
  file = json_object_from_file(path);
  if (!file) fail_msg("%s: %s", path, json_util_get_last_err());
  return file;
}

void vectors_close(void) {
  json_object_put(file);
  file = NULL;
}

struct json_object *vectors_member(struct json_object *owner, const char *key) {
  struct json_object *member = NULL;
  if (!json_object_object_get_ex(owner, key, &member)) fail_msg("no member %s", key);
  return member;
}

struct json_object *vectors_list(const char *key) {
  struct json_object *list = vectors_member(vectors_open(), key);
  CHECK(key, json_object_is_type(list, json_type_array));
  CHECK(key, json_object_array_length(list) > 0);
  return list;
}

struct slice vectors_string(struct json_object *text) {
  assert_true(json_object_is_type(text, json_type_string));
  return slice_of(json_object_get_string(text), (size_t)json_object_get_string_len(text));
}

struct slice vectors_text(struct json_object *owner, const char *key) {
  return vectors_string(vectors_member(owner, key));
}

static uint8_t hex_digit(char digit) {
  static const char digits[] = "0123456789abcdef";
  const char *place = strchr(digits, digit);
  if (!place || !digit) fail_msg("%c is not a hex digit", digit);
  return (uint8_t)(place - digits);
}

struct slice vectors_bytes(struct json_object *hex, struct arena *arena) {
  struct slice text = vectors_string(hex);
  uint8_t *bytes = arena_allocate(arena, text.length / 2);
  assert_int_equal(text.length % 2, 0);
  for (size_t i = 0; i < text.length / 2; i++) {
    uint8_t high = hex_digit((char)text.data[2 * i]), low = hex_digit((char)text.data[2 * i + 1]);
    bytes[i] = (uint8_t)(high << 4 | low);
  }
  return slice_of(bytes, text.length / 2);
}

struct slice vectors_hex(struct json_object *owner, const char *key, struct arena *arena) {
  return vectors_bytes(vectors_member(owner, key), arena);
}

uint64_t vectors_number(struct json_object *owner, const char *key) {
  struct json_object *number = vectors_member(owner, key);
  CHECK(key, json_object_is_type(number, json_type_int));
  int64_t value = json_object_get_int64(number);
  return value < 0 ? (uint64_t)value : json_object_get_uint64(number);
}

const char *vectors_name(struct json_object *item) {
  return json_object_get_string(vectors_member(item, "name"));
}

/* ---- batches ---- */

enum member_type { MEMBER_TEXT, MEMBER_HEX, MEMBER_I64, MEMBER_U64, MEMBER_U32, MEMBER_I16 };

#define MEMBER(key, type, field) \
  { key, type, offsetof(struct record, field) }
static const struct record_member {
  const char *key;
  enum member_type type;
  size_t offset;
} members[] = {
    MEMBER("offset", MEMBER_U64, offset),
    MEMBER("payload_hex", MEMBER_HEX, payload),
    MEMBER("timestamp", MEMBER_I64, timestamp),
    MEMBER("producer_id", MEMBER_TEXT, producer_id),
    MEMBER("seq_num", MEMBER_U64, sequence),
    MEMBER("epoch", MEMBER_I64, epoch),
    MEMBER("key", MEMBER_TEXT, key),
    MEMBER("event_type", MEMBER_TEXT, event_type),
    MEMBER("schema_version", MEMBER_U32, schema_version),
    MEMBER("aggregate_version", MEMBER_U64, aggregate_version),
    MEMBER("metadata", MEMBER_TEXT, metadata),
    MEMBER("transactional_id", MEMBER_TEXT, transactional_id),
    MEMBER("transaction_state", MEMBER_TEXT, transaction_state),
    MEMBER("transaction_marker", MEMBER_TEXT, transaction_marker),
    MEMBER("control_batch_type", MEMBER_TEXT, control_type),
    MEMBER("control_batch_version", MEMBER_I16, control_version),
    MEMBER("control_batch_coordinator_epoch", MEMBER_I64, control_epoch),
    MEMBER("control_batch_key_hex", MEMBER_HEX, control_key),
    MEMBER("control_batch_value_hex", MEMBER_HEX, control_value),
    MEMBER("event_id", MEMBER_TEXT, event_id),
    MEMBER("payload_digest", MEMBER_TEXT, payload_digest),
};
#define MEMBER_COUNT (sizeof members / sizeof *members)

static void set_member(const struct record_member *member, struct json_object *source,
                       struct arena *arena, struct record *record) {
  void *place = (char *)record + member->offset;
  switch (member->type) {
    case MEMBER_TEXT:
      *(struct slice *)place = vectors_text(source, member->key);
      break;
    case MEMBER_HEX:
      *(struct slice *)place = vectors_hex(source, member->key, arena);
      break;
    case MEMBER_I64:
      *(int64_t *)place = (int64_t)vectors_number(source, member->key);
      break;
    case MEMBER_U64:
      *(uint64_t *)place = vectors_number(source, member->key);
      break;
    case MEMBER_U32:
      *(uint32_t *)place = (uint32_t)vectors_number(source, member->key);
      break;
    case MEMBER_I16:
      *(int16_t *)place = (int16_t)vectors_number(source, member->key);
      break;
  }
}

static void build_record(struct json_object *source, struct arena *arena, struct record *record) {
  *record = (struct record){0};
  /* A member this table does not know would go unchecked. */
  size_t known = 0;
  for (size_t i = 0; i < MEMBER_COUNT; i++) {
    if (!json_object_object_get_ex(source, members[i].key, NULL)) continue;
    set_member(&members[i], source, arena, record);
    known++;
  }
  static const char *const routing[] = {"version", "presence", "topic", "partition"};
  for (size_t i = 0; i < sizeof routing / sizeof *routing; i++)
    known += json_object_object_get_ex(source, routing[i], NULL) ? 1 : 0;
  assert_int_equal(known, json_object_object_length(source));
  record->has_control_key = json_object_object_get_ex(source, "control_batch_key_hex", NULL);
  record->has_control_value = json_object_object_get_ex(source, "control_batch_value_hex", NULL);
  if (json_object_object_get_ex(source, "presence", NULL))
    record->presence = (uint32_t)vectors_number(source, "presence");
}

void vectors_build_batch(struct json_object *want, struct arena *arena, struct batch *batch) {
  struct json_object *records = vectors_member(want, "records");
  size_t count = json_object_array_length(records);
  *batch = (struct batch){
      .topic = vectors_text(want, "topic"),
      .partition = (int32_t)vectors_number(want, "partition"),
      .acks = vectors_text(want, "acks"),
      .idempotent = json_object_get_boolean(vectors_member(want, "idempotent")),
      .batch_start = vectors_number(want, "batch_start"),
      .batch_end = vectors_number(want, "batch_end"),
      .record_count = (uint32_t)count,
      .records = arena_allocate(arena, count * sizeof(struct record)),
  };
  for (size_t i = 0; i < count; i++)
    build_record(json_object_array_get_idx(records, i), arena, &batch->records[i]);
}

static bool member_equals(const struct record_member *member, const struct record *a,
                          const struct record *b) {
  const void *left = (const char *)a + member->offset, *right = (const char *)b + member->offset;
  switch (member->type) {
    case MEMBER_TEXT:
    case MEMBER_HEX:
      return slice_equals(*(const struct slice *)left, *(const struct slice *)right);
    case MEMBER_I64:
    case MEMBER_U64:
      return memcmp(left, right, sizeof(uint64_t)) == 0;
    case MEMBER_U32:
      return memcmp(left, right, sizeof(uint32_t)) == 0;
    case MEMBER_I16:
      return memcmp(left, right, sizeof(int16_t)) == 0;
  }
  return false;
}

static void check_record(const char *name, struct json_object *source, const struct record *want,
                         const struct record *got) {
  for (size_t i = 0; i < MEMBER_COUNT; i++)
    if (!member_equals(&members[i], want, got)) fail_msg("%s: %s differs", name, members[i].key);
  CHECK(name, want->has_control_key == got->has_control_key);
  CHECK(name, want->has_control_value == got->has_control_value);
  if (json_object_object_get_ex(source, "presence", NULL))
    CHECK(name, want->presence == got->presence);
}

void vectors_check_batch(const char *name, struct json_object *source, const struct batch *got) {
  struct arena arena = {0};
  struct batch want;
  vectors_build_batch(source, &arena, &want);
  CHECK(name, slice_equals(want.topic, got->topic));
  CHECK(name, want.partition == got->partition);
  CHECK(name, slice_equals(want.acks, got->acks));
  CHECK(name, want.idempotent == got->idempotent);
  CHECK(name, want.batch_start == got->batch_start);
  CHECK(name, want.batch_end == got->batch_end);
  CHECK(name, want.record_count == got->record_count);
  struct json_object *records = vectors_member(source, "records");
  for (uint32_t i = 0; i < want.record_count; i++)
    check_record(name, json_object_array_get_idx(records, i), &want.records[i], &got->records[i]);
  arena_release(&arena);
}
