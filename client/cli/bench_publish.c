/* `bench publish`: as many records as the broker takes, from prepared requests. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "bench.h"
#include "load.h"

/* How many requests a connection queues before it looks at its socket, when nothing comes back. */
#define SILENT_BURST 4

struct publish_run {
  struct load load;
  uint64_t sent;
};

static bool is_silent(const struct bench *bench) {
  return strcmp(bench->options.acks, "0") == 0;
}

/* Each connection visits the partitions in turn, and each begins at another one. */
static int send_one(struct bench *bench, struct bench_connection *connection) {
  struct publish_run *run = bench->own;
  struct bench_options *options = &bench->options;
  int32_t partition =
      (int32_t)((connection->index + connection->turn++) % (uint64_t)options->partitions);
  const char *problem;
  struct buffer *frame = load_next(&run->load, connection->index, partition, 0, &problem);
  if (!frame) return cli_complain("bench: such a request cannot be made: %s", problem);
  int64_t now = clock_monotonic_us();
  enum pgcursus_result result =
      pgcursus_send_frame(connection->client, frame->data, frame->length, !is_silent(bench));
  if (result != PGCURSUS_OK) return cli_report(connection->client, result);
  run->sent += (uint64_t)options->batch;
  if (is_silent(bench)) {
    bench->records += (uint64_t)options->batch;
    bench->bytes += (uint64_t)(options->batch * options->size);
    bench->requests++;
    bench->last_answer_at = bench->finished_at = now;
  } else {
    bench_note_request(connection, now, (uint32_t)partition);
  }
  if (options->records > 0 && run->sent >= (uint64_t)options->records) bench->stopping = true;
  return EXIT_DONE;
}

static int fill(struct bench *bench, struct bench_connection *connection) {
  int status = EXIT_DONE;
  if (is_silent(bench)) {
    for (int i = 0; i < SILENT_BURST && status == EXIT_DONE && !bench->stopping; i++) {
      if (pgcursus_try_flush(connection->client) == PGCURSUS_AGAIN) break;
      status = send_one(bench, connection);
    }
    return status;
  }
  while (connection->in_flight < (size_t)bench->options.pipeline && status == EXIT_DONE &&
         !bench->stopping) {
    status = send_one(bench, connection);
  }
  return status;
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
  bench->finished_at = bench->last_answer_at;
  bench->records += (uint64_t)bench->options.batch;
  bench->bytes += (uint64_t)(bench->options.batch * bench->options.size);
  histogram_add(&bench->latency, bench->last_answer_at - request.sent_at);
  return EXIT_DONE;
}

/* With acks 0 the records are counted when they are sent; a round trip behind them makes sure that
 * they have also been read. */
static int settle(struct bench *bench) {
  if (!is_silent(bench)) return EXIT_DONE;
  int status = EXIT_DONE;
  for (size_t i = 0; i < bench->connection_count && status == EXIT_DONE; i++) {
    struct pgcursus *client = bench->connections[i].client;
    struct pgcursus_reply reply;
    status = cli_report(client, cli_call(client, "HELP", NULL, 0, &reply));
  }
  bench->finished_at = clock_monotonic_us();
  return status;
}

static int check_options(struct bench_options *options) {
  if (options->records == 0 && options->seconds == 0) options->seconds = 5;
  if (!options->acks) options->acks = options->idempotent ? "all" : "1";
  if (options->verify && options->size < LOAD_MIN_VERIFIED_SIZE) {
    return cli_complain("bench: --verify needs --size %d or more", LOAD_MIN_VERIFIED_SIZE);
  }
  return EXIT_DONE;
}

static int bench_publish(struct cli *cli, const struct bench_options *options) {
  struct publish_run run = {.sent = 0};
  struct bench bench = {
      .cli = cli, .options = *options, .kind = "publish", .fill = fill, .take = take, .own = &run};
  int status = bench_prepare_topic(&bench, true);
  if (status == EXIT_DONE) status = bench_open(&bench, (size_t)options->connections);
  if (status == EXIT_DONE) {
    load_open(&run.load, &bench.options, (int)pgcursus_negotiated(bench.connections[0].client));
    status = bench_run(&bench);
    if (status == EXIT_DONE) status = settle(&bench);
    status = bench_report(&bench, status);
    load_close(&run.load);
  }
  bench_close(&bench);
  return status;
}

int cmd_bench_publish(struct cli *cli, int argc, char **argv) {
  struct bench_options values = {
      .topic = "bench", .connections = 1, .batch = 1000, .size = 100, .pipeline = 1};
  const struct option_spec options[] = {
      {'t', "topic", "TOPIC", OPTION_TEXT, &values.topic, 0, 0,
       "Created when it does not exist. Default: bench."},
      {'p', "partitions", "N", OPTION_INTEGER, &values.partitions, 1, 100000,
       "For a topic that is created. Default: 4."},
      {'c', "connections", "N", OPTION_INTEGER, &values.connections, 1, 1000, "Default: 1."},
      {0, "batch", "N", OPTION_INTEGER, &values.batch, 1, 100000,
       "Records a request; 1 sends single PUBLISH requests rather than batches. Default: 1000."},
      {0, "size", "BYTES", OPTION_INTEGER, &values.size, 1, 67108864,
       "Payload of a record. Default: 100."},
      {'n', "records", "N", OPTION_INTEGER, &values.records, 1, INT64_MAX, "Stop after N records."},
      {'s', "seconds", "N", OPTION_INTEGER, &values.seconds, 1, 86400,
       "Stop after N seconds. Default: 5, unless --records is given."},
      {0, "acks", "A", OPTION_TEXT, &values.acks, 0, 0,
       "0, 1 or all. Default: 1, with --idempotent all."},
      {0, "pipeline", "N", OPTION_INTEGER, &values.pipeline, 1, 10000,
       "Requests in flight on each connection. Default: 1."},
      {'k', "keyed", NULL, OPTION_FLAG, &values.keyed, 0, 0,
       "Give every record a key of 9 bytes that belongs to its partition."},
      {'i', "idempotent", NULL, OPTION_FLAG, &values.idempotent, 0, 0,
       "Number the records: a producer of its own for each connection."},
      {0, "verify", NULL, OPTION_FLAG, &values.verify, 0, 0,
       "Payloads carry producer, sequence and checksum, for bench consume --verify."},
      {'j', "json", NULL, OPTION_FLAG, &values.json, 0, 0, "Print one JSON object."},
  };
  struct option_usage usage = {
      .command = "bench publish",
      .synopsis = "[options]",
      .description =
          "Publishes as fast as answers come and prints records, time, rate and the latency of a "
          "request "
          "from queueing it to its acknowledgement. Requests are made in advance, so the generator "
          "takes "
          "little from the broker. Refused requests are counted as errors and give exit status 1.",
      .examples =
          "  pgcursus bench publish -c 4 --acks all --keyed\n"
          "  pgcursus bench publish -c 64 --batch 1 -s 10 --json\n",
      .options = options,
      .option_count = sizeof options / sizeof *options,
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 0, 0, &words, &status)) return status;
  status = check_options(&values);
  return status == EXIT_DONE ? bench_publish(cli, &values) : status;
}
