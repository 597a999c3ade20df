/* `produce`: lines become records, many requests in flight over one connection.
 *
 * One connection keeps the order of the input in every partition. A refused record is reported with
 * its line and the rest goes on; nothing is sent twice, because without sequence numbers that might
 * store it twice. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "cli.h"
#include "lines.h"
#include "produce_txn.h"

#define SINGLES_IN_FLIGHT 64u
#define BATCHES_IN_FLIGHT 8u
#define BATCH_BYTES (4u * 1024u * 1024u)
#define LINES_A_ROUND 256

struct produce_options {
  const char *topic;
  int64_t partition; /* -1: by key, else in turn */
  const char *key, *separator, *acks, *producer_id, *transactional_id;
  int64_t batch, linger_ms, epoch;
  bool idempotent;
};

/* A record waiting in a batch; positions in the partition's bytes. */
struct waiting_record {
  size_t key, key_length, payload, payload_length;
};

struct partition_state {
  int32_t partition;
  uint64_t next_sequence;
  struct buffer bytes;
  struct waiting_record *records;
  size_t count;
  uint64_t first_line, last_line;
};

/* A request whose answer is due. */
struct flight {
  uint64_t first_line, last_line, count;
};

struct producer {
  struct cli *cli;
  struct pgcursus *client;
  struct produce_options options;
  struct line_reader input;
  struct produce_txn txn;
  struct partition_state *partitions; /* one, when the partition is given or the broker's choice */
  int32_t partition_count;
  int32_t turn;
  struct pgcursus_record *records; /* room for one batch */
  struct flight flights[SINGLES_IN_FLIGHT];
  size_t flight_first, flight_count;
  uint64_t published, refused, sent;
  int64_t linger_until; /* when the waiting records leave; 0 = none wait */
  int64_t last_answer_at, started_at, progress_at;
};

/* ---- answers --------------------------------------------------------------------------------- */

static size_t flight_limit(const struct producer *producer) {
  return producer->options.batch > 0 ? BATCHES_IN_FLIGHT : SINGLES_IN_FLIGHT;
}

static bool is_silent(const struct producer *producer) {
  return strcmp(producer->options.acks, "0") == 0;
}

static void report_lines(struct producer *producer, const struct flight *flight, const char *text) {
  cli_clear_progress();
  if (flight->first_line == flight->last_line) {
    fprintf(stderr, "pgcursus: line %" PRIu64 ": %s\n", flight->first_line, text);
  } else {
    fprintf(stderr, "pgcursus: %" PRIu64 " records of lines %" PRIu64 " to %" PRIu64 ": %s\n",
            flight->count, flight->first_line, flight->last_line, text);
  }
  producer->refused += flight->count;
}

/* Takes the answers that are there. Also asked while none is due: that is how a lost connection
 * shows. */
static int take_answers(struct producer *producer) {
  for (;;) {
    struct pgcursus_reply reply;
    enum pgcursus_result result = pgcursus_try_receive(producer->client, &reply);
    if (result == PGCURSUS_AGAIN) return EXIT_DONE;
    if (result != PGCURSUS_OK && result != PGCURSUS_REFUSED)
      return cli_report(producer->client, result);
    struct flight *flight = &producer->flights[producer->flight_first];
    producer->flight_first = (producer->flight_first + 1) % SINGLES_IN_FLIGHT;
    producer->flight_count--;
    producer->last_answer_at = clock_monotonic_us();
    if (result == PGCURSUS_OK) {
      producer->published += flight->count;
    } else {
      report_lines(producer, flight, pgcursus_last_error(producer->client)->readable);
    }
  }
}

/* Notes what has been queued, or reports why it cannot be sent. */
static int note_sent(struct producer *producer, enum pgcursus_result result, struct flight flight) {
  if (result == PGCURSUS_INVALID) {
    report_lines(producer, &flight, pgcursus_problem(producer->client));
    return EXIT_DONE;
  }
  if (result != PGCURSUS_OK) return cli_report(producer->client, result);
  producer->sent += flight.count;
  if (is_silent(producer)) return EXIT_DONE;
  if (producer->flight_count == 0) producer->last_answer_at = clock_monotonic_us();
  size_t place = (producer->flight_first + producer->flight_count++) % SINGLES_IN_FLIGHT;
  producer->flights[place] = flight;
  return EXIT_DONE;
}

/* ---- records --------------------------------------------------------------------------------- */

/* Cuts a line at the separator; without one, or without a match, the whole line is the payload. */
static void split_line(const struct produce_options *options, struct slice line, struct slice *key,
                       struct slice *payload) {
  *key = slice_text(options->key);
  *payload = line;
  if (!options->separator || line.length == 0) return;
  size_t length = strlen(options->separator);
  const uint8_t *cut = memmem(line.data, line.length, options->separator, length);
  if (!cut) return;
  *key = slice_of(line.data, (size_t)(cut - line.data));
  *payload = slice_of(cut + length, line.length - key->length - length);
}

static struct pgcursus_bytes as_bytes(struct slice slice) {
  return (struct pgcursus_bytes){slice.data, slice.length};
}

static int send_single(struct producer *producer, struct slice key, struct slice payload) {
  const struct produce_options *options = &producer->options;
  uint64_t line = producer->input.line;
  if (producer->txn.id) {
    return note_sent(producer,
                     produce_txn_send(&producer->txn, producer->client, options->topic,
                                      options->partition, as_bytes(key), as_bytes(payload)),
                     (struct flight){line, line, 1});
  }
  struct pgcursus_record record = {
      .key = as_bytes(key),
      .payload = as_bytes(payload),
      .producer_id = pgcursus_text(options->producer_id),
      .epoch = options->epoch,
  };
  if (options->idempotent) record.sequence = producer->partitions[0].next_sequence++;
  return note_sent(
      producer,
      pgcursus_send_publish(producer->client, options->topic, (int32_t)options->partition,
                            options->acks, options->idempotent, &record, NULL),
      (struct flight){line, line, 1});
}

static void fill_record(struct producer *producer, struct partition_state *state, size_t index) {
  const struct produce_options *options = &producer->options;
  const struct waiting_record *waiting = &state->records[index];
  struct pgcursus_record *record = &producer->records[index];
  *record = (struct pgcursus_record){
      .key = {state->bytes.data + waiting->key, waiting->key_length},
      .payload = {state->bytes.data + waiting->payload, waiting->payload_length},
      .epoch = options->epoch,
      .producer_id = pgcursus_text(options->producer_id),
  };
  if (options->idempotent) record->sequence = state->next_sequence++;
}

static int send_waiting(struct producer *producer, struct partition_state *state) {
  for (size_t i = 0; i < state->count; i++) fill_record(producer, state, i);
  struct pgcursus_batch batch = {
      .topic = pgcursus_text(producer->options.topic),
      .partition = state->partition,
      .acks = pgcursus_text(producer->options.acks),
      .idempotent = producer->options.idempotent,
      .record_count = state->count,
      .records = producer->records,
  };
  struct flight flight = {state->first_line, state->last_line, state->count};
  state->count = 0;
  enum pgcursus_result result = pgcursus_send_batch(producer->client, &batch, NULL);
  state->bytes.length = 0;
  return note_sent(producer, result, flight);
}

static struct partition_state *choose_partition(struct producer *producer, struct slice key) {
  if (producer->partition_count == 1) return &producer->partitions[0];
  int32_t index;
  if (key.length > 0) {
    index = pgcursus_partition_of_key(as_bytes(key), producer->partition_count);
  } else {
    index = producer->turn;
    producer->turn = (producer->turn + 1) % producer->partition_count;
  }
  return &producer->partitions[index];
}

static int add_to_batch(struct producer *producer, struct slice key, struct slice payload) {
  struct partition_state *state = choose_partition(producer, key);
  if (!state->records) {
    state->records = memory_allocate((size_t)producer->options.batch * sizeof *state->records);
  }
  if (state->count == 0) state->first_line = producer->input.line;
  state->last_line = producer->input.line;
  struct waiting_record *record = &state->records[state->count++];
  record->key = state->bytes.length;
  record->key_length = key.length;
  buffer_append_slice(&state->bytes, key);
  record->payload = state->bytes.length;
  record->payload_length = payload.length;
  buffer_append_slice(&state->bytes, payload);
  if (state->count == (size_t)producer->options.batch || state->bytes.length >= BATCH_BYTES) {
    return send_waiting(producer, state);
  }
  if (producer->linger_until == 0) {
    producer->linger_until = clock_monotonic_us() + producer->options.linger_ms * 1000;
  }
  return EXIT_DONE;
}

static bool may_send(const struct producer *producer) {
  return producer->flight_count < flight_limit(producer);
}

/* Takes the lines that are in memory, as far as answers leave room. */
static int take_lines(struct producer *producer) {
  int status = EXIT_DONE;
  struct slice line, key, payload;
  for (int i = 0; i < LINES_A_ROUND && status == EXIT_DONE && may_send(producer); i++) {
    if (!lines_next(&producer->input, &line)) break;
    split_line(&producer->options, line, &key, &payload);
    status = producer->options.batch > 0 ? add_to_batch(producer, key, payload)
                                         : send_single(producer, key, payload);
  }
  return status;
}

/* Sends the batches that are not full. Those for which there is no room yet stay for the next
 * round. */
static int send_rest(struct producer *producer) {
  int status = EXIT_DONE;
  bool some_left = false;
  for (int32_t i = 0; i < producer->partition_count && status == EXIT_DONE; i++) {
    if (producer->partitions[i].count == 0) continue;
    if (may_send(producer)) {
      status = send_waiting(producer, &producer->partitions[i]);
    } else {
      some_left = true;
    }
  }
  if (!some_left) producer->linger_until = 0;
  return status;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void show_progress(struct producer *producer, int64_t now) {
  if (now - producer->progress_at < 500000 || !cli_shows_progress(producer->cli)) return;
  producer->progress_at = now;
  double seconds = (double)(now - producer->started_at) / 1e6;
  uint64_t count = is_silent(producer) ? producer->sent : producer->published;
  cli_show_progress("%" PRIu64 " records, %.0f/s", count, (double)count / seconds);
}

/* How long poll(2) may wait: until the linger, the answer timeout or the next line of progress is
 * due. */
static int wait_limit(const struct producer *producer, int64_t now) {
  int64_t until = now + 500000;
  if (producer->linger_until && producer->linger_until < until) until = producer->linger_until;
  return until <= now ? 0 : (int)((until - now) / 1000 + 1);
}

/* Waits for room, answers or input, and reads input. */
static int wait_for_more(struct producer *producer, bool input_pending) {
  int64_t now = clock_monotonic_us();
  if (producer->flight_count > 0 &&
      now - producer->last_answer_at > producer->cli->timeout_ms * 1000) {
    return cli_complain("no answer in time");
  }
  show_progress(producer, now);
  struct line_reader *input = &producer->input;
  bool wants_input = may_send(producer) && !input->ended && !input_pending;
  bool opens_file = wants_input && input->fd < 0;
  struct pollfd entries[2] = {
      {.fd = pgcursus_fd(producer->client), .events = pgcursus_poll_events(producer->client)},
      {.fd = wants_input ? input->fd : -1, .events = POLLIN},
  };
  bool ready = opens_file || (input_pending && may_send(producer));
  if (poll(entries, 2, ready ? 0 : wait_limit(producer, now)) < 0 && errno != EINTR) {
    return cli_complain("poll: %s", strerror(errno));
  }
  if (!wants_input || (!opens_file && entries[1].revents == 0)) return EXIT_DONE;
  const char *problem = lines_fill(input);
  return problem ? cli_complain("cannot read the input: %s", problem) : EXIT_DONE;
}

static bool is_finished(const struct producer *producer) {
  if (!producer->input.ended || producer->input.searched < producer->input.bytes.length)
    return false;
  if (producer->linger_until || producer->flight_count > 0) return false;
  return true;
}

static int run_producer(struct producer *producer) {
  for (;;) {
    if (cli_is_stopping() && !producer->input.ended) lines_stop(&producer->input);
    int status = take_answers(producer);
    if (status == EXIT_DONE) status = take_lines(producer);
    bool pending = producer->input.searched < producer->input.bytes.length;
    bool due = producer->linger_until && clock_monotonic_us() >= producer->linger_until;
    if (status == EXIT_DONE && (due || (producer->input.ended && !pending))) {
      status = send_rest(producer);
    }
    if (status != EXIT_DONE) return status;
    enum pgcursus_result result = pgcursus_try_flush(producer->client);
    if (result != PGCURSUS_OK && result != PGCURSUS_AGAIN)
      return cli_report(producer->client, result);
    if (is_finished(producer))
      return cli_report(producer->client, pgcursus_flush(producer->client));
    /* Nothing more is queued while the socket is full. */
    while (result == PGCURSUS_AGAIN && is_silent(producer)) {
      result = pgcursus_flush(producer->client);
      if (result != PGCURSUS_OK) return cli_report(producer->client, result);
    }
    status = wait_for_more(producer, pending);
    if (status != EXIT_DONE) return status;
  }
}

/* ---- set-up ---------------------------------------------------------------------------------- */

/* Which partitions batches are made for. */
static int prepare_partitions(struct producer *producer) {
  int status = EXIT_DONE;
  const struct produce_options *options = &producer->options;
  producer->partition_count = 1;
  if (options->batch > 0 && options->partition < 0) {
    producer->partition_count = cli_partition_count(producer->client, options->topic, &status);
    if (producer->partition_count < 0) {
      producer->partition_count = 0;
      return status;
    }
  }
  producer->partitions =
      memory_allocate_zeroed((size_t)producer->partition_count, sizeof *producer->partitions);
  for (int32_t i = 0; i < producer->partition_count; i++) {
    producer->partitions[i].partition = options->partition >= 0 ? (int32_t)options->partition : i;
    producer->partitions[i].next_sequence = 1;
  }
  if (options->batch > 0) {
    producer->records = memory_allocate((size_t)options->batch * sizeof *producer->records);
  }
  return EXIT_DONE;
}

static void release_producer(struct producer *producer) {
  for (int32_t i = 0; producer->partitions && i < producer->partition_count; i++) {
    buffer_release(&producer->partitions[i].bytes);
    free(producer->partitions[i].records);
  }
  free(producer->partitions);
  free(producer->records);
  lines_close(&producer->input);
  pgcursus_close(producer->client);
}

static int summarize(struct producer *producer, int status) {
  uint64_t unknown = 0;
  for (size_t i = 0; i < producer->flight_count; i++) {
    unknown += producer->flights[(producer->flight_first + i) % SINGLES_IN_FLIGHT].count;
  }
  if (unknown > 0) {
    (void)cli_complain("%" PRIu64 " records were sent and not answered: they may be stored or not",
                       unknown);
  }
  if (producer->refused > 0) {
    (void)cli_complain("%" PRIu64 " records were refused, %" PRIu64 " are published",
                       producer->refused, producer->published);
  } else if (cli_shows_progress(producer->cli)) {
    cli_clear_progress();
    uint64_t count = is_silent(producer) ? producer->sent : producer->published;
    fprintf(stderr, "%" PRIu64 " records %s\n", count, is_silent(producer) ? "sent" : "published");
  }
  if (status == EXIT_DONE && producer->refused > 0) return EXIT_REFUSED;
  return status;
}

/* All of the input or nothing: one refused record, or a stop half-way, aborts the whole. */
static int end_transaction(struct producer *producer) {
  bool commit = producer->refused == 0 && !cli_is_stopping();
  int status = produce_txn_end(&producer->txn, producer->client, commit);
  if (commit && status == EXIT_DONE) return status;
  producer->published = 0;
  (void)cli_complain("nothing is published: the transaction %s",
                     commit ? "was not committed" : "is aborted");
  return status == EXIT_DONE ? EXIT_REFUSED : status;
}

static int produce(struct cli *cli, const struct produce_options *options, char **files,
                   int count) {
  int status;
  struct producer producer = {
      .cli = cli, .options = *options, .txn = {.id = options->transactional_id}};
  producer.client = cli_connect(cli, &status);
  if (!producer.client) return status;
  producer.started_at = producer.progress_at = clock_monotonic_us();
  lines_open(&producer.input, files, count);
  status = prepare_partitions(&producer);
  if (status == EXIT_DONE && producer.txn.id) {
    status = produce_txn_begin(&producer.txn, producer.client);
  }
  if (status == EXIT_DONE) status = run_producer(&producer);
  if (status == EXIT_DONE && producer.txn.id) status = end_transaction(&producer);
  status = summarize(&producer, status);
  release_producer(&producer);
  return status;
}

/* Combinations that make no sense, before anything is sent. */
static int check_options(struct produce_options *options) {
  if (options->key && options->separator)
    return cli_complain("produce: -k and -K exclude each other");
  if (options->separator && !*options->separator)
    return cli_complain("produce: -K needs a separator");
  if (options->separator && strcmp(options->separator, "\\t") == 0) options->separator = "\t";
  if (!options->acks) options->acks = options->idempotent ? "all" : "1";
  static const char *const acks[] = {"0", "1", "-1", "all"};
  bool known = false;
  for (size_t i = 0; i < 4; i++) known = known || strcmp(options->acks, acks[i]) == 0;
  if (!known) return cli_complain("produce: --acks is 0, 1, -1 or all, not %s", options->acks);
  if (options->idempotent && !options->producer_id) {
    return cli_complain("produce: --idempotent needs a --producer-id");
  }
  if (options->idempotent && options->batch == 0 && options->partition < 0) {
    return cli_complain(
        "produce: --idempotent needs -p or --batch, because sequence numbers belong to a "
        "partition");
  }
  if (options->transactional_id &&
      (options->idempotent || options->batch > 0 || options->producer_id)) {
    return cli_complain(
        "produce: --transactional-id excludes --idempotent, --batch and --producer-id");
  }
  if (!options->producer_id) options->producer_id = "pgcursus-cli";
  return EXIT_DONE;
}

int cmd_produce(struct cli *cli, int argc, char **argv) {
  struct produce_options values = {.partition = -1, .linger_ms = 100};
  const struct option_spec options[] = {
      {'p', "partition", "N", OPTION_INTEGER, &values.partition, -1, INT32_MAX,
       "Publish to partition N. Default: by the key, else in turn."},
      {'k', "key", "KEY", OPTION_TEXT, &values.key, 0, 0, "The key of every record."},
      {'K', "key-separator", "SEP", OPTION_TEXT, &values.separator, 0, 0,
       "What precedes the first SEP of a line is its key (\\t is a tab). A line without SEP has no "
       "key."},
      {0, "acks", "A", OPTION_TEXT, &values.acks, 0, 0,
       "0: do not wait and never hear of a failure; 1: stored; all (-1): on the synchronous "
       "standbys too. "
       "Default: 1, with --idempotent all."},
      {0, "batch", "N", OPTION_INTEGER, &values.batch, 1, 100000,
       "Group up to N lines of a partition into one batch, which is stored whole or not at all. "
       "Much faster. "
       "Default: each line is a request of its own and the broker chooses the partition."},
      {0, "linger-ms", "N", OPTION_INTEGER, &values.linger_ms, 0, 60000,
       "How long a batch that is not full waits for more lines. Default: 100."},
      {0, "producer-id", "ID", OPTION_TEXT, &values.producer_id, 0, 0,
       "Stored with each record. Default: pgcursus-cli."},
      {0, "idempotent", NULL, OPTION_FLAG, &values.idempotent, 0, 0,
       "Number the records from 1 in each partition, so that repeating the same input with the "
       "same producer "
       "id stores nothing twice."},
      {0, "epoch", "N", OPTION_INTEGER, &values.epoch, 0, 0,
       "The producer's epoch; a higher one begins a new numbering and locks out the older. "
       "Default: 0."},
      {0, "transactional-id", "ID", OPTION_TEXT, &values.transactional_id, 0, 0,
       "Publish the whole input in one transaction, of at most 10000 records: read_committed "
       "consumers see all of it or nothing. One refused record aborts it."},
  };
  struct option_usage usage = {
      .command = "produce",
      .synopsis = "TOPIC [options] [FILE ...]",
      .description =
          "Publishes each line of standard input, or of the files, as a record. A refused record "
          "is reported "
          "with its line number and the rest goes on; the exit status is then 1. When the "
          "connection is lost, "
          "what was not answered may be stored or not, and how much that is is said.",
      .examples =
          "  echo hello | pgcursus produce orders\n"
          "  pgcursus produce orders -K : --batch 1000 --compression lz4 orders.txt\n",
      .options = options,
      .option_count = sizeof options / sizeof *options,
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 1, -1, &words, &status)) return status;
  values.topic = argv[0];
  status = check_options(&values);
  return status == EXIT_DONE ? produce(cli, &values, argv + 1, words - 1) : status;
}
