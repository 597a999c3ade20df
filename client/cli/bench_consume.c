/* `bench consume`: reads a topic to the end it has when the run starts. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "bench.h"
#include "bench_scan.h"
#include "load.h"

/* The next sequence expected of one producer in one partition; a small open hash table a reader. */
struct expectation {
  uint32_t producer;
  bool used;
  uint64_t next;
};

struct reader {
  int32_t partition;
  struct scan scan;
  uint64_t end;
  struct bench *bench;
  struct expectation *expectations;
  size_t expectation_count, expectation_capacity; /* capacity a power of two */
};

struct consume_run {
  struct reader *readers;
  size_t reader_count;
};

/* ---- verification ---------------------------------------------------------------------------- */

static struct expectation *find_place(struct expectation *table, size_t capacity,
                                      uint32_t producer) {
  size_t place = (producer * 2654435761u) & (capacity - 1);
  while (table[place].used && table[place].producer != producer)
    place = (place + 1) & (capacity - 1);
  return &table[place];
}

static void grow_expectations(struct reader *reader) {
  size_t capacity = reader->expectation_capacity ? reader->expectation_capacity * 2 : 64;
  struct expectation *table = memory_allocate_zeroed(capacity, sizeof *table);
  for (size_t i = 0; i < reader->expectation_capacity; i++) {
    const struct expectation *each = &reader->expectations[i];
    if (each->used) *find_place(table, capacity, each->producer) = *each;
  }
  free(reader->expectations);
  reader->expectations = table;
  reader->expectation_capacity = capacity;
}

/* Every producer's records must be there exactly once and in order, in each partition. */
static void verify_payload(void *own, struct slice payload) {
  struct reader *reader = own;
  uint32_t producer;
  uint64_t sequence;
  reader->bench->verified++;
  if (!load_read_payload(payload, &producer, &sequence)) {
    reader->bench->damaged++;
    return;
  }
  if (reader->expectation_count * 2 >= reader->expectation_capacity) grow_expectations(reader);
  struct expectation *expectation =
      find_place(reader->expectations, reader->expectation_capacity, producer);
  if (!expectation->used) {
    *expectation = (struct expectation){.producer = producer, .used = true};
    reader->expectation_count++;
  }
  if (sequence != expectation->next && reader->bench->damaged++ == 0) {
    (void)cli_complain("partition %" PRId32 ", producer %08" PRIx32 ": sequence %" PRIu64
                       " where %" PRIu64 " was due, at offset %" PRIu64,
                       reader->partition, producer, sequence, expectation->next,
                       reader->scan.expected - 1);
  }
  expectation->next = sequence + 1;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int ask(struct bench *bench, struct bench_connection *connection, uint32_t index) {
  struct consume_run *run = bench->own;
  struct reader *reader = &run->readers[index];
  struct pgcursus_fetch fetch = {
      .topic = bench->options.topic,
      .partition = reader->partition,
      .offset = reader->scan.expected,
      .member = "pgcursus-bench",
      .max_records = (unsigned)bench->options.batch,
  };
  int64_t now = clock_monotonic_us();
  enum pgcursus_result result = pgcursus_send_consume(connection->client, &fetch, NULL);
  if (result != PGCURSUS_OK) return cli_report(connection->client, result);
  bench_note_request(connection, now, index);
  return EXIT_DONE;
}

/* Called once for each connection when it starts: one request for each of its readers. Later ones
 * are sent by take(). */
static int fill(struct bench *bench, struct bench_connection *connection) {
  struct consume_run *run = bench->own;
  if (connection->turn++ > 0) return EXIT_DONE;
  int status = EXIT_DONE;
  for (size_t i = connection->index; i < run->reader_count && status == EXIT_DONE;
       i += bench->connection_count) {
    if (run->readers[i].scan.expected < run->readers[i].end) {
      status = ask(bench, connection, (uint32_t)i);
    }
  }
  return status;
}

static bool all_read(const struct bench *bench) {
  const struct consume_run *run = bench->own;
  if (bench->options.records > 0 && bench->records >= (uint64_t)bench->options.records) return true;
  for (size_t i = 0; i < run->reader_count; i++) {
    if (run->readers[i].scan.expected < run->readers[i].end) return false;
  }
  return true;
}

static int take(struct bench *bench, struct bench_connection *connection,
                const struct pgcursus_reply *reply, enum pgcursus_result result,
                struct bench_request request) {
  struct consume_run *run = bench->own;
  struct reader *reader = &run->readers[request.tag];
  if (result == PGCURSUS_REFUSED) {
    bench_note_refusal(bench, connection);
    bench->stopping = true;
    return EXIT_DONE;
  }
  histogram_add(&bench->latency, bench->last_answer_at - request.sent_at);
  bench->requests++;
  bench->finished_at = bench->last_answer_at;
  uint64_t records = reader->scan.records;
  uint64_t bytes = reader->scan.bytes;
  uint64_t gaps = reader->scan.gaps;
  if (!scan_batch(slice_of(reply->payload.data, reply->payload.length), &reader->scan)) {
    return cli_complain("partition %" PRId32
                        ": malformed batch, or offsets out of order, at %" PRIu64,
                        reader->partition, reader->scan.expected);
  }
  bench->records += reader->scan.records - records;
  bench->bytes += reader->scan.bytes - bytes;
  bench->gaps += reader->scan.gaps - gaps;
  /* What lies between the last visible record and the end (markers, aborted records) is not there
   * for us. */
  if (reader->scan.records == records) reader->end = reader->scan.expected;
  if (all_read(bench)) bench->stopping = true;
  if (bench->stopping || reader->scan.expected >= reader->end) return EXIT_DONE;
  return ask(bench, connection, request.tag);
}

/* ---- set-up ---------------------------------------------------------------------------------- */

static int prepare_readers(struct bench *bench) {
  struct consume_run *run = bench->own;
  int status;
  struct pgcursus *client = cli_connect(bench->cli, &status);
  if (!client) return status;
  size_t count = 0;
  struct cli_offsets *offsets = cli_list_offsets(client, bench->options.topic, -1, &count, &status);
  pgcursus_close(client);
  if (!offsets) return status;
  size_t connections = (size_t)bench->options.connections;
  run->reader_count = connections > count ? connections : count;
  run->readers = memory_allocate_zeroed(run->reader_count, sizeof *run->readers);
  for (size_t i = 0; i < run->reader_count; i++) {
    struct reader *reader = &run->readers[i];
    const struct cli_offsets *from = &offsets[i % count];
    *reader = (struct reader){.partition = from->partition, .end = from->latest, .bench = bench};
    reader->scan = (struct scan){.expected = from->earliest, .own = reader};
    if (bench->options.verify) reader->scan.see = verify_payload;
  }
  free(offsets);
  return EXIT_DONE;
}

static void release_readers(struct consume_run *run) {
  for (size_t i = 0; i < run->reader_count; i++) free(run->readers[i].expectations);
  free(run->readers);
}

static int bench_consume(struct cli *cli, const struct bench_options *options) {
  struct consume_run run = {.readers = NULL};
  struct bench bench = {
      .cli = cli, .options = *options, .kind = "consume", .fill = fill, .take = take, .own = &run};
  int status = bench_prepare_topic(&bench, false);
  if (status == EXIT_DONE && bench.options.connections == 0) {
    bench.options.connections = bench.options.partitions;
  }
  if (status == EXIT_DONE) status = prepare_readers(&bench);
  if (status == EXIT_DONE) status = bench_open(&bench, (size_t)bench.options.connections);
  if (status == EXIT_DONE) {
    bench.stopping = all_read(&bench);
    status = bench_report(&bench, bench_run(&bench));
  }
  release_readers(&run);
  bench_close(&bench);
  return status;
}

int cmd_bench_consume(struct cli *cli, int argc, char **argv) {
  struct bench_options values = {.topic = "bench", .batch = 1000};
  const struct option_spec options[] = {
      {'t', "topic", "TOPIC", OPTION_TEXT, &values.topic, 0, 0, "Default: bench."},
      {'c', "connections", "N", OPTION_INTEGER, &values.connections, 1, 1000,
       "Partitions are shared out among them; more connections than partitions read partitions "
       "several "
       "times. Default: one a partition."},
      {0, "batch", "N", OPTION_INTEGER, &values.batch, 1, 8192,
       "Records asked for at a time. Default: 1000."},
      {'n', "records", "N", OPTION_INTEGER, &values.records, 1, INT64_MAX,
       "Stop after N records. Default: at the end."},
      {'s', "seconds", "N", OPTION_INTEGER, &values.seconds, 1, 86400, "Stop after N seconds."},
      {0, "verify", NULL, OPTION_FLAG, &values.verify, 0, 0,
       "Check what bench publish --verify sent: every record of every producer exactly once, in "
       "order and "
       "undamaged."},
      {'j', "json", NULL, OPTION_FLAG, &values.json, 0, 0, "Print one JSON object."},
  };
  struct option_usage usage = {
      .command = "bench consume",
      .synopsis = "[options]",
      .description =
          "Reads TOPIC from its first record to the end it has now, one request in flight for each "
          "partition, "
          "and prints records, time, rate and the latency of a request. Checks frames, record "
          "boundaries and "
          "that offsets ascend; missing offsets are counted.",
      .examples =
          "  pgcursus bench publish -n 1000000 --verify && pgcursus bench consume --verify\n",
      .options = options,
      .option_count = sizeof options / sizeof *options,
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 0, 0, &words, &status)) return status;
  return bench_consume(cli, &values);
}
