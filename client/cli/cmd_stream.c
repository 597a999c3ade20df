/* The `stream` family: an aggregate's events (event-sourced topics). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "format.h"
#include "stream_answer.h"

struct append_options {
  const char *version, *event_type, *schema_version, *metadata, *event_id, *producer_id, *sequence,
      *epoch;
  bool json;
};

#define JSON_OPTION(target) \
  { 'j', "json", NULL, OPTION_FLAG, (target), 0, 0, "Print JSON." }

static int print_ok(struct pgcursus *client, struct pgcursus_reply *reply, bool json) {
  if (!json) return cli_print_answer(client, reply);
  stream_print_ok_json(stdout, reply->payload);
  return cli_finish_output();
}

/* Connects, calls, prints: for the commands whose answer is one "OK ...". */
static int run_ok(struct cli *cli, const char *command, const struct cli_field *fields,
                  size_t count, bool json) {
  int status;
  struct pgcursus *client = cli_connect(cli, &status);
  if (!client) return status;
  struct pgcursus_reply reply;
  status = cli_report(client, cli_call(client, command, fields, count, &reply));
  if (status == EXIT_DONE) status = print_ok(client, &reply, json);
  pgcursus_close(client);
  return status;
}

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
      {"epoch", values->epoch},
      {"metadata", values->metadata},
  };
  struct pgcursus_field fields[11];
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
                        struct append_options options, struct pgcursus_bytes message) {
  int status;
  struct pgcursus *client = cli_connect(cli, &status);
  if (!client) return status;
  char version[32];
  if (!options.version) {
    status = look_up_next_version(client, topic, key, version, sizeof version);
    options.version = version;
  }
  struct pgcursus_reply reply;
  if (status == EXIT_DONE) {
    status = cli_report(client, call_append(client, topic, key, &options, message, &reply));
  }
  if (status == EXIT_DONE) status = print_ok(client, &reply, options.json);
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
      {0, "epoch", "N", OPTION_TEXT, &values.epoch, 0, 0,
       "The producer's epoch (topics with aggregate replay). Default: 0."},
      JSON_OPTION(&values.json),
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
  if (words == 3) return append_event(cli, argv[0], argv[1], values, pgcursus_text(argv[2]));
  size_t length = 0;
  char *payload = read_standard_input(&length);
  if (!payload) return cli_complain("cannot read standard input");
  status = append_event(cli, argv[0], argv[1], values, (struct pgcursus_bytes){payload, length});
  free(payload);
  return status;
}

/* A line for the envelope, then a line an event. */
static int print_stream_json(struct pgcursus *client, struct pgcursus_reply *reply) {
  static const char failure[] = "\"status\":\"ERROR\"";
  struct pgcursus_bytes envelope = reply->payload;
  if (memmem(envelope.data, envelope.length < 200 ? envelope.length : 200, failure,
             sizeof failure - 1)) {
    return cli_print_answer(client, reply);
  }
  printf("%.*s\n", (int)envelope.length, (const char *)envelope.data);
  int status = cli_report(client, pgcursus_receive(client, reply));
  struct pgcursus_batch batch;
  if (status == EXIT_DONE) status = cli_report(client, pgcursus_read_batch(client, reply, &batch));
  for (size_t i = 0; status == EXIT_DONE && i < batch.record_count; i++) {
    format_record_json(stdout, batch.topic, batch.partition, &batch.records[i]);
  }
  return status == EXIT_DONE ? cli_finish_output() : status;
}

static int read_stream(struct cli *cli, const struct cli_field *fields, size_t count, bool json) {
  int status;
  struct pgcursus *client = cli_connect(cli, &status);
  if (!client) return status;
  struct pgcursus_reply reply;
  status = cli_report(client, cli_call(client, "READ_STREAM", fields, count, &reply));
  if (status == EXIT_DONE) {
    status = json ? print_stream_json(client, &reply) : cli_print_answer(client, &reply);
  }
  pgcursus_close(client);
  return status;
}

int cmd_stream_read(struct cli *cli, int argc, char **argv) {
  const char *from = NULL;
  const char *maximum = NULL;
  bool json = false;
  const struct option_spec options[] = {
      {0, "from-version", "N", OPTION_TEXT, &from, 0, 0, "The first version wanted. Default: 1."},
      {'n', "max-events", "N", OPTION_TEXT, &maximum, 0, 0, "A page of at most N events."},
      JSON_OPTION(&json),
  };
  struct option_usage usage = {
      .command = "stream read",
      .synopsis = "TOPIC KEY [options]",
      .description =
          "Prints the stream of aggregate KEY: a line of JSON, with the snapshot if there is one "
          "that helps, and a listing of the events after it; with --json a line of JSON each.",
      .options = options,
      .option_count = sizeof options / sizeof *options,
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 2, 2, &words, &status)) return status;
  const struct cli_field fields[] = {
      {"topic", argv[0]}, {"key", argv[1]}, {"from_version", from}, {"max_events", maximum}};
  return read_stream(cli, fields, 4, json);
}

int cmd_stream_version(struct cli *cli, int argc, char **argv) {
  bool json = false;
  const struct option_spec options[] = {JSON_OPTION(&json)};
  struct option_usage usage = {
      .command = "stream version",
      .synopsis = "TOPIC KEY",
      .description =
          "Prints the version of aggregate KEY: the number of its last event, 0 when it has none.",
      .options = options,
      .option_count = 1,
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 2, 2, &words, &status)) return status;
  const struct cli_field fields[] = {{"topic", argv[0]}, {"key", argv[1]}};
  return run_ok(cli, "STREAM_VERSION", fields, 2, json);
}

int cmd_stream_snapshot(struct cli *cli, int argc, char **argv) {
  const char *version = NULL;
  bool json = false;
  const struct option_spec options[] = {
      {0, "version", "N", OPTION_TEXT, &version, 0, 0,
       "The last event that the snapshot PAYLOAD covers."},
      JSON_OPTION(&json),
  };
  struct option_usage usage = {
      .command = "stream snapshot",
      .synopsis = "TOPIC KEY [PAYLOAD --version N] [options]",
      .description = "Prints the snapshot of aggregate KEY, or saves PAYLOAD as its snapshot.",
      .options = options,
      .option_count = 2,
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 2, 3, &words, &status)) return status;
  if ((words == 3) != (version != NULL)) {
    return cli_complain("stream snapshot: a PAYLOAD and its --version go together");
  }
  const struct cli_field fields[] = {{"topic", argv[0]},
                                     {"key", argv[1]},
                                     {"version", version},
                                     {"message", words == 3 ? argv[2] : NULL}};
  return run_ok(cli, words == 3 ? "SAVE_SNAPSHOT" : "READ_SNAPSHOT", fields, 4, json);
}

int cmd_stream_prove(struct cli *cli, int argc, char **argv) {
  const char *expected = NULL;
  bool json = false;
  const struct option_spec options[] = {
      {0, "expected-last-sequence", "N", OPTION_TEXT, &expected, 0, 0,
       "The sequence that the last event must have."},
      JSON_OPTION(&json),
  };
  struct option_usage usage = {
      .command = "stream prove",
      .synopsis = "TOPIC KEY [options]",
      .description =
          "Proves from the retained log that the events of aggregate KEY are complete (topics with "
          "aggregate replay). Exit status 1 when they are not; the reason is on stderr.",
      .options = options,
      .option_count = 2,
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 2, 2, &words, &status)) return status;
  const struct cli_field fields[] = {
      {"topic", argv[0]}, {"match_id", argv[1]}, {"expected_last_sequence", expected}};
  return run_ok(cli, "AGGREGATE_REPLAY_PROOF", fields, 3, json);
}
