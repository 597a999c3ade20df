/* `consume`: long polls, one connection a partition, records to stdout as they come.
 *
 * Keeps only the next offset of each partition. Commits as a member of a group (consume_group.c),
 * when there is one, after the records have been written out. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "cli.h"
#include "consume_group.h"
#include "format.h"

#define LONG_POLL_MS 5000u

struct consume_options {
  const char *topic, *format, *isolation, *offset, *group;
  int64_t partition, count;
  bool stop_at_end, stream;
};

struct partition_reader {
  struct pgcursus *client;
  int32_t partition;
  uint64_t offset; /* the next one wanted */
  int64_t asked_at;
  bool done;
};

struct consumer {
  struct cli *cli;
  struct consume_options options;
  struct partition_reader *readers;
  struct pollfd *entries;
  size_t count;
  int64_t left; /* records still wanted; -1 = all */
  uint64_t printed;
  struct group_member *member; /* NULL without -g */
  bool has_changed;            /* the group has given the member other partitions */
};

/* ---- where to start -------------------------------------------------------------------------- */

static bool is_number(const char *text) {
  return *text && text[strspn(text, "0123456789")] == '\0';
}

/* earliest, latest, N, or -N for the last N. */
static uint64_t start_offset(const char *wanted, const struct cli_offsets *offsets) {
  if (strcmp(wanted, "earliest") == 0) return offsets->earliest;
  if (strcmp(wanted, "latest") == 0) return offsets->latest;
  if (*wanted != '-') return strtoull(wanted, NULL, 10);
  uint64_t back = strtoull(wanted + 1, NULL, 10);
  return offsets->latest - offsets->earliest > back ? offsets->latest - back : offsets->earliest;
}

static void close_readers(struct consumer *consumer) {
  for (size_t i = 0; i < consumer->count; i++) pgcursus_close(consumer->readers[i].client);
  free(consumer->readers);
  free(consumer->entries);
  consumer->readers = NULL;
  consumer->entries = NULL;
  consumer->count = 0;
}

static void allocate_readers(struct consumer *consumer, size_t count) {
  consumer->count = count;
  consumer->readers = memory_allocate_zeroed(count + 1, sizeof *consumer->readers);
  consumer->entries = memory_allocate_zeroed(count + 1, sizeof *consumer->entries);
}

/* A pattern or a given place needs no look at the offsets, and a pattern allows none. */
static int prepare_readers(struct consumer *consumer, struct pgcursus *client) {
  const struct consume_options *options = &consumer->options;
  struct cli_offsets given = {.partition = (int32_t)options->partition};
  struct cli_offsets *offsets = &given;
  consumer->count = 1;
  bool is_pattern = strpbrk(options->topic, "*?") != NULL;
  if (is_pattern && (options->partition < 0 || strcmp(options->offset, "latest") == 0 ||
                     *options->offset == '-')) {
    return cli_complain("consume: a pattern needs -p, and -o earliest or an offset");
  }
  int status = EXIT_DONE;
  if (!is_pattern && !(options->partition >= 0 && is_number(options->offset))) {
    offsets = cli_list_offsets(client, options->topic, (int32_t)options->partition,
                               &consumer->count, &status);
    if (!offsets) {
      consumer->count = 0;
      return status;
    }
  }
  allocate_readers(consumer, consumer->count);
  for (size_t i = 0; i < consumer->count; i++) {
    consumer->readers[i].partition = offsets[i].partition;
    consumer->readers[i].offset = start_offset(options->offset, &offsets[i]);
  }
  if (offsets != &given) free(offsets);
  return EXIT_DONE;
}

/* The first connection has asked for the offsets and becomes the first reader's. */
static int connect_readers(struct consumer *consumer, struct pgcursus *first) {
  consumer->readers[0].client = first;
  for (size_t i = 1; i < consumer->count; i++) {
    int status;
    consumer->readers[i].client = cli_connect(consumer->cli, &status);
    if (!consumer->readers[i].client) return status;
  }
  return EXIT_DONE;
}

/* ---- records --------------------------------------------------------------------------------- */

static int ask(struct consumer *consumer, struct partition_reader *reader) {
  const struct consume_options *options = &consumer->options;
  struct pgcursus_fetch fetch = {
      .topic = options->topic,
      .partition = reader->partition,
      .offset = reader->offset,
      .member = consumer->member ? consumer->member->id : "pgcursus-cli",
      .group = options->group,
      .isolation = options->isolation,
      .wait_ms = options->stop_at_end ? 0 : LONG_POLL_MS,
  };
  if (consumer->left >= 0 && consumer->left < 8192) fetch.max_records = (unsigned)consumer->left;
  bool is_streaming = consumer->options.stream && reader->asked_at > 0;
  reader->asked_at = clock_monotonic_us();
  if (is_streaming) return EXIT_DONE; /* the next frame comes by itself */
  enum pgcursus_result result = consumer->options.stream
                                    ? pgcursus_send_stream(reader->client, &fetch, NULL)
                                    : pgcursus_send_consume(reader->client, &fetch, NULL);
  if (result == PGCURSUS_OK) result = pgcursus_try_flush(reader->client);
  return result == PGCURSUS_AGAIN ? EXIT_DONE : cli_report(reader->client, result);
}

/* How many were printed. */
static size_t print_records(struct consumer *consumer, const struct pgcursus_batch *batch) {
  const char *format = consumer->options.format;
  bool as_json = strcmp(format, "json") == 0;
  size_t i = 0;
  for (; i < batch->record_count && consumer->left != 0; i++) {
    if (as_json) {
      format_record_json(stdout, batch->topic, batch->partition, &batch->records[i]);
    } else {
      format_record(stdout, format, batch->topic, batch->partition, &batch->records[i]);
    }
    consumer->printed++;
    if (consumer->left > 0) consumer->left--;
  }
  return i;
}

/* What has been written out is done with. */
static int commit_printed(struct consumer *consumer, int32_t partition, uint64_t next_offset) {
  if (consumer->member == NULL) return EXIT_DONE;
  int status = cli_finish_output();
  if (status != EXIT_DONE) return status;
  return group_member_commit(consumer->member, partition, next_offset, &consumer->has_changed);
}

/* The next request leaves before the records are printed, so that the broker works meanwhile. */
static int take_batch(struct consumer *consumer, struct partition_reader *reader,
                      const struct pgcursus_reply *reply) {
  if (reply->is_stream_end) {
    cli_complain("partition %d: %.*s", reader->partition, (int)reply->payload.length,
                 (const char *)reply->payload.data);
    return EXIT_REFUSED;
  }
  if (reply->is_stream && reply->payload.length == 0) return ask(consumer, reader); /* keepalive */
  struct pgcursus_batch batch;
  int status = cli_report(reader->client, pgcursus_read_batch(reader->client, reply, &batch));
  if (status != EXIT_DONE) return status;
  if (batch.record_count > 0) reader->offset = batch.records[batch.record_count - 1].offset + 1;
  if (batch.record_count == 0 && consumer->options.stop_at_end) reader->done = true;
  bool enough = consumer->left >= 0 && (uint64_t)consumer->left <= batch.record_count;
  if (!reader->done && !enough) status = ask(consumer, reader);
  size_t printed = print_records(consumer, &batch);
  if (status != EXIT_DONE || printed == 0) return status;
  return commit_printed(consumer, reader->partition, batch.records[printed - 1].offset + 1);
}

static int serve(struct consumer *consumer, struct partition_reader *reader) {
  struct pgcursus_reply reply;
  enum pgcursus_result result = pgcursus_try_flush(reader->client);
  if (result == PGCURSUS_OK) result = pgcursus_try_receive(reader->client, &reply);
  if (result == PGCURSUS_AGAIN) return EXIT_DONE;
  if (result != PGCURSUS_OK) return cli_report(reader->client, result);
  return take_batch(consumer, reader, &reply);
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* Fills the poll entries of readers that are not done; false when there is none. */
static bool watch(struct consumer *consumer) {
  bool any = false;
  for (size_t i = 0; i < consumer->count; i++) {
    struct partition_reader *reader = &consumer->readers[i];
    consumer->entries[i] = (struct pollfd){
        .fd = reader->done ? -1 : pgcursus_fd(reader->client),
        .events = pgcursus_poll_events(reader->client),
    };
    any = any || !reader->done;
  }
  return any;
}

static int check_overdue(struct consumer *consumer) {
  int64_t limit = (consumer->cli->timeout_ms + LONG_POLL_MS) * 1000;
  int64_t now = clock_monotonic_us();
  for (size_t i = 0; i < consumer->count; i++) {
    struct partition_reader *reader = &consumer->readers[i];
    if (!reader->done && now - reader->asked_at > limit) {
      return cli_complain("partition %d: no answer in time", reader->partition);
    }
  }
  return EXIT_DONE;
}

static int ask_all(struct consumer *consumer) {
  int status = EXIT_DONE;
  for (size_t i = 0; i < consumer->count && status == EXIT_DONE; i++) {
    status = ask(consumer, &consumer->readers[i]);
  }
  return status;
}

/* Readers for what the member has now, over new connections: the old ones remember how far they
 * have delivered, which somebody else may have gone beyond. */
static int follow_assignment(struct consumer *consumer) {
  const struct group_member *member = consumer->member;
  int status = EXIT_DONE;
  size_t known = 0;
  consumer->has_changed = false;
  close_readers(consumer);
  struct cli_offsets *offsets =
      cli_list_offsets(member->client, member->topic, -1, &known, &status);
  if (offsets == NULL) return status;
  allocate_readers(consumer, member->partition_count);
  for (size_t i = 0; i < consumer->count && status == EXIT_DONE; i++) {
    struct partition_reader *reader = &consumer->readers[i];
    reader->partition = member->partitions[i];
    if ((size_t)reader->partition < known) {
      reader->offset = start_offset(consumer->options.offset, &offsets[reader->partition]);
    }
    reader->client = cli_connect(consumer->cli, &status);
  }
  free(offsets);
  return status == EXIT_DONE ? ask_all(consumer) : status;
}

static int keep_membership(struct consumer *consumer) {
  int status = EXIT_DONE;
  if (consumer->member == NULL) return status;
  if (!consumer->has_changed) status = group_member_beat(consumer->member, &consumer->has_changed);
  if (status == EXIT_DONE && consumer->has_changed) status = follow_assignment(consumer);
  return status;
}

/* A member that has no partition at the moment waits for some, unless it shall stop at their end.
 */
static bool goes_on(struct consumer *consumer) {
  if (consumer->left == 0 || cli_is_stopping()) return false;
  return watch(consumer) || (consumer->member && !consumer->options.stop_at_end);
}

static int run_consumer(struct consumer *consumer) {
  int status = EXIT_DONE;
  while (status == EXIT_DONE && goes_on(consumer)) {
    if (fflush(stdout) != 0) break; /* cli_finish_output() says why */
    int ready = poll(consumer->entries, consumer->count, 1000);
    if (ready < 0 && errno != EINTR) return cli_complain("poll: %s", strerror(errno));
    if (ready == 0) status = check_overdue(consumer);
    for (size_t i = 0; ready > 0 && i < consumer->count && status == EXIT_DONE; i++) {
      if (consumer->entries[i].revents) status = serve(consumer, &consumer->readers[i]);
      if (consumer->has_changed) break;
    }
    if (status == EXIT_DONE) status = keep_membership(consumer);
  }
  return status;
}

static int consume_as_member(struct consumer *consumer, struct pgcursus *client) {
  struct group_member member;
  int status = group_member_join(&member, client, consumer->options.group, consumer->options.topic,
                                 consumer->cli->quiet);
  consumer->member = &member;
  if (status == EXIT_DONE) status = follow_assignment(consumer);
  if (status == EXIT_DONE) status = run_consumer(consumer);
  close_readers(consumer);
  group_member_end(&member);
  consumer->member = NULL;
  return status;
}

static int consume_alone(struct consumer *consumer, struct pgcursus *client) {
  int status = prepare_readers(consumer, client);
  if (consumer->count == 0 || !consumer->readers) {
    pgcursus_close(client);
    return status;
  }
  status = connect_readers(consumer, client);
  if (status == EXIT_DONE) status = ask_all(consumer);
  if (status == EXIT_DONE) status = run_consumer(consumer);
  close_readers(consumer);
  return status;
}

static int consume(struct cli *cli, const struct consume_options *options) {
  int status;
  struct pgcursus *client = cli_connect(cli, &status);
  if (!client) return status;
  struct consumer consumer = {.cli = cli, .options = *options, .left = options->count};
  /* A name of its own, under which nothing is committed, and no other stream is open. */
  char own_group[60];
  snprintf(own_group, sizeof own_group, "pgcursus-cli-%ld-%lld", (long)getpid(),
           (long long)clock_monotonic_us());
  if (options->stream) consumer.options.group = own_group;
  status = options->group ? consume_as_member(&consumer, client) : consume_alone(&consumer, client);
  int output = cli_finish_output();
  return status == EXIT_DONE ? output : status;
}

static int check_options(const struct consume_options *options) {
  if (options->group && options->partition >= 0) {
    return cli_complain("consume: with -g the group chooses the partitions, so -p is no use");
  }
  if (options->stream &&
      (options->group || options->stop_at_end || strpbrk(options->topic, "*?"))) {
    return cli_complain("consume: --stream goes with neither -g, -e nor a pattern");
  }
  const char *offset = options->offset;
  if (strcmp(offset, "earliest") != 0 && strcmp(offset, "latest") != 0 && !is_number(offset) &&
      !(*offset == '-' && is_number(offset + 1))) {
    return cli_complain("consume: -o is earliest, latest, an offset or -N, not %s", offset);
  }
  if (strcmp(options->format, "json") == 0) return EXIT_DONE;
  const char *problem = format_check(options->format);
  return problem ? cli_complain("consume: -f: %s", problem) : EXIT_DONE;
}

int cmd_consume(struct cli *cli, int argc, char **argv) {
  struct consume_options values = {
      .partition = -1, .count = -1, .format = "%s\\n", .offset = "earliest"};
  const struct option_spec options[] = {
      {'p', "partition", "N", OPTION_INTEGER, &values.partition, 0, INT32_MAX,
       "Only partition N. Default: all, over a connection each."},
      {'o', "offset", "OFFSET", OPTION_TEXT, &values.offset, 0, 0,
       "Where to begin: earliest, latest, an offset, or -N for the last N records of a partition. "
       "Default: earliest."},
      {'f', "format", "FORMAT", OPTION_TEXT, &values.format, 0, 0,
       "What to print for a record: %t topic, %p partition, %o offset, %k key, %s payload, %T "
       "timestamp (Unix "
       "ms, 0 = none), %S payload size, %K key size, %% percent; \\n \\t \\r \\0 \\xHH \\\\. Or "
       "json: a "
       "JSON object a line. Default: %s\\n."},
      {'n', "count", "COUNT", OPTION_INTEGER, &values.count, 0, INT64_MAX,
       "Stop after COUNT records."},
      {'e', "exit-at-end", NULL, OPTION_FLAG, &values.stop_at_end, 0, 0,
       "Stop when every partition has been read to its end. Default: wait for more."},
      {0, "isolation", "I", OPTION_TEXT, &values.isolation, 0, 0,
       "read_committed (default) or read_uncommitted."},
      {0, "stream", NULL, OPTION_FLAG, &values.stream, 0, 0,
       "Have the broker push records (STREAM) instead of asking for them."},
      {'g', "group", "GROUP", OPTION_TEXT, &values.group, 0, 0,
       "Consume as a member of GROUP, which shares the partitions out among its members: begin "
       "where the "
       "group has committed (-o says where otherwise), commit what has been written out, leave at "
       "the end."},
  };
  struct option_usage usage = {
      .command = "consume",
      .synopsis = "TOPIC [options]",
      .description =
          "Prints the records of TOPIC and goes on as they arrive, until interrupted. The order "
          "holds "
          "within a partition. Nothing is committed without -g.",
      .examples =
          "  pgcursus consume orders -e\n"
          "  pgcursus consume orders -o latest -f '%p %o %k: %s\\n'\n"
          "  pgcursus consume orders -p 0 -o -10 -n 10 -f json\n"
          "  pgcursus consume orders -g billing\n",
      .options = options,
      .option_count = sizeof options / sizeof *options,
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 1, 1, &words, &status)) return status;
  values.topic = argv[0];
  status = check_options(&values);
  return status == EXIT_DONE ? consume(cli, &values) : status;
}
