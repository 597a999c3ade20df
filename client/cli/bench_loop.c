/* The load generator's engine: one thread, one epoll, any number of connections.
 *
 * It is as light as it can be because it shares the processors with what it measures. It knows
 * nothing of what is sent; the three benchmarks plug in. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "bench.h"

#define EVENTS_AT_ONCE 64

/* ---- connections ----------------------------------------------------------------------------- */

static int watch(struct bench *bench, struct bench_connection *connection, int operation) {
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
  if (connection->watches_output) event.events |= EPOLLOUT;
  if (epoll_ctl(bench->epoll_fd, operation, pgcursus_fd(connection->client), &event) == 0) {
    return EXIT_DONE;
  }
  return cli_complain("epoll: %s", strerror(errno));
}

int bench_open(struct bench *bench, size_t connections) {
  if (bench->connection_count == 0) {
    bench->timer_fd = -1;
    bench->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (bench->epoll_fd < 0) return cli_complain("epoll: %s", strerror(errno));
  }
  size_t first = bench->connection_count;
  size_t size = (first + connections) * sizeof *bench->connections;
  bench->connections = memory_resize(bench->connections, size);
  for (size_t i = first; i < first + connections; i++) {
    int status;
    struct bench_connection *connection = &bench->connections[i];
    *connection = (struct bench_connection){.index = i};
    connection->client = cli_connect(bench->cli, &status);
    if (!connection->client) return status;
    bench->connection_count++;
  }
  return EXIT_DONE;
}

void bench_close(struct bench *bench) {
  for (size_t i = 0; i < bench->connection_count; i++) {
    pgcursus_close(bench->connections[i].client);
    free(bench->connections[i].requests);
  }
  if (bench->connection_count > 0) {
    close(bench->epoll_fd);
    if (bench->timer_fd >= 0) close(bench->timer_fd);
  }
  free(bench->connections);
}

static int create_topic(struct bench *bench, struct pgcursus *client) {
  char partitions[24];
  snprintf(partitions, sizeof partitions, "%" PRId64, bench->options.partitions);
  const struct cli_field fields[] = {
      {"topic", bench->options.topic},
      {"partitions", bench->options.partitions > 0 ? partitions : NULL},
      {"event_sourcing", bench->options.event_sourcing ? "true" : NULL},
  };
  struct pgcursus_reply reply;
  return cli_report(client, cli_call(client, "CREATE", fields, 3, &reply));
}

int bench_prepare_topic(struct bench *bench, bool create) {
  int status;
  struct pgcursus *client = cli_connect(bench->cli, &status);
  if (!client) return status;
  const struct cli_field fields[] = {{"topic", bench->options.topic}};
  struct pgcursus_reply reply;
  enum pgcursus_result result = cli_call(client, "METADATA", fields, 1, &reply);
  struct pgcursus_bytes code = {0};
  if (result == PGCURSUS_REFUSED) code = pgcursus_last_error(client)->code;
  bool missing = code.length == 15 && memcmp(code.data, "topic_not_found", 15) == 0;
  status = missing && create ? create_topic(bench, client) : cli_report(client, result);
  if (status == EXIT_DONE) {
    bench->options.partitions = cli_partition_count(client, bench->options.topic, &status);
  }
  pgcursus_close(client);
  return status;
}

void bench_note_request(struct bench_connection *connection, int64_t sent_at, uint32_t tag) {
  if (connection->in_flight == connection->capacity) {
    size_t capacity = connection->capacity ? connection->capacity * 2 : 8;
    struct bench_request *requests = memory_allocate(capacity * sizeof *requests);
    for (size_t i = 0; i < connection->in_flight; i++) {
      requests[i] = connection->requests[(connection->first + i) % connection->capacity];
    }
    free(connection->requests);
    connection->requests = requests;
    connection->capacity = capacity;
    connection->first = 0;
  }
  size_t place = (connection->first + connection->in_flight++) % connection->capacity;
  connection->requests[place] = (struct bench_request){sent_at, tag};
}

/* A stream's frames come without being asked for; what is not expected any more has no request. */
static struct bench_request next_request(struct bench_connection *connection) {
  if (connection->in_flight == 0) return (struct bench_request){0};
  struct bench_request request = connection->requests[connection->first];
  connection->first = (connection->first + 1) % connection->capacity;
  connection->in_flight--;
  return request;
}

/* ---- timer ----------------------------------------------------------------------------------- */

void bench_set_timer(struct bench *bench, int64_t at_us) {
  if (bench->timer_fd < 0) {
    bench->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    (void)epoll_ctl(bench->epoll_fd, EPOLL_CTL_ADD, bench->timer_fd, &event);
  }
  int64_t left = at_us == 0 ? 0 : at_us - clock_monotonic_us();
  if (at_us != 0 && left < 1) left = 1;
  struct itimerspec when = {
      .it_value = {.tv_sec = left / 1000000, .tv_nsec = left % 1000000 * 1000}};
  (void)timerfd_settime(bench->timer_fd, 0, &when, NULL);
}

static int serve_timer(struct bench *bench) {
  uint64_t expirations;
  if (read(bench->timer_fd, &expirations, sizeof expirations) < 0) return EXIT_DONE;
  return bench->tick(bench);
}

/* ---- traffic --------------------------------------------------------------------------------- */

/* With acks 0 nothing comes back, so being writable is what drives the connection. */
static bool is_silent(const struct bench *bench) {
  return bench->options.acks && strcmp(bench->options.acks, "0") == 0;
}

int bench_flush(struct bench *bench, struct bench_connection *connection) {
  enum pgcursus_result result = pgcursus_try_flush(connection->client);
  if (result != PGCURSUS_OK && result != PGCURSUS_AGAIN) {
    return cli_report(connection->client, result);
  }
  bool wanted = result == PGCURSUS_AGAIN || (is_silent(bench) && !bench->stopping);
  if (wanted == connection->watches_output) return EXIT_DONE;
  connection->watches_output = wanted;
  return watch(bench, connection, EPOLL_CTL_MOD);
}

static int drive(struct bench *bench, struct bench_connection *connection) {
  int status = EXIT_DONE;
  if (!bench->stopping) status = bench->fill(bench, connection);
  return status == EXIT_DONE ? bench_flush(bench, connection) : status;
}

static int serve(struct bench *bench, struct bench_connection *connection) {
  for (;;) {
    struct pgcursus_reply reply;
    enum pgcursus_result result = pgcursus_try_receive(connection->client, &reply);
    if (result == PGCURSUS_AGAIN) break;
    if (result != PGCURSUS_OK && result != PGCURSUS_REFUSED) {
      return cli_report(connection->client, result);
    }
    struct bench_request request = next_request(connection);
    bench->last_answer_at = clock_monotonic_us();
    int status = bench->take(bench, connection, &reply, result, request);
    if (status == EXIT_DONE) status = drive(bench, connection);
    if (status != EXIT_DONE) return status;
  }
  return drive(bench, connection);
}

void bench_note_refusal(struct bench *bench, const struct bench_connection *connection) {
  if (bench->errors++ == 0) (void)cli_report(connection->client, PGCURSUS_REFUSED);
}

static bool is_idle(const struct bench *bench) {
  for (size_t i = 0; i < bench->connection_count; i++) {
    const struct bench_connection *connection = &bench->connections[i];
    if (connection->in_flight > 0 || connection->watches_output) return false;
  }
  return true;
}

static void show_progress(struct bench *bench, int64_t now) {
  if (now - bench->progress_at < 1000000) return;
  double seconds = (double)(now - bench->progress_at) / 1e6;
  uint64_t count = bench->records - bench->progress_records;
  if (cli_shows_progress(bench->cli)) {
    cli_show_progress("%4.0f s  %" PRIu64 " records  %.0f/s  p99 %.2f ms",
                      (double)(now - bench->started_at) / 1e6, bench->records,
                      (double)count / seconds,
                      (double)histogram_percentile(&bench->latency, 99) / 1000.0);
  }
  bench->progress_at = now;
  bench->progress_records = bench->records;
}

/* Time and signals. False when the broker has been silent for too long. */
static bool check_time(struct bench *bench, int64_t now) {
  if (!bench->stopping && (cli_is_stopping() || (bench->stop_at && now >= bench->stop_at))) {
    bench->stopping = true;
  }
  show_progress(bench, now);
  return now - bench->last_answer_at <= bench->cli->timeout_ms * 1000 || is_silent(bench);
}

static int start(struct bench *bench) {
  int status = EXIT_DONE;
  bench->started_at = bench->progress_at = bench->last_answer_at = clock_monotonic_us();
  if (bench->options.seconds > 0) {
    bench->stop_at = bench->started_at + bench->options.seconds * 1000000;
  }
  for (size_t i = 0; i < bench->connection_count && status == EXIT_DONE; i++) {
    status = watch(bench, &bench->connections[i], EPOLL_CTL_ADD);
  }
  for (size_t i = 0; i < bench->connection_count && status == EXIT_DONE; i++) {
    status = drive(bench, &bench->connections[i]);
  }
  return status;
}

int bench_run(struct bench *bench) {
  int status = start(bench);
  while (status == EXIT_DONE && !(bench->stopping && is_idle(bench))) {
    struct epoll_event events[EVENTS_AT_ONCE];
    int count = epoll_wait(bench->epoll_fd, events, EVENTS_AT_ONCE, 100);
    if (count < 0 && errno != EINTR) return cli_complain("epoll: %s", strerror(errno));
    if (!check_time(bench, clock_monotonic_us())) return cli_complain("no answer in time");
    for (int i = 0; i < count && status == EXIT_DONE; i++) {
      struct bench_connection *connection = events[i].data.ptr;
      status = connection ? serve(bench, connection) : serve_timer(bench);
    }
    /* Interest in output that only drove acks 0 must not keep the run alive. */
    for (size_t i = 0; bench->stopping && i < bench->connection_count && status == EXIT_DONE; i++) {
      status = bench_flush(bench, &bench->connections[i]);
    }
  }
  cli_clear_progress();
  return status;
}
