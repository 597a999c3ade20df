/* The `stream` family: an aggregate's events (event-sourced topics). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

struct append_options {
  const char *version, *event_type, *schema_version, *metadata, *event_id, *producer_id, *sequence;
};

/* All of stdin. The caller frees it; NULL when it cannot be read. */
static char *read_standard_input(size_t *length) {
  char *text = NULL;
  FILE *memory = open_memstream(&text, length);
  if (!memory) return NULL;
  char block[65536];
  size_t count;
  while ((count = fread(block, 1, sizeof block, stdin)) > 0) fwrite(block, 1, count, memory);
  bool failed = ferror(stdin) != 0;
  if (fclose(memory) != 0 || failed) {
    free(text);
    return NULL;
  }
  return text;
}

/* The version after the current one, for a caller who does not insist on one. */
static int look_up_next_version(struct pgcursus *client, const char *topic, const char *key,
                                char *version, size_t size) {
  const struct cli_field fields[] = {{"topic", topic}, {"key", key}};
  struct pgcursus_reply reply;
  int status = cli_report(client, cli_call(client, "STREAM_VERSION", fields, 2, &reply));
  if (status != EXIT_DONE) return status;
  struct pgcursus_bytes field = pgcursus_ok_field(reply.payload, "version");
  snprintf(version, size, "%.*s", (int)field.length, field.length ? (const char *)field.data : "0");
  uint64_t current = strtoull(version, NULL, 10);
  snprintf(version, size, "%" PRIu64, current + 1);
  return EXIT_DONE;
}

static enum pgcursus_result call_append(struct pgcursus *client, const char *topic, const char *key,
                                        const struct append_options *values,
                                        struct pgcursus_bytes message,
                                        struct pgcursus_reply *reply) {
  const struct cli_field texts[] = {
      {"topic", topic},
      {"key", key},
      {"version", values->version},
      {"event_type", values->event_type},
      {"schema_version", values->schema_version},
      {"event_id", values->event_id},
      {"producerId", values->producer_id},
      {"seqNum", values->sequence},
      {"metadata", values->metadata},
  };
  struct pgcursus_field fields[10];
  size_t count = 0;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    if (!texts[i].value) continue;
    fields[count].name = pgcursus_text(texts[i].name);
    fields[count++].value = pgcursus_text(texts[i].value);
  }
  fields[count++] = (struct pgcursus_field){pgcursus_text("message"), message};
  return pgcursus_call(client, pgcursus_command_by_name("APPEND_STREAM"), fields, count, reply);
}

static int append_event(struct cli *cli, const char *topic, const char *key,
                        struct append_options *values, struct pgcursus_bytes message) {
  int status;
  struct pgcursus *client = cli_connect(cli, &status);
  if (!client) return status;
  char version[32];
  if (!values->version) {
    status = look_up_next_version(client, topic, key, version, sizeof version);
    values->version = version;
  }
  struct pgcursus_reply reply;
  if (status == EXIT_DONE) {
    status = cli_report(client, call_append(client, topic, key, values, message, &reply));
  }
  if (status == EXIT_DONE) status = cli_print_answer(client, &reply);
  pgcursus_close(client);
  return status;
}

int cmd_stream_append(struct cli *cli, int argc, char **argv) {
  struct append_options values = {0};
  const struct option_spec options[] = {
      {0, "version", "N", OPTION_TEXT, &values.version, 0, 0,
       "The number the event shall have: one more than the aggregate's version, else the broker "
       "refuses "
       "with version_conflict. Default: whatever is next."},
      {0, "event-type", "NAME", OPTION_TEXT, &values.event_type, 0, 0, "The event's type."},
      {0, "schema-version", "N", OPTION_TEXT, &values.schema_version, 0, 0, "Default: 1."},
      {0, "metadata", "TEXT", OPTION_TEXT, &values.metadata, 0, 0,
       "Any text, kept with the event."},
      {0, "event-id", "ID", OPTION_TEXT, &values.event_id, 0, 0,
       "The event's identity (topics with aggregate replay)."},
      {0, "producer-id", "ID", OPTION_TEXT, &values.producer_id, 0, 0,
       "The producer (topics with aggregate replay)."},
      {0, "sequence", "N", OPTION_TEXT, &values.sequence, 0, 0,
       "The producer's sequence number (topics with aggregate replay)."},
  };
  struct option_usage usage = {
      .command = "stream append",
      .synopsis = "TOPIC KEY [PAYLOAD] [options]",
      .description =
          "Appends one event to the stream of aggregate KEY and prints its version and place. "
          "Without PAYLOAD, all of standard input is the payload.",
      .examples =
          "  pgcursus stream append orders order-123 '{\"customer\":\"alice\"}' \\\n"
          "      --version 1 --event-type OrderCreated\n",
      .options = options,
      .option_count = sizeof options / sizeof *options,
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 2, 3, &words, &status)) return status;
  if (words == 3) return append_event(cli, argv[0], argv[1], &values, pgcursus_text(argv[2]));
  size_t length = 0;
  char *payload = read_standard_input(&length);
  if (!payload) return cli_complain("cannot read standard input");
  status = append_event(cli, argv[0], argv[1], &values, (struct pgcursus_bytes){payload, length});
  free(payload);
  return status;
}

int cmd_stream_read(struct cli *cli, int argc, char **argv) {
  const char *from = NULL;
  const char *maximum = NULL;
  const struct option_spec options[] = {
      {0, "from-version", "N", OPTION_TEXT, &from, 0, 0, "The first version wanted. Default: 1."},
      {'n', "max-events", "N", OPTION_TEXT, &maximum, 0, 0, "A page of at most N events."},
  };
  struct option_usage usage = {
      .command = "stream read",
      .synopsis = "TOPIC KEY [options]",
      .description =
          "Prints the stream of aggregate KEY: a line of JSON, with the snapshot if there is one "
          "that helps, and a listing of the events after it.",
      .options = options,
      .option_count = 2,
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 2, 2, &words, &status)) return status;
  const struct cli_field fields[] = {
      {"topic", argv[0]}, {"key", argv[1]}, {"from_version", from}, {"max_events", maximum}};
  return cli_run_simple(cli, "READ_STREAM", fields, 4);
}

int cmd_stream_version(struct cli *cli, int argc, char **argv) {
  struct option_usage usage = {
      .command = "stream version",
      .synopsis = "TOPIC KEY",
      .description =
          "Prints the version of aggregate KEY: the number of its last event, 0 when it has none.",
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 2, 2, &words, &status)) return status;
  const struct cli_field fields[] = {{"topic", argv[0]}, {"key", argv[1]}};
  return cli_run_simple(cli, "STREAM_VERSION", fields, 2);
}
