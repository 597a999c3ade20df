/* What the benchmarks share: options, connections on one event loop, the clock, the report.
 */
#ifndef PGCURSUS_CLI_BENCH_H
#define PGCURSUS_CLI_BENCH_H

#include "cli.h"
#include "histogram.h"

struct bench_options {
  const char *topic, *acks;
  int64_t partitions, connections, batch, size, records, seconds, pipeline, rate;
  bool keyed, idempotent, verify, json, end_to_end, event_sourcing, stream;
  const char *consume_from; /* broker of the consumers; NULL: the same */
};

/* A request in flight. */
struct bench_request {
  int64_t sent_at; /* or, at a fixed rate, when it should have been */
  uint32_t tag;    /* the benchmark's own */
};

struct bench_connection {
  struct pgcursus *client;
  size_t index;
  struct bench_request *requests; /* ring */
  size_t capacity, first, in_flight;
  bool watches_output;
  uint32_t turn; /* the benchmark's own */
};

struct bench {
  struct cli *cli;
  struct bench_options options;
  const char *kind;
  struct bench_connection *connections;
  size_t connection_count;
  int epoll_fd;
  int timer_fd; /* -1 unless bench_set_timer() was used */

  /* Queues what the connection may send now; called at the start and after each answer. */
  int (*fill)(struct bench *bench, struct bench_connection *connection);
  /* Takes an answer; `result` is OK or REFUSED. Both return an exit status, and any but 0 ends the
   * run. */
  int (*take)(struct bench *bench, struct bench_connection *connection,
              const struct pgcursus_reply *reply, enum pgcursus_result result,
              struct bench_request request);
  /* The timer fired. */
  int (*tick)(struct bench *bench);
  void *own;

  bool stopping; /* nothing new is sent; the run ends when nothing is in flight */
  int64_t started_at, stop_at, last_answer_at, progress_at;
  int64_t finished_at; /* when the last answer that counts came */
  uint64_t progress_records;

  uint64_t records, bytes, requests, errors; /* answered */
  uint64_t gaps, verified, damaged; /* offsets missing; payloads checked; of those, wrong */
  struct histogram latency;
  struct histogram end_to_end;
};

/* Opens `bench->options.connections` connections more; EXIT_DONE or reported. */
int bench_open(struct bench *bench, size_t connections);

/* Makes sure that the topic exists; its partition count goes to the options. */
int bench_prepare_topic(struct bench *bench, bool create);

/* Notes that a request has been queued on the connection. */
void bench_note_request(struct bench_connection *connection, int64_t sent_at, uint32_t tag);

/* One shot, or off with 0. */
void bench_set_timer(struct bench *bench, int64_t at_us);

/* Writes what is queued on a connection, and sees to it that the rest follows. */
int bench_flush(struct bench *bench, struct bench_connection *connection);

/* Runs until `stopping` and all is answered. */
int bench_run(struct bench *bench);

/* Counts a refusal and reports the first one. */
void bench_note_refusal(struct bench *bench, const struct bench_connection *connection);

/* Prints the result and returns the exit status of the whole. */
int bench_report(struct bench *bench, int status);

void bench_close(struct bench *bench);

#endif
