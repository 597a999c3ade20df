/* `bench transactions`: consume-process-produce without the processing. Each connection runs
 * transactions one after another: a session, a beginning, some records, one offset of a group of
 * its own, and the commit. Only records are sent without waiting for the answer to the one before.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "bench.h"

enum step { STEP_INIT, STEP_BEGIN, STEP_PUBLISH, STEP_OFFSETS, STEP_END };

struct producer {
  char id[64];       /* transactional id, and group */
  char producer[64]; /* as the broker says */
  char epoch[24];
  char member[260], generation[24];
  enum step step;
  int64_t sent, published; /* in this transaction */
  bool failed;             /* it is begun anew once all answers are there */
  int64_t offset;          /* committed last */
  int64_t began_at;
};

struct txn_run {
  struct producer *producers;
  char *payload;
  uint64_t transactions;
};

/* ---- requests -------------------------------------------------------------------------------- */

static int send(struct bench *bench, struct bench_connection *connection, const char *command,
                const struct pgcursus_field *fields, size_t count) {
  enum pgcursus_result result =
      pgcursus_send(connection->client, pgcursus_command_by_name(command), fields, count, NULL);
  if (result != PGCURSUS_OK) return cli_report(connection->client, result);
  bench_note_request(connection, clock_monotonic_us(), 0);
  (void)bench;
  return EXIT_DONE;
}

#define FIELD(name, value) \
  { pgcursus_text(name), pgcursus_text(value) }
#define SESSION(producer)                                                               \
  FIELD("transactional_id", (producer)->id), FIELD("producerId", (producer)->producer), \
      FIELD("epoch", (producer)->epoch)

static int send_step(struct bench *bench, struct bench_connection *connection) {
  struct txn_run *run = bench->own;
  struct producer *producer = &run->producers[connection->index];
  const char *topic = bench->options.topic;
  char number[32], partition[24];
  snprintf(partition, sizeof partition, "%" PRId64,
           (int64_t)connection->index % bench->options.partitions);
  switch (producer->step) {
    case STEP_INIT: {
      producer->began_at = clock_monotonic_us();
      const struct pgcursus_field fields[] = {FIELD("transactional_id", producer->id)};
      return send(bench, connection, "INIT_PRODUCER_ID", fields, 1);
    }
    case STEP_BEGIN: {
      const struct pgcursus_field fields[] = {SESSION(producer)};
      return send(bench, connection, "BEGIN_TXN", fields, 3);
    }
    case STEP_PUBLISH: {
      snprintf(number, sizeof number, "%" PRId64, ++producer->sent);
      const struct pgcursus_field fields[] = {
          SESSION(producer), FIELD("topic", topic), FIELD("partition", partition),
          FIELD("seqNum", number), FIELD("message", run->payload)};
      return send(bench, connection, "TXN_PUBLISH", fields, 7);
    }
    case STEP_OFFSETS: {
      snprintf(number, sizeof number, "P0:%" PRId64, producer->offset + 1);
      const struct pgcursus_field fields[] = {SESSION(producer),
                                              FIELD("topic", topic),
                                              FIELD("group", producer->id),
                                              FIELD("member", producer->member),
                                              FIELD("generation", producer->generation),
                                              FIELD("offsets", number)};
      return send(bench, connection, "SEND_OFFSETS_TO_TXN", fields, 8);
    }
    default: {
      const struct pgcursus_field fields[] = {SESSION(producer), FIELD("result", "commit")};
      return send(bench, connection, "END_TXN", fields, 4);
    }
  }
}

static int fill(struct bench *bench, struct bench_connection *connection) {
  const struct txn_run *run = bench->own;
  struct producer *producer = &run->producers[connection->index];
  bool between = producer->step == STEP_INIT;
  if (producer->step != STEP_PUBLISH) {
    if (connection->in_flight > 0 || (bench->stopping && between)) return EXIT_DONE;
    return send_step(bench, connection);
  }
  int status = EXIT_DONE;
  while (producer->sent < bench->options.batch && status == EXIT_DONE && !producer->failed &&
         connection->in_flight < (size_t)bench->options.pipeline) {
    status = send_step(bench, connection);
  }
  return status;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void keep_field(const struct pgcursus_reply *reply, const char *name, char *text,
                       size_t size) {
  struct pgcursus_bytes value = pgcursus_ok_field(reply->payload, name);
  snprintf(text, size, "%.*s", (int)value.length, value.length ? (const char *)value.data : "");
}

static void note_transaction(struct bench *bench, struct producer *producer) {
  struct txn_run *run = bench->own;
  run->transactions++;
  producer->offset++;
  producer->sent = producer->published = 0;
  bench->finished_at = bench->last_answer_at;
  bench->records += (uint64_t)bench->options.batch;
  bench->bytes += (uint64_t)(bench->options.batch * bench->options.size);
  histogram_add(&bench->latency, bench->last_answer_at - producer->began_at);
  int64_t wanted = bench->options.records;
  if (wanted > 0 && bench->records >= (uint64_t)wanted) bench->stopping = true;
}

static int take(struct bench *bench, struct bench_connection *connection,
                const struct pgcursus_reply *reply, enum pgcursus_result result,
                struct bench_request request) {
  struct txn_run *run = bench->own;
  struct producer *producer = &run->producers[connection->index];
  (void)request;
  if (result == PGCURSUS_REFUSED) {
    bench_note_refusal(bench, connection);
    producer->failed = true;
  }
  if (producer->failed) {
    if (connection->in_flight > 0) return EXIT_DONE;
    producer->step = STEP_INIT; /* which aborts what was begun */
    producer->sent = producer->published = 0;
    producer->failed = false;
    return EXIT_DONE;
  }
  bench->requests++;
  switch (producer->step) {
    case STEP_INIT:
      keep_field(reply, "producerId", producer->producer, sizeof producer->producer);
      keep_field(reply, "epoch", producer->epoch, sizeof producer->epoch);
      producer->step = STEP_BEGIN;
      break;
    case STEP_BEGIN:
      producer->step = STEP_PUBLISH;
      break;
    case STEP_PUBLISH:
      if (++producer->published == bench->options.batch) producer->step = STEP_OFFSETS;
      break;
    case STEP_OFFSETS:
      producer->step = STEP_END;
      break;
    case STEP_END:
      note_transaction(bench, producer);
      producer->step = STEP_INIT;
      break;
  }
  return EXIT_DONE;
}

/* ---- set-up ---------------------------------------------------------------------------------- */

static int join_group(struct bench *bench, struct bench_connection *connection) {
  struct txn_run *run = bench->own;
  struct producer *producer = &run->producers[connection->index];
  snprintf(producer->id, sizeof producer->id, "bench-%d-%zu", (int)getpid(), connection->index);
  const struct cli_field fields[] = {
      {"topic", bench->options.topic}, {"group", producer->id}, {"member", "bench"}};
  struct pgcursus_reply reply;
  int status =
      cli_report(connection->client, cli_call(connection->client, "JOIN_GROUP", fields, 3, &reply));
  if (status != EXIT_DONE) return status;
  keep_field(&reply, "member", producer->member, sizeof producer->member);
  keep_field(&reply, "generation", producer->generation, sizeof producer->generation);
  return EXIT_DONE;
}

static int open_producers(struct bench *bench) {
  struct txn_run *run = bench->own;
  size_t size = (size_t)bench->options.size;
  run->producers = memory_allocate_zeroed(bench->connection_count, sizeof *run->producers);
  run->payload = memory_allocate(size + 1);
  memset(run->payload, 'x', size);
  run->payload[size] = '\0';
  int status = EXIT_DONE;
  for (size_t i = 0; i < bench->connection_count && status == EXIT_DONE; i++) {
    status = join_group(bench, &bench->connections[i]);
  }
  return status;
}

static int bench_transactions(struct cli *cli, const struct bench_options *options) {
  struct txn_run run = {.transactions = 0};
  struct bench bench = {.cli = cli,
                        .options = *options,
                        .kind = "transactions",
                        .fill = fill,
                        .take = take,
                        .own = &run};
  int status = bench_prepare_topic(&bench, true);
  if (status == EXIT_DONE) status = bench_open(&bench, (size_t)options->connections);
  if (status == EXIT_DONE) status = open_producers(&bench);
  if (status == EXIT_DONE) status = bench_report(&bench, bench_run(&bench));
  if (run.transactions > 0 && !options->json) {
    double seconds = (double)(bench.finished_at - bench.started_at) / 1e6;
    printf("%-16s %" PRIu64 "\n%-16s %.0f\n", "transactions", run.transactions, "transactions/s",
           (double)run.transactions / seconds);
  }
  free(run.producers);
  free(run.payload);
  bench_close(&bench);
  return status;
}

int cmd_bench_transactions(struct cli *cli, int argc, char **argv) {
  struct bench_options values = {
      .topic = "bench", .connections = 16, .batch = 10, .size = 100, .acks = "all"};
  const struct option_spec options[] = {
      {'t', "topic", "TOPIC", OPTION_TEXT, &values.topic, 0, 0,
       "Created when it does not exist. Default: bench."},
      {'p', "partitions", "N", OPTION_INTEGER, &values.partitions, 1, 100000,
       "For a topic that is created. Default: 4."},
      {'c', "connections", "N", OPTION_INTEGER, &values.connections, 1, 1000, "Default: 16."},
      {0, "batch", "N", OPTION_INTEGER, &values.batch, 1, 10000,
       "Records a transaction. Default: 10."},
      {0, "size", "BYTES", OPTION_INTEGER, &values.size, 1, 1048576,
       "Payload of a record. Default: 100."},
      {0, "pipeline", "N", OPTION_INTEGER, &values.pipeline, 1, 10000,
       "Records of a transaction that are in flight at a time. Default: all."},
      {'n', "records", "N", OPTION_INTEGER, &values.records, 1, INT64_MAX, "Stop after N records."},
      {'s', "seconds", "N", OPTION_INTEGER, &values.seconds, 1, 86400,
       "Stop after N seconds. Default: 5, unless --records is given."},
      {'j', "json", NULL, OPTION_FLAG, &values.json, 0, 0, "Print one JSON object."},
  };
  struct option_usage usage = {
      .command = "bench transactions",
      .synopsis = "[options]",
      .description =
          "Runs transactions on each connection, one after another, and prints records, time, rate "
          "and the latency of a transaction. Each is INIT_PRODUCER_ID, BEGIN_TXN, TXN_PUBLISH for "
          "every record, SEND_OFFSETS_TO_TXN with one offset, and END_TXN. The records are sent "
          "without waiting for their answers, as produce does; every other request waits for what "
          "came before. The topic is also the input of each connection's group.",
      .examples = "  pgcursus bench transactions -c 16 -s 10\n",
      .options = options,
      .option_count = sizeof options / sizeof *options,
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 0, 0, &words, &status)) return status;
  if (values.records == 0 && values.seconds == 0) values.seconds = 5;
  if (values.pipeline == 0) values.pipeline = values.batch;
  return bench_transactions(cli, &values);
}
