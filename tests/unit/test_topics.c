/* Topic definitions as a node knows them: when they are trusted, when forgotten, and who may do
 * what. */
#include "log/topics.h"

#include <ev.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "db_fixture.h"
#include "unit.h"

struct loading {
  struct topic_load load; /* first */
  unsigned answers;
  enum control_status status;
  int64_t revision; /* -1: no topic */
};

static struct control *control;
static struct topics *topics;

static int open_topics(void **state) {
  (void)state;
  db_fixture_begin();
  control = control_open(&(struct control_options){.database = &database, .connections = 2});
  topics = topics_create(&(struct topics_options){.loop = loop, .control = control});
  db_fixture_connect();
  return 0;
}

static int close_topics(void **state) {
  (void)state;
  control_close(control);
  topics_free(topics);
  topics_free(NULL);
  db_fixture_end();
  return 0;
}

static struct topic *make(const char *name, int64_t log_id, int64_t revision) {
  struct topic *topic = memory_allocate_zeroed(1, sizeof *topic);
  topic->references = 1;
  topic->name = memory_copy_text(name);
  topic->log_id = log_id;
  topic->revision = revision;
  topic->partition_count = 3;
  return topic;
}

static void put(const char *name, int64_t log_id, int64_t revision) {
  struct topic *topic = make(name, log_id, revision);
  topics_put(topics, topic);
  topic_release(topic);
}

/* The revision known, or -1. */
static int64_t known(const char *name) {
  struct topic *topic = topics_find(topics, slice_text(name));
  return topic ? topic->revision : -1;
}

/* ---- trust ---- */

static void what_was_put_is_found_while_the_node_listens(void **state) {
  (void)state;
  topics_set_listening(topics, true);
  assert_int_equal(known("t"), -1);
  assert_int_equal(known(""), -1);
  put("t", 1, 5);
  put("u", 2, 6);
  assert_int_equal(known("t"), 5);
  assert_int_equal(known("u"), 6);
  assert_int_equal(known("tt"), -1);
}

static void without_listening_a_definition_is_trusted_for_a_second(void **state) {
  (void)state;
  put("t", 1, 5);
  assert_int_equal(known("t"), 5);
  ev_sleep(1.05);
  assert_int_equal(known("t"), -1);
  put("t", 1, 5);
  assert_int_equal(known("t"), 5);
}

static void a_change_of_listening_forgets_all(void **state) {
  (void)state;
  for (unsigned i = 0; i < 4; i++) {
    put("t", 1, 5);
    topics_set_listening(topics, i % 2 == 0);
    assert_int_equal(known("t"), -1);
  }
}

static void what_is_announced_is_forgotten(void **state) {
  (void)state;
  topics_set_listening(topics, true);
  put("t", 1, 5);
  put("u", 2, 6);
  topics_forget(topics, slice_text("t"));
  topics_forget(topics, slice_text("nobody"));
  topics_forget(topics, slice_text(""));
  assert_int_equal(known("t"), -1);
  assert_int_equal(known("u"), 6);
  topics_forget_all(topics);
  assert_int_equal(known("u"), -1);
}

static void an_older_definition_does_not_replace_a_newer_one(void **state) {
  (void)state;
  topics_set_listening(topics, true);
  put("t", 1, 5);
  put("t", 1, 4);
  assert_int_equal(known("t"), 5);
  put("t", 1, 6);
  assert_int_equal(known("t"), 6);
  put("t", 2, 1); /* created anew: another log */
  assert_int_equal(known("t"), 1);
}

static void a_retained_definition_outlives_the_cache(void **state) {
  (void)state;
  put("t", 1, 5);
  struct topic *topic = topic_retain(topics_find(topics, slice_text("t")));
  topics_forget_all(topics);
  assert_string_equal(topic->name, "t");
  topic_release(topic);
  topic_release(NULL);
}

/* ---- turns ---- */

static void partitions_come_in_turn_and_go_on_after_a_change(void **state) {
  (void)state;
  put("t", 1, 5);
  struct topic *topic = topic_retain(topics_find(topics, slice_text("t")));
  for (int32_t i = 0; i < 4; i++) assert_int_equal(topics_next_partition(topics, topic), i % 3);
  topics_forget(topics, slice_text("t"));
  put("t", 1, 6);
  assert_int_equal(topics_next_partition(topics, topic), 1);
  topic_release(topic);
}

static void partitions_come_in_turn_also_for_a_topic_that_was_not_cached(void **state) {
  (void)state;
  struct topic *topic = make("t", 1, 5);
  for (int32_t i = 0; i < 4; i++) assert_int_equal(topics_next_partition(topics, topic), i % 3);
  assert_int_equal(known("t"), -1);
  topic_release(topic);
}

/* ---- loading ---- */

static void on_loaded(struct topic_load *load, enum control_status status, struct topic *topic,
                      const char *reason) {
  struct loading *loading = (struct loading *)load;
  assert_non_null(reason);
  loading->answers++;
  loading->status = status;
  loading->revision = topic ? topic->revision : -1;
}

static void load(struct loading *loading) {
  *loading = (struct loading){0};
  loading->load.on_done = on_loaded;
  loading->load.call.deadline_us = clock_monotonic_us() + 60000000;
  topics_load(topics, &loading->load, slice_text("t"));
  assert_int_equal(loading->answers, 0);
  ev_run(loop, EVRUN_NOWAIT);
}

static PGresult *definition(int64_t revision) {
  PGresult *rows = db_fixture_result(TOPIC_COLUMN_COUNT);
  db_fixture_set_bytes(rows, 0, TOPIC_NAME, slice_text("t"));
  db_fixture_set_int8(rows, 0, TOPIC_LOG_ID, 9);
  db_fixture_set_int4(rows, 0, TOPIC_PARTITION_COUNT, 4);
  db_fixture_set_bool(rows, 0, TOPIC_IDEMPOTENT, true);
  db_fixture_set_bytes(rows, 0, TOPIC_PARTITIONER, slice_text("hash_key"));
  db_fixture_set_bytes(rows, 0, TOPIC_AUTH_POLICY, slice_text("acl"));
  db_fixture_set_bytes(rows, 0, TOPIC_READ_ACL, slice_text("alice,bob"));
  db_fixture_set_int8(rows, 0, TOPIC_RETENTION_BYTES, 77);
  db_fixture_set_int8(rows, 0, TOPIC_REVISION, revision);
  db_fixture_set_int8(rows, 0, TOPIC_LIFECYCLE_EPOCH, 2);
  return rows;
}

static void answer(unsigned connection, PGresult *rows) {
  db_fixture_commit(db_fixture[connection], &rows, 1);
}

static void a_definition_that_was_read_is_cached(void **state) {
  (void)state;
  struct loading loading;
  load(&loading);
  assert_slice_text(db_fixture_bytes(&db_fixture[0]->sent[0], 0, 0), "t");
  answer(0, definition(3));
  assert_int_equal(loading.answers, 1);
  assert_int_equal(loading.status, CONTROL_OK);
  assert_int_equal(loading.revision, 3);
  struct topic *topic = topics_find(topics, slice_text("t"));
  assert_non_null(topic);
  assert_int_equal(topic->log_id, 9);
  assert_int_equal(topic->partition_count, 4);
  assert_true(topic->idempotent);
  assert_true(topic->places_by_key);
  assert_false(topic->aggregate_replay);
  assert_int_equal(topic->min_in_sync_replicas, 0);
  assert_int_equal(topic->retention_bytes, 77);
  assert_int_equal(topic->lifecycle_epoch, 2);
  assert_string_equal(topic->read_acl, "alice,bob");
  assert_string_equal(topic->write_acl, "");
}

static void a_change_during_the_load_keeps_what_was_read_out_of_the_cache(void **state) {
  (void)state;
  struct loading loading;
  topics_set_listening(topics, true);
  load(&loading);
  topics_forget(topics, slice_text("t"));
  answer(0, definition(3));
  assert_int_equal(loading.revision, 3); /* the caller may use it: the append function decides */
  assert_int_equal(known("t"), -1);
  load(&loading);
  topics_set_listening(topics, false);
  answer(0, definition(3));
  assert_int_equal(known("t"), -1);
  load(&loading);
  answer(0, definition(4));
  assert_int_equal(known("t"), 4);
}

static void a_topic_that_is_gone_leaves_nothing_behind(void **state) {
  (void)state;
  struct loading loading;
  put("t", 1, 5);
  load(&loading);
  answer(0, db_fixture_result(TOPIC_COLUMN_COUNT));
  assert_int_equal(loading.status, CONTROL_OK);
  assert_int_equal(loading.revision, -1);
  assert_int_equal(known("t"), -1);
}

static void a_failed_load_changes_nothing(void **state) {
  (void)state;
  struct loading loading;
  put("t", 1, 5);
  load(&loading);
  db_fixture_refuse(db_fixture[0], 0, "53300", "too many", "");
  assert_int_equal(loading.answers, 1);
  assert_int_equal(loading.status, CONTROL_UNAVAILABLE);
  assert_int_equal(known("t"), 5);
}

/* ---- policy (commands-1 1.6) ---- */

struct policy_case {
  const char *policy, *acl, *principal;
  bool reads, writes;
};

static void the_policy_decides_who_may_read_and_write(void **state) {
  (void)state;
  static const struct policy_case cases[] = {
      {"open", "", NULL, true, true},
      {"open", "alice", "bob", true, true}, /* lists are without effect unless the policy is acl */
      {"deny_write", "", NULL, true, false},
      {"deny_write", "*", "alice", true, false},
      {"deny_read", "", NULL, false, true},
      {"deny_read", "*", "alice", false, true},
      {"acl", "", NULL, false, false},
      {"acl", "*", NULL, false, false}, /* any authenticated one, not anyone */
      {"acl", "", "alice", false, false},
      {"acl", "*", "alice", true, true},
      {"acl", "alice", "alice", true, true},
      {"acl", "bob,alice", "alice", true, true},
      {"acl", "alice,bob", "alice", true, true},
      {"acl", "bob,*", "alice", true, true},
      {"acl", "Alice", "alice", false, false},
      {"acl", "alic", "alice", false, false},
      {"acl", "alicex", "alice", false, false},
      {"acl", "bob,alicex,al", "alice", false, false},
      {"acl", "**", "alice", false, false},
      {"", "", "alice", false, false}, /* an unknown policy admits nobody */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct policy_case *c = &cases[i];
    CHECK(c->acl,
          topic_policy_allows(c->policy, c->acl, TOPIC_READ_ACCESS, c->principal) == c->reads);
    CHECK(c->acl,
          topic_policy_allows(c->policy, c->acl, TOPIC_WRITE_ACCESS, c->principal) == c->writes);
  }
}

static void each_operation_has_its_own_list(void **state) {
  (void)state;
  struct topic *topic = make("t", 1, 1);
  topic->auth_policy = memory_copy_text("acl");
  topic->read_acl = memory_copy_text("reader");
  topic->write_acl = memory_copy_text("writer");
  assert_true(topic_allows(topic, TOPIC_READ_ACCESS, "reader"));
  assert_false(topic_allows(topic, TOPIC_WRITE_ACCESS, "reader"));
  assert_false(topic_allows(topic, TOPIC_READ_ACCESS, "writer"));
  assert_true(topic_allows(topic, TOPIC_WRITE_ACCESS, "writer"));
  topic_release(topic);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_topics, close_topics)

int main(void) {
  log_set_level(LOG_ERROR + 1);
  const struct CMUnitTest tests[] = {
      TEST(what_was_put_is_found_while_the_node_listens),
      TEST(without_listening_a_definition_is_trusted_for_a_second),
      TEST(a_change_of_listening_forgets_all),
      TEST(what_is_announced_is_forgotten),
      TEST(an_older_definition_does_not_replace_a_newer_one),
      TEST(a_retained_definition_outlives_the_cache),
      TEST(partitions_come_in_turn_and_go_on_after_a_change),
      TEST(partitions_come_in_turn_also_for_a_topic_that_was_not_cached),
      TEST(a_definition_that_was_read_is_cached),
      TEST(a_change_during_the_load_keeps_what_was_read_out_of_the_cache),
      TEST(a_topic_that_is_gone_leaves_nothing_behind),
      TEST(a_failed_load_changes_nothing),
      TEST(the_policy_decides_who_may_read_and_write),
      TEST(each_operation_has_its_own_list),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
