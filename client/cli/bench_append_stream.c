/* `bench append-stream`: events to distinct aggregates, each under its version check. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "bench.h"

/* How many events an aggregate gets before the connection goes on to the next one. */
#define EVENTS_PER_AGGREGATE 10

struct append_run {
  uint64_t run; /* tells the aggregates of two runs apart */
  char *payload;
  uint64_t *counts; /* events sent by each connection */
  uint64_t sent;
};

static int send_one(struct bench *bench, struct bench_connection *connection) {
  struct append_run *run = bench->own;
  uint64_t count = run->counts[connection->index]++;
  char key[64], version[24];
  snprintf(key, sizeof key, "bench-%" PRIx64 "-%zu-%" PRIu64, run->run, connection->index,
           count / EVENTS_PER_AGGREGATE);
  snprintf(version, sizeof version, "%" PRIu64, count % EVENTS_PER_AGGREGATE + 1);
  const struct pgcursus_field fields[] = {
      {pgcursus_text("topic"), pgcursus_text(bench->options.topic)},
      {pgcursus_text("key"), pgcursus_text(key)},
      {pgcursus_text("version"), pgcursus_text(version)},
      {pgcursus_text("event_type"), pgcursus_text("BenchEvent")},
      {pgcursus_text("message"), {run->payload, (size_t)bench->options.size}},
  };
  int64_t now = clock_monotonic_us();
  enum pgcursus_result result =
      pgcursus_send(connection->client, pgcursus_command_by_name("APPEND_STREAM"), fields,
                    sizeof fields / sizeof *fields, NULL);
  if (result != PGCURSUS_OK) return cli_report(connection->client, result);
  bench_note_request(connection, now, 0);
  if (bench->options.records > 0 && ++run->sent >= (uint64_t)bench->options.records) {
    bench->stopping = true;
  }
  return EXIT_DONE;
}

/* One at a time: the next version of an aggregate must find the one before. */
static int fill(struct bench *bench, struct bench_connection *connection) {
  return connection->in_flight == 0 ? send_one(bench, connection) : EXIT_DONE;
}

static int take(struct bench *bench, struct bench_connection *connection,
                const struct pgcursus_reply *reply, enum pgcursus_result result,
                struct bench_request request) {
  (void)reply;
  if (result == PGCURSUS_REFUSED) {
    bench_note_refusal(bench, connection);
    return EXIT_DONE;
  }
  bench->requests++;
  bench->records++;
  bench->bytes += (uint64_t)bench->options.size;
  bench->finished_at = bench->last_answer_at;
  histogram_add(&bench->latency, bench->last_answer_at - request.sent_at);
  return EXIT_DONE;
}

static int bench_append_stream(struct cli *cli, const struct bench_options *options) {
  struct append_run run = {
      .run = (uint64_t)clock_wall_us(),
      .payload = memory_allocate((size_t)options->size),
      .counts = memory_allocate_zeroed((size_t)options->connections, sizeof *run.counts)};
  memset(run.payload, 'x', (size_t)options->size);
  struct bench bench = {.cli = cli,
                        .options = *options,
                        .kind = "append-stream",
                        .fill = fill,
                        .take = take,
                        .own = &run};
  int status = bench_prepare_topic(&bench, true);
  if (status == EXIT_DONE) status = bench_open(&bench, (size_t)options->connections);
  if (status == EXIT_DONE) status = bench_report(&bench, bench_run(&bench));
  bench_close(&bench);
  free(run.payload);
  free(run.counts);
  return status;
}

int cmd_bench_append_stream(struct cli *cli, int argc, char **argv) {
  struct bench_options values = {.topic = "bench-streams",
                                 .connections = 64,
                                 .batch = 1,
                                 .size = 100,
                                 .pipeline = 1,
                                 .acks = "all",
                                 .event_sourcing = true};
  const struct option_spec options[] = {
      {'t', "topic", "TOPIC", OPTION_TEXT, &values.topic, 0, 0,
       "Created with event_sourcing when it does not exist. Default: bench-streams."},
      {'p', "partitions", "N", OPTION_INTEGER, &values.partitions, 1, 100000,
       "For a topic that is created. Default: 4."},
      {'c', "connections", "N", OPTION_INTEGER, &values.connections, 1, 1000,
       "Each appends to aggregates of its own, one event at a time. Default: 64."},
      {0, "size", "BYTES", OPTION_INTEGER, &values.size, 1, 67108864,
       "Payload of an event. Default: 100."},
      {'n', "records", "N", OPTION_INTEGER, &values.records, 1, INT64_MAX, "Stop after N events."},
      {'s', "seconds", "N", OPTION_INTEGER, &values.seconds, 1, 86400,
       "Stop after N seconds. Default: 5, unless --records is given."},
      {'j', "json", NULL, OPTION_FLAG, &values.json, 0, 0, "Print one JSON object."},
  };
  struct option_usage usage = {
      .command = "bench append-stream",
      .synopsis = "[options]",
      .description =
          "Appends events as fast as answers come and prints events, time, rate and latency. An "
          "aggregate gets 10 events, then the connection goes on to the next one.",
      .options = options,
      .option_count = sizeof options / sizeof *options,
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 0, 0, &words, &status)) return status;
  if (values.records == 0 && values.seconds == 0) values.seconds = 5;
  return bench_append_stream(cli, &values);
}
