/* The end of a benchmark: a table for people, or one JSON object. */
#include <inttypes.h>

#include "base/clock.h"
#include "bench.h"

static double milliseconds(uint64_t microseconds) {
  return (double)microseconds / 1000.0;
}

/* To the last answer that counts, so that a drain is included and an idle end is not. */
static double elapsed(const struct bench *bench) {
  int64_t end = bench->finished_at > bench->started_at ? bench->finished_at : clock_monotonic_us();
  double seconds = (double)(end - bench->started_at) / 1e6;
  return seconds > 0 ? seconds : 1e-6;
}

static void print_latency(const char *name, const struct histogram *histogram) {
  if (histogram->count == 0) return;
  printf("%-16s p50 %.3f   p95 %.3f   p99 %.3f   max %.3f   mean %.3f   (%" PRIu64 ")\n", name,
         milliseconds(histogram_percentile(histogram, 50)),
         milliseconds(histogram_percentile(histogram, 95)),
         milliseconds(histogram_percentile(histogram, 99)), milliseconds(histogram->maximum),
         histogram_mean(histogram) / 1000.0, histogram->count);
}

static void print_table(const struct bench *bench) {
  const struct bench_options *options = &bench->options;
  double seconds = elapsed(bench);
  printf("bench %s: topic %s, %" PRId64 " partitions, %" PRId64 " connections, batch %" PRId64
         ", size %" PRId64 "%s%s\n",
         bench->kind, options->topic, options->partitions, options->connections, options->batch,
         options->size, options->acks ? ", acks " : "", options->acks ? options->acks : "");
  printf("%-16s %" PRIu64 "\n", "records", bench->records);
  printf("%-16s %.3f\n", "seconds", seconds);
  printf("%-16s %.0f\n", "records/s", (double)bench->records / seconds);
  printf("%-16s %.2f\n", "MB/s", (double)bench->bytes / seconds / 1e6);
  printf("%-16s %" PRIu64 "\n", "requests", bench->requests);
  print_latency("latency ms", &bench->latency);
  print_latency("end to end ms", &bench->end_to_end);
  printf("%-16s %" PRIu64 "\n", "errors", bench->errors);
  if (bench->gaps) printf("%-16s %" PRIu64 "\n", "offset gaps", bench->gaps);
  if (bench->verified > 0) {
    printf("%-16s %" PRIu64 " checked, %" PRIu64 " wrong\n", "verified", bench->verified,
           bench->damaged);
  }
}

static void print_json_latency(const char *name, const struct histogram *histogram) {
  printf(",\"%s\":{\"count\":%" PRIu64
         ",\"p50\":%.3f,\"p95\":%.3f,\"p99\":%.3f,\"max\":%.3f,\"mean\":%.3f}",
         name, histogram->count, milliseconds(histogram_percentile(histogram, 50)),
         milliseconds(histogram_percentile(histogram, 95)),
         milliseconds(histogram_percentile(histogram, 99)), milliseconds(histogram->maximum),
         histogram_mean(histogram) / 1000.0);
}

static void print_json(const struct bench *bench) {
  const struct bench_options *options = &bench->options;
  double seconds = elapsed(bench);
  printf("{\"kind\":\"%s\",\"topic\":\"%s\",\"partitions\":%" PRId64 ",\"connections\":%" PRId64
         ",\"batch\":%" PRId64 ",\"size\":%" PRId64 ",\"acks\":\"%s\"",
         bench->kind, options->topic, options->partitions, options->connections, options->batch,
         options->size, options->acks ? options->acks : "");
  printf(",\"records\":%" PRIu64
         ",\"seconds\":%.6f,\"records_per_second\":%.1f"
         ",\"megabytes_per_second\":%.3f,\"requests\":%" PRIu64 ",\"errors\":%" PRIu64
         ",\"offset_gaps\":%" PRIu64,
         bench->records, seconds, (double)bench->records / seconds,
         (double)bench->bytes / seconds / 1e6, bench->requests, bench->errors, bench->gaps);
  print_json_latency("latency_ms", &bench->latency);
  if (options->end_to_end) print_json_latency("end_to_end_ms", &bench->end_to_end);
  if (bench->verified > 0) {
    printf(",\"verified\":%" PRIu64 ",\"wrong\":%" PRIu64, bench->verified, bench->damaged);
  }
  puts("}");
}

int bench_report(struct bench *bench, int status) {
  if (status == EXIT_UNUSABLE && bench->records == 0) return status;
  if (bench->options.json) {
    print_json(bench);
  } else {
    print_table(bench);
  }
  int output = cli_finish_output();
  if (status == EXIT_DONE) status = output;
  if (status == EXIT_DONE && (bench->errors > 0 || bench->damaged > 0)) status = EXIT_REFUSED;
  return status;
}
