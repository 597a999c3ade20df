/* The `topic` family: CREATE, ALTER_TOPIC_CONFIG, DESCRIBE, LIST, DELETE, TRUNCATE.
 *
 * Values go to the broker as typed; it knows what is valid and says so. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* ---- create and alter ------------------------------------------------------------------------ */

/* One member for each field of CREATE. */
struct topic_fields {
  const char *partitions, *replication_factor;
  const char *idempotent, *event_sourcing, *aggregate_replay;
  const char *min_in_sync_replicas;
  const char *cleanup_policy, *retention_hours, *retention_bytes, *partitioner;
  const char *auth_policy, *read_acl, *write_acl;
};

#define TOPIC_OPTIONS 13

static void list_topic_options(struct topic_fields *fields, struct option_spec *options) {
  const struct option_spec list[TOPIC_OPTIONS] = {
      {'p', "partitions", "N", OPTION_TEXT, &fields->partitions, 0, 0,
       "Number of partitions; may only grow later. Default for a new topic: 4."},
      {0, "replication-factor", "N", OPTION_TEXT, &fields->replication_factor, 0, 0,
       "Stored and shown; cannot be changed later."},
      {0, "min-in-sync-replicas", "N", OPTION_TEXT, &fields->min_in_sync_replicas, 0, 0,
       "How many replicas acks=all waits for (alter: also `default`)."},
      {0, "idempotent", "BOOL", OPTION_SWITCH, &fields->idempotent, 0, 0,
       "Every publish is checked for duplicates; cannot be changed later."},
      {0, "event-sourcing", "BOOL", OPTION_SWITCH, &fields->event_sourcing, 0, 0,
       "Allow event streams; cannot be changed later."},
      {0, "aggregate-replay", "BOOL", OPTION_SWITCH, &fields->aggregate_replay, 0, 0,
       "Keep proofs of complete replay; needs the two above; cannot be changed later."},
      {0, "cleanup-policy", "POLICY", OPTION_TEXT, &fields->cleanup_policy, 0, 0,
       "delete, compact or delete,compact."},
      {0, "retention-hours", "N", OPTION_TEXT, &fields->retention_hours, 0, 0,
       "Delete records older than this; 0 = the broker's default."},
      {0, "retention-bytes", "N", OPTION_TEXT, &fields->retention_bytes, 0, 0,
       "Delete the oldest records of a partition above this size; 0 = the broker's default."},
      {0, "partitioner", "NAME", OPTION_TEXT, &fields->partitioner, 0, 0,
       "hash_key (default) or round_robin."},
      {0, "auth-policy", "POLICY", OPTION_TEXT, &fields->auth_policy, 0, 0,
       "open (default), deny_write, deny_read or acl."},
      {0, "read-acl", "LIST", OPTION_TEXT, &fields->read_acl, 0, 0,
       "Principals that may read under auth policy acl, separated by commas; * = everybody who is "
       "authenticated; an empty list clears it."},
      {0, "write-acl", "LIST", OPTION_TEXT, &fields->write_acl, 0, 0, "The same for writing."},
  };
  memcpy(options, list, sizeof list);
}

static enum pgcursus_result call_create(struct pgcursus *client, const char *topic,
                                        const struct topic_fields *values,
                                        struct pgcursus_reply *reply) {
  const struct cli_field fields[] = {
      {"topic", topic},
      {"partitions", values->partitions},
      {"replication_factor", values->replication_factor},
      {"min_in_sync_replicas", values->min_in_sync_replicas},
      {"idempotent", values->idempotent},
      {"event_sourcing", values->event_sourcing},
      {"aggregate_replay", values->aggregate_replay},
      {"cleanup_policy", values->cleanup_policy},
      {"retention_hours", values->retention_hours},
      {"retention_bytes", values->retention_bytes},
      {"partitioner", values->partitioner},
      {"auth_policy", values->auth_policy},
      {"read_acl", values->read_acl},
      {"write_acl", values->write_acl},
  };
  return cli_call(client, "CREATE", fields, sizeof fields / sizeof *fields, reply);
}

int cmd_topic_create(struct cli *cli, int argc, char **argv) {
  struct topic_fields values = {0};
  struct option_spec options[TOPIC_OPTIONS];
  list_topic_options(&values, options);
  struct option_usage usage = {
      .command = "topic create",
      .synopsis = "TOPIC [options]",
      .description =
          "Creates TOPIC. When it exists, the options given are changed and the others kept; a "
          "request that "
          "changes nothing is fine, so a script may create its topics each time it runs.\n\n"
          "Prints the definition that is now in force.",
      .examples =
          "  pgcursus topic create orders -p 8 --retention-hours 72\n"
          "  pgcursus topic create audit --auth-policy acl --read-acl alice,bob --write-acl app\n",
      .options = options,
      .option_count = TOPIC_OPTIONS,
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 1, 1, &words, &status)) return status;
  struct pgcursus *client = cli_connect(cli, &status);
  if (!client) return status;
  struct pgcursus_reply reply;
  status = cli_report(client, call_create(client, argv[0], &values, &reply));
  if (status == EXIT_DONE) status = cli_print_answer(client, &reply);
  pgcursus_close(client);
  return status;
}

static bool has_create_fields(const struct topic_fields *values) {
  return values->partitions || values->replication_factor || values->idempotent ||
         values->event_sourcing || values->aggregate_replay || values->cleanup_policy ||
         values->retention_hours || values->retention_bytes || values->partitioner ||
         values->auth_policy || values->read_acl || values->write_acl;
}

/* CREATE patches a topic that exists, and would make one that does not: hence the METADATA first.
 * The minimum of in-sync replicas has a command of its own, which also knows `default`. */
static int alter_topic(struct pgcursus *client, const char *topic,
                       const struct topic_fields *values) {
  int status = EXIT_DONE;
  struct pgcursus_reply reply;
  if (has_create_fields(values)) {
    if (cli_partition_count(client, topic, &status) < 0) return status;
    struct topic_fields others = *values;
    others.min_in_sync_replicas = NULL;
    status = cli_report(client, call_create(client, topic, &others, &reply));
    if (status == EXIT_DONE) status = cli_print_answer(client, &reply);
  }
  if (status != EXIT_DONE || !values->min_in_sync_replicas) return status;
  const struct cli_field fields[] = {{"topic", topic},
                                     {"min_in_sync_replicas", values->min_in_sync_replicas}};
  status = cli_report(client, cli_call(client, "ALTER_TOPIC_CONFIG", fields, 2, &reply));
  return status == EXIT_DONE ? cli_print_answer(client, &reply) : status;
}

int cmd_topic_alter(struct cli *cli, int argc, char **argv) {
  struct topic_fields values = {0};
  struct option_spec options[TOPIC_OPTIONS];
  list_topic_options(&values, options);
  struct option_usage usage = {
      .command = "topic alter",
      .synopsis = "TOPIC option ...",
      .description = "Changes the given options of a topic that exists and keeps the others.",
      .examples =
          "  pgcursus topic alter orders --retention-hours 24\n"
          "  pgcursus topic alter orders --min-in-sync-replicas default\n",
      .options = options,
      .option_count = TOPIC_OPTIONS,
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 1, 1, &words, &status)) return status;
  if (!has_create_fields(&values) && !values.min_in_sync_replicas) {
    return cli_complain("topic alter: nothing to change (see: pgcursus topic alter --help)");
  }
  struct pgcursus *client = cli_connect(cli, &status);
  if (!client) return status;
  status = alter_topic(client, argv[0], &values);
  pgcursus_close(client);
  return status;
}

/* ---- describe and list ----------------------------------------------------------------------- */

int cmd_topic_describe(struct cli *cli, int argc, char **argv) {
  bool offsets = false;
  bool metadata = false;
  const struct option_spec options[] = {
      {'o', "offsets", NULL, OPTION_FLAG, &offsets, 0, 0,
       "Print the offsets instead: a line a partition with its earliest, latest and end offset."},
      {'m', "metadata", NULL, OPTION_FLAG, &metadata, 0, 0,
       "Print the answer of METADATA instead: one line with leaders and policy."},
  };
  struct option_usage usage = {
      .command = "topic describe",
      .synopsis = "TOPIC [options]",
      .description = "Prints the definition of TOPIC and the state of its partitions as JSON.",
      .options = options,
      .option_count = 2,
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 1, 1, &words, &status)) return status;
  const struct cli_field fields[] = {{"topic", argv[0]}};
  if (metadata) return cli_run_simple(cli, "METADATA", fields, 1);
  if (!offsets) return cli_run_simple(cli, "DESCRIBE", fields, 1);

  struct pgcursus *client = cli_connect(cli, &status);
  if (!client) return status;
  size_t count;
  struct cli_offsets *list = cli_list_offsets(client, argv[0], -1, &count, &status);
  for (size_t i = 0; list && i < count; i++) {
    printf("partition=%d earliest=%llu latest=%llu leo=%llu\n", list[i].partition,
           (unsigned long long)list[i].earliest, (unsigned long long)list[i].latest,
           (unsigned long long)list[i].leo);
  }
  if (list) status = cli_finish_output();
  free(list);
  pgcursus_close(client);
  return status;
}

/* A comma-separated field of the answer, one item a line. */
static int print_items(struct cli *cli, const char *command, const char *field) {
  int status;
  struct pgcursus *client = cli_connect(cli, &status);
  if (!client) return status;
  struct pgcursus_reply reply;
  status = cli_report(client, cli_call(client, command, NULL, 0, &reply));
  if (status == EXIT_DONE) {
    struct pgcursus_bytes items = pgcursus_ok_field(reply.payload, field);
    const char *text = items.data;
    for (size_t i = 0; i < items.length; i++) putchar(text[i] == ',' ? '\n' : text[i]);
    if (items.length) putchar('\n');
    status = cli_finish_output();
  }
  pgcursus_close(client);
  return status;
}

int cmd_topic_list(struct cli *cli, int argc, char **argv) {
  struct option_usage usage = {
      .command = "topic list",
      .synopsis = "",
      .description =
          "Prints the names of the topics that may be read, one a line, sorted bytewise.",
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 0, 0, &words, &status)) return status;
  return print_items(cli, "LIST", "topics");
}

int cmd_group_list(struct cli *cli, int argc, char **argv) {
  struct option_usage usage = {
      .command = "group list",
      .synopsis = "",
      .description = "Prints the names of the consumer groups, one a line, sorted bytewise.",
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 0, 0, &words, &status)) return status;
  return print_items(cli, "LIST_GROUPS", "groups");
}

/* ---- delete and truncate --------------------------------------------------------------------- */

int cmd_topic_delete(struct cli *cli, int argc, char **argv) {
  bool if_exists = false;
  const struct option_spec options[] = {
      {0, "if-exists", NULL, OPTION_FLAG, &if_exists, 0, 0,
       "A topic that does not exist is no error."},
  };
  struct option_usage usage = {
      .command = "topic delete",
      .synopsis = "TOPIC ... [options]",
      .description = "Deletes the topics with their records, offsets and producer state, for good.",
      .options = options,
      .option_count = 1,
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 1, -1, &words, &status)) return status;
  struct pgcursus *client = cli_connect(cli, &status);
  if (!client) return status;
  for (int i = 0; i < words && status == EXIT_DONE; i++) {
    const struct cli_field fields[] = {{"topic", argv[i]},
                                       {"if_exists", if_exists ? "true" : NULL}};
    struct pgcursus_reply reply;
    status = cli_report(client, cli_call(client, "DELETE", fields, 2, &reply));
    if (status == EXIT_DONE) status = cli_print_answer(client, &reply);
  }
  pgcursus_close(client);
  return status;
}

/* The revision that METADATA shows now, as text in `revision`. */
static int look_up_revision(struct pgcursus *client, const char *topic, char *revision,
                            size_t size) {
  const struct cli_field fields[] = {{"topic", topic}};
  struct pgcursus_reply reply;
  int status = cli_report(client, cli_call(client, "METADATA", fields, 1, &reply));
  if (status != EXIT_DONE) return status;
  struct pgcursus_bytes field = pgcursus_ok_field(reply.payload, "revision");
  snprintf(revision, size, "%.*s", (int)field.length, field.length ? (const char *)field.data : "");
  return EXIT_DONE;
}

int cmd_topic_truncate(struct cli *cli, int argc, char **argv) {
  const char *expected = NULL;
  const struct option_spec options[] = {
      {0, "expected-revision", "N", OPTION_TEXT, &expected, 0, 0,
       "Refuse unless the topic's revision is N, which also makes a repeat after a lost answer "
       "harmless. "
       "Default: the revision it has now."},
  };
  struct option_usage usage = {
      .command = "topic truncate",
      .synopsis = "TOPIC [options]",
      .description =
          "Removes every record of TOPIC, its groups' offsets and its producers' state. The "
          "definition stays; offsets begin at 0 again.",
      .options = options,
      .option_count = 1,
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 1, 1, &words, &status)) return status;
  struct pgcursus *client = cli_connect(cli, &status);
  if (!client) return status;
  char revision[32];
  if (!expected) {
    status = look_up_revision(client, argv[0], revision, sizeof revision);
    expected = revision;
  }
  if (status == EXIT_DONE) {
    const struct cli_field fields[] = {{"topic", argv[0]}, {"expected_revision", expected}};
    struct pgcursus_reply reply;
    status = cli_report(client, cli_call(client, "TRUNCATE", fields, 2, &reply));
    if (status == EXIT_DONE) status = cli_print_answer(client, &reply);
  }
  pgcursus_close(client);
  return status;
}
