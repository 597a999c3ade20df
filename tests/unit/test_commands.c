/* The command table against the protocol: every command has its row, and HELP its order. */
#include "crs2/commands.h"

#include "base/buffer.h"
#include "config/config.h"
#include "crs2/wire/command_id.h"
#include "unit.h"

static void every_command_but_the_negotiation_has_one_row(void **state) {
  (void)state;
  for (uint16_t id = 0; id < COMMAND_COUNT; id++) {
    const struct command *command = command_find(id);
    if (id == 0 || id == COMMAND_NEGOTIATE) {
      assert_null(command);
      continue;
    }
    CHECK(command_name(id), command != NULL);
    CHECK(command_name(id), command->id == id);
    assert_string_equal(command->name, command_name(id));
  }
  assert_null(command_find(COMMAND_COUNT));
  assert_null(command_find(UINT16_MAX));
}

static void no_row_and_no_name_is_there_twice(void **state) {
  (void)state;
  size_t count;
  const struct command *rows = command_table(&count);
  assert_int_equal(count, COMMAND_COUNT - 2);
  for (size_t i = 0; i < count; i++) {
    for (size_t j = 0; j < i; j++) {
      CHECK(rows[i].name, rows[i].id != rows[j].id);
      CHECK(rows[i].name, strcmp(rows[i].name, rows[j].name) != 0);
    }
  }
}

static void a_row_is_complete(void **state) {
  (void)state;
  size_t count;
  const struct command *rows = command_table(&count);
  for (size_t i = 0; i < count; i++) {
    CHECK(rows[i].name, (rows[i].handle != NULL) == (rows[i].availability == COMMAND_SERVED));
    CHECK(rows[i].name, rows[i].fields != NULL && *rows[i].summary != '\0');
    CHECK(rows[i].name, rows[i].availability != COMMAND_INTERNAL || !rows[i].is_listed);
  }
}

/* commands-1 2.6; commands added after the seed may stand between these. */
static void help_names_the_seed_commands_in_their_order(void **state) {
  (void)state;
  static const char want[] =
      "CREATE,DELETE,TRUNCATE,LIST,PUBLISH,CONSUME,STREAM,JOIN_GROUP,SYNC_GROUP,LEAVE_GROUP,"
      "HEARTBEAT,COMMIT_OFFSET,BATCH_COMMIT,FETCH_OFFSET,LIST_OFFSETS,INIT_PRODUCER_ID,BEGIN_TXN,"
      "TXN_PUBLISH,SEND_OFFSETS_TO_TXN,END_TXN,TXN_STATUS,REGISTER_GROUP,GROUP_STATUS,LIST_GROUPS,"
      "DESCRIBE,APPEND_STREAM,READ_STREAM,SAVE_SNAPSHOT,READ_SNAPSHOT,STREAM_VERSION,METADATA,"
      "FIND_COORDINATOR,LIST_CLUSTER,CLUSTER_STATUS,ELECT_LEADER,HELP,EXIT,ALTER_TOPIC_CONFIG,"
      "AGGREGATE_REPLAY_PROOF,AGGREGATE_EVENT_RANGE_READ,";
  size_t count;
  const struct command *rows = command_table(&count);
  struct buffer names = {0};
  for (size_t i = 0; i < count; i++) {
    if (!rows[i].is_listed) continue;
    if (rows[i].id == COMMAND_TXN_APPEND_STREAM) { /* after the seed: at a fixed place */
      assert_int_equal(rows[i - 1].id, COMMAND_TXN_PUBLISH);
      continue;
    }
    if (rows[i].id == COMMAND_BROWSE_MESSAGES || rows[i].id == COMMAND_READ_STREAM_HISTORY) {
      continue;
    }
    buffer_append_text(&names, rows[i].name);
    buffer_append_u8(&names, ',');
  }
  assert_slice_text(buffer_slice(&names), want);
  buffer_release(&names);
}

#define ADMIN CONFIG_PERMISSION_ADMIN
#define READ CONFIG_PERMISSION_TOPIC_READ
#define WRITE CONFIG_PERMISSION_TOPIC_WRITE
#define GROUP CONFIG_PERMISSION_GROUP
#define TRANSACTION CONFIG_PERMISSION_TRANSACTION

/* commands-1 1.5. What brokers of the reference say to each other is never for clients and needs no
 * row. */
static const struct {
  unsigned permissions;
  const char *commands; /* each with a blank behind it */
} matrix[] = {
    {0, "AUTH HELP EXIT "},
    {ADMIN, "CREATE ALTER_TOPIC_CONFIG DELETE TRUNCATE LIST_CLUSTER CLUSTER_STATUS ELECT_LEADER "},
    {READ,
     "LIST DESCRIBE METADATA LIST_OFFSETS READ_STREAM STREAM_VERSION READ_SNAPSHOT "
     "AGGREGATE_REPLAY_PROOF AGGREGATE_EVENT_RANGE_READ BROWSE_MESSAGES "
     "READ_STREAM_HISTORY "},
    {WRITE, "PUBLISH APPEND_STREAM SAVE_SNAPSHOT "},
    {READ | GROUP, "CONSUME STREAM "},
    {GROUP,
     "REGISTER_GROUP JOIN_GROUP SYNC_GROUP LEAVE_GROUP HEARTBEAT COMMIT_OFFSET BATCH_COMMIT "
     "FETCH_OFFSET GROUP_STATUS LIST_GROUPS FIND_COORDINATOR "},
    {TRANSACTION, "INIT_PRODUCER_ID BEGIN_TXN END_TXN TXN_STATUS "},
    {TRANSACTION | WRITE, "TXN_PUBLISH TXN_APPEND_STREAM "},
    {TRANSACTION | GROUP, "SEND_OFFSETS_TO_TXN "},
};

static bool is_named(const char *commands, const char *name) {
  size_t length = strlen(name);
  for (const char *at = commands; (at = strstr(at, name)) != NULL; at += length) {
    if ((at == commands || at[-1] == ' ') && at[length] == ' ') return true;
  }
  return false;
}

static void every_command_needs_what_the_matrix_says(void **state) {
  (void)state;
  size_t count;
  const struct command *rows = command_table(&count);
  for (size_t i = 0; i < count; i++) {
    if (rows[i].availability == COMMAND_INTERNAL) {
      CHECK(rows[i].name, rows[i].permissions == 0 && rows[i].handle == NULL);
      continue;
    }
    unsigned found = 0;
    for (size_t j = 0; j < sizeof matrix / sizeof *matrix; j++) {
      if (!is_named(matrix[j].commands, rows[i].name)) continue;
      found++;
      CHECK(rows[i].name, rows[i].permissions == matrix[j].permissions);
    }
    CHECK(rows[i].name, found == 1); /* a command without a row would be open to everybody */
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_command_but_the_negotiation_has_one_row),
      cmocka_unit_test(no_row_and_no_name_is_there_twice),
      cmocka_unit_test(a_row_is_complete),
      cmocka_unit_test(help_names_the_seed_commands_in_their_order),
      cmocka_unit_test(every_command_needs_what_the_matrix_says),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
