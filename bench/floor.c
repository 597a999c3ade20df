/* pgcursus-floor: how fast PostgreSQL itself takes the broker's append calls on this machine.
 *
 * It calls pgcursus.append() as a broker's lane does (pipeline mode, prepared, binary, several
 * calls a Sync) from any number of connections, with nothing before or behind the calls.
 * `bench/run` compares the broker with it. It writes into a topic of its own and must never be
 * pointed at a database that matters. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/memory.h"
#include "db/values.h"

#define PARAMETERS 25
#define KEY_LENGTH 9u

struct options {
  const char *database, *topic, *synchronous_commit;
  long records_per_call, calls_per_sync, connections, partitions, size, seconds;
  bool keyed, json;
};

/* The parameters of one call, which never change but for the partition. */
struct call {
  union db_scalar scalars[PARAMETERS];
  struct db_parameter parameters[PARAMETERS];
  const char *values[PARAMETERS];
  int lengths[PARAMETERS];
  int formats[PARAMETERS];
};

struct lane {
  PGconn *connection;
  struct call call;
  int64_t sent_at;
  long answered; /* calls of this Sync */
  bool in_flight;
};

struct floor_run {
  struct options options;
  struct lane *lanes;
  struct pollfd *entries;
  struct buffer payloads, keys;
  int64_t log_id;
  uint64_t records;
  int64_t started_at, finished_at;
  uint32_t *latencies; /* microseconds, one a Sync */
  size_t latency_count, latency_capacity;
};

static void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void die(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("pgcursus-floor: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  exit(2);
}

/* ---- the call -------------------------------------------------------------------------------- */

/* The head of a one-dimensional bytea array without NULLs. */
static void begin_array(struct buffer *array, long count) {
  buffer_append_u32(array, 1);
  buffer_append_u32(array, 0);
  buffer_append_u32(array, DB_BYTEA);
  buffer_append_u32(array, (uint32_t)count);
  buffer_append_u32(array, 1);
}

/* The same text as the broker's load generator sends: 64 letters, not compressible to nothing. */
static void build_arrays(struct floor_run *run) {
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const struct options *options = &run->options;
  uint64_t state = 1;
  begin_array(&run->payloads, options->records_per_call);
  begin_array(&run->keys, options->records_per_call);
  for (long i = 0; i < options->records_per_call; i++) {
    buffer_append_u32(&run->payloads, (uint32_t)options->size);
    uint8_t *payload = buffer_extend(&run->payloads, (size_t)options->size);
    for (long k = 0; k < options->size; k++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      payload[k] = (uint8_t)letters[state >> 58];
    }
    buffer_append_u32(&run->keys, KEY_LENGTH);
    buffer_append_format(&run->keys, "k%08ld", i % 100000000);
  }
}

static void build_call(const struct floor_run *run, struct call *call, int32_t partition) {
  const struct options *options = &run->options;
  long bytes =
      options->records_per_call * (options->size + (options->keyed ? (long)KEY_LENGTH : 0));
  bool waits = strcmp(options->synchronous_commit, "on") == 0;
  struct db_parameter *p = call->parameters;
  union db_scalar *s = call->scalars;
  for (int i = 0; i < PARAMETERS; i++) p[i] = db_null();
  p[0] = db_int8(&s[0], run->log_id);
  p[2] = db_int4(&s[2], partition);
  p[3] = db_int4(&s[3], (int32_t)options->records_per_call);
  p[4] = db_int4(&s[4], (int32_t)bytes);
  p[5] = db_bool(&s[5], false);
  p[6] = db_bool(&s[6], waits);
  p[7] = db_int4(&s[7], 1);
  p[8] = db_bool(&s[8], false);
  p[10] = db_int8(&s[10], 0);
  p[11] = db_int8(&s[11], 0);
  p[12] = db_int8(&s[12], 0);
  p[13] = db_bytes(buffer_slice(&run->payloads));
  if (options->keyed) p[14] = db_bytes(buffer_slice(&run->keys));
  for (int i = 0; i < PARAMETERS; i++) {
    call->values[i] = p[i].data;
    call->lengths[i] = p[i].length;
    call->formats[i] = 1;
  }
}

/* ---- set-up ---------------------------------------------------------------------------------- */

static PGresult *query(PGconn *connection, const char *sql, int count, const char *const *values) {
  PGresult *result = PQexecParams(connection, sql, count, NULL, values, NULL, NULL, 0);
  ExecStatusType status = PQresultStatus(result);
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
    die("%s", PQerrorMessage(connection));
  }
  return result;
}

static void create_topic(struct floor_run *run, PGconn *connection) {
  char partitions[24];
  snprintf(partitions, sizeof partitions, "%ld", run->options.partitions);
  const char *const values[] = {run->options.topic, partitions};
  PGresult *result = query(connection,
                           "SELECT log_id FROM pgcursus.create_topic($1, $2::int, NULL, NULL, "
                           "NULL, NULL, NULL, NULL, NULL, "
                           "NULL, NULL, NULL, NULL, NULL, 3, 'delete', 1000000, 1000000, 10000000)",
                           2, values);
  if (PQntuples(result) != 1) die("create_topic gave nothing");
  run->log_id = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
  PQclear(result);
}

static void prepare_lane(struct floor_run *run, struct lane *lane, long index) {
  static const Oid types[PARAMETERS] = {
      DB_INT8,       DB_INT8,       DB_INT4,       DB_INT4,        DB_INT4,
      DB_BOOL,       DB_BOOL,       DB_INT4,       DB_BOOL,        DB_TEXT,
      DB_INT8,       DB_INT8,       DB_INT8,       DB_BYTEA_ARRAY, DB_BYTEA_ARRAY,
      DB_INT8_ARRAY, DB_INT8_ARRAY, DB_TEXT_ARRAY, DB_INT8_ARRAY,  DB_TEXT_ARRAY,
      DB_INT8_ARRAY, DB_INT8_ARRAY, DB_TEXT_ARRAY, DB_TEXT_ARRAY,  DB_TEXT_ARRAY};
  lane->connection = PQconnectdb(run->options.database);
  if (PQstatus(lane->connection) != CONNECTION_OK) die("%s", PQerrorMessage(lane->connection));
  const char *const values[] = {run->options.synchronous_commit};
  PQclear(query(lane->connection, "SELECT set_config('synchronous_commit', $1, false)", 1, values));
  if (index == 0) create_topic(run, lane->connection);
  PGresult *result = PQprepare(
      lane->connection, "append",
      "SELECT * FROM pgcursus.append($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,"
      "$17,$18,$19,$20,$21,$22,$23,$24,$25)",
      PARAMETERS, types);
  if (PQresultStatus(result) != PGRES_COMMAND_OK) die("%s", PQerrorMessage(lane->connection));
  PQclear(result);
  build_call(run, &lane->call, (int32_t)(index % run->options.partitions));
  if (PQsetnonblocking(lane->connection, 1) != 0 || PQenterPipelineMode(lane->connection) != 1) {
    die("%s", PQerrorMessage(lane->connection));
  }
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void send_group(const struct floor_run *run, struct lane *lane) {
  struct call *call = &lane->call;
  lane->sent_at = clock_monotonic_us();
  for (long i = 0; i < run->options.calls_per_sync; i++) {
    if (PQsendQueryPrepared(lane->connection, "append", PARAMETERS, call->values, call->lengths,
                            call->formats, 1) != 1) {
      die("%s", PQerrorMessage(lane->connection));
    }
  }
  if (PQpipelineSync(lane->connection) != 1 || PQflush(lane->connection) < 0) {
    die("%s", PQerrorMessage(lane->connection));
  }
  lane->answered = 0;
  lane->in_flight = true;
}

static void note_latency(struct floor_run *run, int64_t microseconds) {
  if (run->latency_count == run->latency_capacity) {
    run->latency_capacity = run->latency_capacity ? run->latency_capacity * 2 : 4096;
    run->latencies = memory_resize(run->latencies, run->latency_capacity * sizeof *run->latencies);
  }
  run->latencies[run->latency_count++] = (uint32_t)microseconds;
}

static void take_result(struct floor_run *run, struct lane *lane, PGresult *result) {
  switch (PQresultStatus(result)) {
    case PGRES_TUPLES_OK:
      if (db_get_int4(result, 0, 0) != 0) die("append status %d", db_get_int4(result, 0, 0));
      lane->answered++;
      break;
    case PGRES_PIPELINE_SYNC:
      run->finished_at = clock_monotonic_us();
      run->records += (uint64_t)(lane->answered * run->options.records_per_call);
      note_latency(run, run->finished_at - lane->sent_at);
      lane->in_flight = false;
      break;
    default:
      die("%s", PQresultErrorMessage(result));
  }
}

static void serve(struct floor_run *run, struct lane *lane, int64_t stop_at) {
  if (PQconsumeInput(lane->connection) != 1 || PQflush(lane->connection) < 0) {
    die("%s", PQerrorMessage(lane->connection));
  }
  while (lane->in_flight && !PQisBusy(lane->connection)) {
    PGresult *result = PQgetResult(lane->connection);
    if (!result) continue; /* the end of one call's results */
    take_result(run, lane, result);
    PQclear(result);
  }
  if (!lane->in_flight && clock_monotonic_us() < stop_at) send_group(run, lane);
}

static bool watch(struct floor_run *run) {
  bool any = false;
  for (long i = 0; i < run->options.connections; i++) {
    struct lane *lane = &run->lanes[i];
    int pending = lane->in_flight ? PQflush(lane->connection) : 0;
    run->entries[i] = (struct pollfd){
        .fd = lane->in_flight ? PQsocket(lane->connection) : -1,
        .events = (short)(POLLIN | (pending ? POLLOUT : 0)),
    };
    any = any || lane->in_flight;
  }
  return any;
}

static void measure(struct floor_run *run) {
  run->started_at = clock_monotonic_us();
  int64_t stop_at = run->started_at + run->options.seconds * 1000000;
  for (long i = 0; i < run->options.connections; i++) send_group(run, &run->lanes[i]);
  while (watch(run)) {
    int ready = poll(run->entries, (nfds_t)run->options.connections, 60000);
    if (ready == 0) die("no answer for a minute");
    if (ready < 0 && errno != EINTR) die("poll: %s", strerror(errno));
    for (long i = 0; ready > 0 && i < run->options.connections; i++) {
      if (run->entries[i].revents) serve(run, &run->lanes[i], stop_at);
    }
  }
}

/* ---- the report ------------------------------------------------------------------------------ */

static int compare_latencies(const void *a, const void *b) {
  const uint32_t *left = a, *right = b;
  return (*left > *right) - (*left < *right);
}

static double percentile(const struct floor_run *run, double percent) {
  if (run->latency_count == 0) return 0;
  size_t place = (size_t)(percent / 100.0 * (double)(run->latency_count - 1));
  return (double)run->latencies[place] / 1000.0;
}

static void report(struct floor_run *run) {
  const struct options *options = &run->options;
  double seconds = (double)(run->finished_at - run->started_at) / 1e6;
  double rate = (double)run->records / seconds;
  qsort(run->latencies, run->latency_count, sizeof *run->latencies, compare_latencies);
  if (options->json) {
    printf(
        "{\"kind\":\"floor\",\"connections\":%ld,\"partitions\":%ld,\"records_per_call\":%ld,"
        "\"calls_per_sync\":%ld,\"size\":%ld,\"keyed\":%s,\"synchronous_commit\":\"%s\","
        "\"records\":%" PRIu64
        ",\"seconds\":%.6f,\"records_per_second\":%.1f,"
        "\"commits\":%zu,\"latency_ms\":{\"p50\":%.3f,\"p95\":%.3f,\"p99\":%.3f,\"max\":%.3f}}\n",
        options->connections, options->partitions, options->records_per_call,
        options->calls_per_sync, options->size, options->keyed ? "true" : "false",
        options->synchronous_commit, run->records, seconds, rate, run->latency_count,
        percentile(run, 50), percentile(run, 95), percentile(run, 99), percentile(run, 100));
    return;
  }
  printf("floor: %ld connections, %ld partitions, %ld x %ld B a call, %ld calls a commit\n",
         options->connections, options->partitions, options->records_per_call, options->size,
         options->calls_per_sync);
  printf("%-16s %" PRIu64 "\n%-16s %.3f\n%-16s %.0f\n%-16s %.2f\n", "records", run->records,
         "seconds", seconds, "records/s", rate, "MB/s", rate * (double)options->size / 1e6);
  printf("%-16s p50 %.3f   p95 %.3f   p99 %.3f   max %.3f\n", "commit ms", percentile(run, 50),
         percentile(run, 95), percentile(run, 99), percentile(run, 100));
}

/* ---- options --------------------------------------------------------------------------------- */

static const char usage_text[] =
    "Usage: pgcursus-floor --database DSN [options]\n\n"
    "  Calls pgcursus.append() as a broker does and prints how fast PostgreSQL takes it.\n\n"
    "  --topic NAME              created when missing; default: floor\n"
    "  --partitions N            default: 4\n"
    "  --connections N           default: 1; connection i writes to partition i modulo N\n"
    "  --records-per-call N      default: 1000\n"
    "  --calls-per-sync N        calls in one commit; default: 1\n"
    "  --size BYTES              payload of a record; default: 100\n"
    "  --keyed                   records have keys\n"
    "  --seconds N               default: 3\n"
    "  --synchronous-commit V    local (acks 1) or on (acks all); default: local\n"
    "  --json                    one JSON object\n";

static long number(const char *text, long maximum) {
  char *end;
  long value = strtol(text, &end, 10);
  if (end == text || *end || value < 1 || value > maximum) {
    die("%s is not a number from 1 to %ld", text, maximum);
  }
  return value;
}

static void show_usage(FILE *to, int status) {
  fputs(usage_text, to);
  exit(status);
}

static void parse_options(struct options *options, int argc, char **argv) {
  static const struct option list[] = {{"partitions", 1, NULL, 0},
                                       {"connections", 1, NULL, 1},
                                       {"records-per-call", 1, NULL, 2},
                                       {"calls-per-sync", 1, NULL, 3},
                                       {"size", 1, NULL, 4},
                                       {"seconds", 1, NULL, 5},
                                       {"database", 1, NULL, 'd'},
                                       {"topic", 1, NULL, 't'},
                                       {"keyed", 0, NULL, 'k'},
                                       {"synchronous-commit", 1, NULL, 'y'},
                                       {"json", 0, NULL, 'j'},
                                       {"help", 0, NULL, 'h'},
                                       {NULL, 0, NULL, 0}};
  const struct {
    long *target;
    long maximum;
  } numbers[] = {{&options->partitions, 100000},
                 {&options->connections, 1000},
                 {&options->records_per_call, 10000000},
                 {&options->calls_per_sync, 10000},
                 {&options->size, 100000000},
                 {&options->seconds, 86400}};
  int letter;
  while ((letter = getopt_long(argc, argv, "", list, NULL)) != -1) {
    if (letter >= 0 && letter < 6) {
      *numbers[letter].target = number(optarg, numbers[letter].maximum);
    } else if (letter == 'd') {
      options->database = optarg;
    } else if (letter == 't') {
      options->topic = optarg;
    } else if (letter == 'y') {
      options->synchronous_commit = optarg;
    } else if (letter == 'k') {
      options->keyed = true;
    } else if (letter == 'j') {
      options->json = true;
    } else {
      show_usage(letter == 'h' ? stdout : stderr, letter == 'h' ? 0 : 2);
    }
  }
  if (!options->database || optind != argc) show_usage(stderr, 2);
}

int main(int argc, char **argv) {
  struct floor_run run = {.options = {.topic = "floor",
                                      .synchronous_commit = "local",
                                      .records_per_call = 1000,
                                      .calls_per_sync = 1,
                                      .connections = 1,
                                      .partitions = 4,
                                      .size = 100,
                                      .seconds = 3}};
  parse_options(&run.options, argc, argv);
  size_t connections = (size_t)run.options.connections;
  run.lanes = memory_allocate_zeroed(connections, sizeof *run.lanes);
  run.entries = memory_allocate_zeroed(connections, sizeof *run.entries);
  build_arrays(&run);
  for (long i = 0; i < run.options.connections; i++) prepare_lane(&run, &run.lanes[i], i);
  measure(&run);
  report(&run);
  for (size_t i = 0; i < connections; i++) PQfinish(run.lanes[i].connection);
  free(run.lanes);
  free(run.entries);
  free(run.latencies);
  buffer_release(&run.payloads);
  buffer_release(&run.keys);
  return 0;
}
