/* `bench latency`: single records at a fixed rate.
 *
 * A record's time runs from the moment it was due, not from the moment it could be sent, so that a
 * stall of the broker shows in every record it delayed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench.h"
#include "bench_scan.h"
#include "load.h"

#define LONG_POLL_MS 1000u

struct latency_run {
  struct load load;
  size_t publishers; /* connections [0, publishers) publish, the others consume a partition each */
  struct scan *scans;
  int64_t next_at, interval_us;
  uint64_t due, sent, seen; /* records */
};

static bool is_publisher(const struct bench *bench, const struct bench_connection *connection) {
  const struct latency_run *run = bench->own;
  return connection->index < run->publishers;
}

/* ---- consuming ------------------------------------------------------------------------------- */

static void see_payload(void *own, struct slice payload) {
  struct bench *bench = own;
  struct latency_run *run = bench->own;
  uint32_t producer;
  uint64_t stamp;
  if (!load_read_payload(payload, &producer, &stamp)) return;
  if ((producer & 0xfffff000u) != run->load.run) return; /* somebody else's */
  run->seen++;
  histogram_add(&bench->end_to_end, clock_monotonic_us() - (int64_t)stamp);
}

static int poll_partition(struct bench *bench, struct bench_connection *connection) {
  struct latency_run *run = bench->own;
  size_t partition = connection->index - run->publishers;
  struct pgcursus_fetch fetch = {
      .topic = bench->options.topic,
      .partition = (int32_t)partition,
      .offset = run->scans[partition].expected,
      .member = "pgcursus-bench",
      .wait_ms = LONG_POLL_MS,
  };
  enum pgcursus_result result = pgcursus_send_consume(connection->client, &fetch, NULL);
  if (result != PGCURSUS_OK) return cli_report(connection->client, result);
  bench_note_request(connection, clock_monotonic_us(), 0);
  return EXIT_DONE;
}

/* A group of this run's own: it has committed nothing, and takes no stream over. */
static int open_stream(struct bench *bench, struct bench_connection *connection) {
  struct latency_run *run = bench->own;
  size_t partition = connection->index - run->publishers;
  char group[40];
  snprintf(group, sizeof group, "pgcursus-bench-%08x", run->load.run);
  struct pgcursus_fetch fetch = {
      .topic = bench->options.topic,
      .partition = (int32_t)partition,
      .offset = run->scans[partition].expected,
      .group = group,
  };
  return cli_report(connection->client, pgcursus_send_stream(connection->client, &fetch, NULL));
}

/* Asks for more: a stream's next frame comes by itself and counts as asked for. */
static int expect_records(struct bench *bench, struct bench_connection *connection) {
  if (!bench->options.stream) return poll_partition(bench, connection);
  bench_note_request(connection, clock_monotonic_us(), 0);
  return EXIT_DONE;
}

static int take_records(struct bench *bench, struct bench_connection *connection,
                        const struct pgcursus_reply *reply) {
  struct latency_run *run = bench->own;
  struct scan *scan = &run->scans[connection->index - run->publishers];
  if (reply->is_stream_end) return cli_complain("the broker closed a stream");
  if (reply->is_stream && reply->payload.length == 0) return EXIT_DONE; /* keepalive */
  if (!scan_batch(slice_of(reply->payload.data, reply->payload.length), scan)) {
    return cli_complain("malformed batch, or offsets out of order");
  }
  return EXIT_DONE;
}

/* ---- publishing ------------------------------------------------------------------------------ */

static int publish_one(struct bench *bench, int64_t due_at) {
  struct latency_run *run = bench->own;
  struct bench_connection *connection = &bench->connections[run->sent % run->publishers];
  int32_t partition = (int32_t)(run->sent % (uint64_t)bench->options.partitions);
  const char *problem;
  struct buffer *frame = load_next(&run->load, connection->index, partition, due_at, &problem);
  if (!frame) return cli_complain("bench: such a request cannot be made: %s", problem);
  enum pgcursus_result result =
      pgcursus_send_frame(connection->client, frame->data, frame->length, true);
  if (result != PGCURSUS_OK) return cli_report(connection->client, result);
  bench_note_request(connection, due_at, (uint32_t)partition);
  run->sent++;
  return bench_flush(bench, connection);
}

static bool has_finished_sending(const struct bench *bench) {
  const struct latency_run *run = bench->own;
  return bench->options.records > 0 && run->sent >= (uint64_t)bench->options.records;
}

static int tick(struct bench *bench) {
  struct latency_run *run = bench->own;
  int status = EXIT_DONE;
  int64_t now = clock_monotonic_us();
  while (status == EXIT_DONE && !bench->stopping && run->next_at <= now) {
    status = publish_one(bench, run->next_at);
    run->next_at =
        bench->started_at + (int64_t)((double)(run->sent + 1) * 1e6 / (double)bench->options.rate);
    if (has_finished_sending(bench)) bench->stopping = true;
  }
  if (!bench->stopping) bench_set_timer(bench, run->next_at);
  return status;
}

static int fill(struct bench *bench, struct bench_connection *connection) {
  struct latency_run *run = bench->own;
  if (connection->turn++ > 0) return EXIT_DONE;
  if (!is_publisher(bench, connection)) {
    int status = bench->options.stream ? open_stream(bench, connection) : EXIT_DONE;
    return status == EXIT_DONE ? expect_records(bench, connection) : status;
  }
  if (connection->index > 0) return EXIT_DONE;
  run->next_at = bench->started_at;
  bench_set_timer(bench, run->next_at);
  return EXIT_DONE;
}

/* Whatever was sent and not refused arrives, acknowledged already or not. */
static bool has_more_to_see(const struct bench *bench) {
  const struct latency_run *run = bench->own;
  return run->seen + bench->errors < run->sent;
}

/* A stream does not end by itself: once all is acknowledged and seen, no frame is expected. */
static void release_streams(struct bench *bench) {
  const struct latency_run *run = bench->own;
  if (!bench->options.stream || !bench->stopping || has_more_to_see(bench)) return;
  for (size_t i = run->publishers; i < bench->connection_count; i++) {
    bench->connections[i].in_flight = 0;
  }
}

static int take(struct bench *bench, struct bench_connection *connection,
                const struct pgcursus_reply *reply, enum pgcursus_result result,
                struct bench_request request) {
  if (result == PGCURSUS_REFUSED) {
    bench_note_refusal(bench, connection);
    if (!is_publisher(bench, connection)) bench->stopping = true;
    return EXIT_DONE;
  }
  if (!is_publisher(bench, connection)) {
    int status = take_records(bench, connection, reply);
    bool wanted = !bench->stopping || has_more_to_see(bench) || bench->options.stream;
    if (status == EXIT_DONE && wanted) status = expect_records(bench, connection);
    release_streams(bench);
    return status;
  }
  bench->requests++;
  bench->finished_at = bench->last_answer_at;
  bench->records++;
  bench->bytes += (uint64_t)bench->options.size;
  histogram_add(&bench->latency, bench->last_answer_at - request.sent_at);
  release_streams(bench);
  return EXIT_DONE;
}

/* ---- set-up ---------------------------------------------------------------------------------- */

static int prepare_consumers(struct bench *bench) {
  struct latency_run *run = bench->own;
  struct pgcursus *client = bench->connections[0].client;
  size_t count = 0;
  int status;
  struct cli_offsets *offsets = cli_list_offsets(client, bench->options.topic, -1, &count, &status);
  if (!offsets) return status;
  run->scans = calloc(count, sizeof *run->scans);
  for (size_t i = 0; i < count; i++) {
    run->scans[i] = (struct scan){.expected = offsets[i].latest, .see = see_payload, .own = bench};
  }
  free(offsets);
  struct cli other = *bench->cli, *own = bench->cli;
  if (bench->options.consume_from) {
    other.broker = bench->options.consume_from;
    bench->cli = &other;
  }
  status = bench_open(bench, count);
  bench->cli = own;
  return status;
}

static int bench_latency(struct cli *cli, const struct bench_options *options) {
  struct latency_run run = {.publishers = (size_t)options->connections};
  struct bench bench = {.cli = cli,
                        .options = *options,
                        .kind = "latency",
                        .fill = fill,
                        .take = take,
                        .tick = tick,
                        .own = &run};
  int status = bench_prepare_topic(&bench, true);
  if (status == EXIT_DONE) status = bench_open(&bench, run.publishers);
  if (status == EXIT_DONE && options->end_to_end) status = prepare_consumers(&bench);
  if (status == EXIT_DONE) {
    load_open(&run.load, &bench.options, (int)pgcursus_negotiated(bench.connections[0].client));
    status = bench_report(&bench, bench_run(&bench));
    load_close(&run.load);
  }
  free(run.scans);
  bench_close(&bench);
  return status;
}

int cmd_bench_latency(struct cli *cli, int argc, char **argv) {
  struct bench_options values = {
      .topic = "bench", .connections = 1, .batch = 1, .size = 100, .rate = 1000, .acks = "1"};
  const struct option_spec options[] = {
      {'t', "topic", "TOPIC", OPTION_TEXT, &values.topic, 0, 0,
       "Created when it does not exist. Default: bench."},
      {'p', "partitions", "N", OPTION_INTEGER, &values.partitions, 1, 100000,
       "For a topic that is created. Default: 4."},
      {'c', "connections", "N", OPTION_INTEGER, &values.connections, 1, 1000,
       "Publishing connections, used in turn. Default: 1."},
      {'r', "rate", "N", OPTION_INTEGER, &values.rate, 1, 10000000,
       "Records a second. Default: 1000."},
      {0, "size", "BYTES", OPTION_INTEGER, &values.size, LOAD_MIN_VERIFIED_SIZE, 67108864,
       "Payload of a record. Default: 100."},
      {'n', "records", "N", OPTION_INTEGER, &values.records, 1, INT64_MAX, "Stop after N records."},
      {'s', "seconds", "N", OPTION_INTEGER, &values.seconds, 1, 86400,
       "Stop after N seconds. Default: 5, unless --records is given."},
      {0, "acks", "A", OPTION_TEXT, &values.acks, 0, 0, "1 or all. Default: 1."},
      {'k', "keyed", NULL, OPTION_FLAG, &values.keyed, 0, 0, "Give every record a key."},
      {'e', "end-to-end", NULL, OPTION_FLAG, &values.end_to_end, 0, 0,
       "Also consume, one long-polling connection a partition, and measure until a record arrives "
       "there."},
      {0, "stream", NULL, OPTION_FLAG, &values.stream, 0, 0,
       "Consume by STREAM instead of long polls; implies --end-to-end."},
      {0, "consume-from", "HOST:PORT", OPTION_TEXT, &values.consume_from, 0, 0,
       "Consume from another broker of the same database; implies --end-to-end."},
      {'j', "json", NULL, OPTION_FLAG, &values.json, 0, 0, "Print one JSON object."},
  };
  struct option_usage usage = {
      .command = "bench latency",
      .synopsis = "[options]",
      .description =
          "Publishes single records at a fixed rate and prints how long after it was due each one "
          "was "
          "acknowledged. A record that could not be sent in time counts from when it should have "
          "been.",
      .examples = "  pgcursus bench latency -r 500 -s 10 --end-to-end\n",
      .options = options,
      .option_count = sizeof options / sizeof *options,
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 0, 0, &words, &status)) return status;
  if (strcmp(values.acks, "0") == 0) return cli_complain("bench latency: acks 0 is never answered");
  if (values.stream || values.consume_from) values.end_to_end = true;
  if (values.records == 0 && values.seconds == 0) values.seconds = 5;
  return bench_latency(cli, &values);
}
