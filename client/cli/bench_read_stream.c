/* `bench read-stream`: one long stream, read whole again and again.
 *
 * What is counted is what a client gets: the events of the batch, each with its boundaries and
 * offset checked. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "bench.h"
#include "bench_scan.h"

#define KEY_PREFIX "bench-read"

/* Appends on their way at a time while the stream is made. */
#define APPENDS_AHEAD 256

/* The two frames of an answer. */
enum { FRAME_ENVELOPE, FRAME_EVENTS };

struct read_run {
  char key[64]; /* one stream for each size of payload and of stream */
};

/* ---- the stream ------------------------------------------------------------------------------ */

static int look_up_version(struct bench *bench, struct pgcursus *client, int64_t *version) {
  const struct read_run *run = bench->own;
  const struct cli_field fields[] = {{"topic", bench->options.topic}, {"key", run->key}};
  struct pgcursus_reply reply;
  int status = cli_report(client, cli_call(client, "STREAM_VERSION", fields, 2, &reply));
  if (status != EXIT_DONE) return status;
  struct pgcursus_bytes field = pgcursus_ok_field(reply.payload, "version");
  char text[24];
  snprintf(text, sizeof text, "%.*s", (int)field.length,
           field.length ? (const char *)field.data : "");
  *version = strtoll(text, NULL, 10);
  return EXIT_DONE;
}

static enum pgcursus_result send_event(struct bench *bench, struct pgcursus *client,
                                       int64_t version, struct pgcursus_bytes payload) {
  const struct read_run *run = bench->own;
  char number[24];
  snprintf(number, sizeof number, "%" PRId64, version);
  const struct pgcursus_field fields[] = {
      {pgcursus_text("topic"), pgcursus_text(bench->options.topic)},
      {pgcursus_text("key"), pgcursus_text(run->key)},
      {pgcursus_text("version"), pgcursus_text(number)},
      {pgcursus_text("event_type"), pgcursus_text("BenchEvent")},
      {pgcursus_text("message"), payload},
  };
  return pgcursus_send(client, pgcursus_command_by_name("APPEND_STREAM"), fields,
                       sizeof fields / sizeof *fields, NULL);
}

/* Appends what the stream lacks. */
static int fill_stream(struct bench *bench, struct pgcursus *client) {
  int64_t sent = 0, answered;
  int status = look_up_version(bench, client, &sent);
  size_t size = (size_t)bench->options.size;
  char *payload = memory_allocate(size);
  memset(payload, 'x', size);
  answered = sent;
  while (status == EXIT_DONE && answered < bench->options.batch) {
    enum pgcursus_result result = PGCURSUS_OK;
    if (sent < bench->options.batch && sent - answered < APPENDS_AHEAD) {
      result = send_event(bench, client, ++sent, (struct pgcursus_bytes){payload, size});
    } else {
      struct pgcursus_reply reply;
      result = pgcursus_receive(client, &reply);
      answered++;
    }
    status = cli_report(client, result);
  }
  free(payload);
  return status;
}

static int prepare_stream(struct bench *bench) {
  int status = bench_prepare_topic(bench, true);
  if (status != EXIT_DONE) return status;
  struct pgcursus *client = cli_connect(bench->cli, &status);
  if (!client) return status;
  status = fill_stream(bench, client);
  pgcursus_close(client);
  return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int fill(struct bench *bench, struct bench_connection *connection) {
  const struct read_run *run = bench->own;
  if (connection->in_flight > 0) return EXIT_DONE;
  const struct pgcursus_field fields[] = {
      {pgcursus_text("topic"), pgcursus_text(bench->options.topic)},
      {pgcursus_text("key"), pgcursus_text(run->key)},
  };
  int64_t now = clock_monotonic_us();
  enum pgcursus_result result =
      pgcursus_send(connection->client, pgcursus_command_by_name("READ_STREAM"), fields, 2, NULL);
  if (result != PGCURSUS_OK) return cli_report(connection->client, result);
  bench_note_request(connection, now, FRAME_ENVELOPE);
  bench_note_request(connection, now, FRAME_EVENTS);
  return EXIT_DONE;
}

static int take(struct bench *bench, struct bench_connection *connection,
                const struct pgcursus_reply *reply, enum pgcursus_result result,
                struct bench_request request) {
  if (result == PGCURSUS_REFUSED) {
    bench_note_refusal(bench, connection);
    connection->in_flight = 0; /* no second frame follows */
    bench->stopping = true;
    return EXIT_DONE;
  }
  if (request.tag == FRAME_ENVELOPE) return EXIT_DONE;
  struct scan scan = {.expected = 0};
  if (!scan_batch(slice_of(reply->payload.data, reply->payload.length), &scan)) {
    return cli_complain("malformed batch, or offsets out of order");
  }
  if (scan.records < (uint64_t)bench->options.batch) {
    return cli_complain("%" PRIu64 " events came where %" PRId64 " are due", scan.records,
                        bench->options.batch);
  }
  bench->records += scan.records;
  bench->bytes += scan.bytes;
  bench->requests++;
  bench->finished_at = bench->last_answer_at;
  histogram_add(&bench->latency, bench->last_answer_at - request.sent_at);
  if (bench->options.records > 0 && bench->records >= (uint64_t)bench->options.records) {
    bench->stopping = true;
  }
  return EXIT_DONE;
}

static int bench_read_stream(struct cli *cli, const struct bench_options *options) {
  struct read_run run;
  snprintf(run.key, sizeof run.key, KEY_PREFIX "-%" PRId64 "-%" PRId64, options->batch,
           options->size);
  struct bench bench = {.cli = cli,
                        .options = *options,
                        .kind = "read-stream",
                        .fill = fill,
                        .take = take,
                        .own = &run};
  int status = prepare_stream(&bench);
  if (status == EXIT_DONE) status = bench_open(&bench, (size_t)options->connections);
  if (status == EXIT_DONE) status = bench_report(&bench, bench_run(&bench));
  bench_close(&bench);
  return status;
}

int cmd_bench_read_stream(struct cli *cli, int argc, char **argv) {
  struct bench_options values = {.topic = "bench-streams",
                                 .connections = 1,
                                 .batch = 10000,
                                 .size = 100,
                                 .acks = "all",
                                 .event_sourcing = true};
  const struct option_spec options[] = {
      {'t', "topic", "TOPIC", OPTION_TEXT, &values.topic, 0, 0,
       "Created with event_sourcing when it does not exist. Default: bench-streams."},
      {'p', "partitions", "N", OPTION_INTEGER, &values.partitions, 1, 100000,
       "For a topic that is created. Default: 4."},
      {'c', "connections", "N", OPTION_INTEGER, &values.connections, 1, 1000,
       "Each reads the same stream, one request at a time. Default: 1."},
      {0, "events", "N", OPTION_INTEGER, &values.batch, 1, 100000,
       "Length of the stream; events that it lacks are appended first. Default: 10000."},
      {0, "size", "BYTES", OPTION_INTEGER, &values.size, 1, 1048576,
       "Payload of an event. Default: 100."},
      {'n', "records", "N", OPTION_INTEGER, &values.records, 1, INT64_MAX,
       "Stop after N events have been read."},
      {'s', "seconds", "N", OPTION_INTEGER, &values.seconds, 1, 86400,
       "Stop after N seconds. Default: 5, unless --records is given."},
      {'j', "json", NULL, OPTION_FLAG, &values.json, 0, 0, "Print one JSON object."},
  };
  struct option_usage usage = {
      .command = "bench read-stream",
      .synopsis = "[options]",
      .description =
          "Reads one stream whole, with READ_STREAM, again and again, and prints events, time, "
          "rate "
          "and the latency of a request.",
      .examples = "  pgcursus bench read-stream --events 10000 -s 10\n",
      .options = options,
      .option_count = sizeof options / sizeof *options,
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 0, 0, &words, &status)) return status;
  if (values.records == 0 && values.seconds == 0) values.seconds = 5;
  return bench_read_stream(cli, &values);
}
