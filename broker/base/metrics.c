/* The metric registry and its Prometheus text form.
 *
 * Loop thread only: nothing here locks. A series is never removed, because a counter that vanishes
 * looks like a restart; whoever labels by a user's name decides how many series there may be. */
#include "base/metrics.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/slice.h"

#define uthash_malloc(size) memory_allocate(size)
#include <uthash.h>

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric_series {
  const struct metric *metric;
  char *labels; /* rendered: a="x",b="y", or empty; also the key */
  double value; /* a histogram's sum */
  uint64_t observations;
  uint64_t *buckets; /* one a bound, each counting only its own interval */
  UT_hash_handle hh;
};

struct metric {
  const char *name, *help;
  enum metric_type type;
  const char *label_names[2];
  const double *bounds;
  unsigned bound_count;
  struct metric_series *series;
  struct metric *next;
};

static struct metric *first_metric;

/* Registering a name again gives the same family, so that a module may be started twice in tests.
 */
static struct metric *metric_register(const struct metric *wanted) {
  struct metric **place = &first_metric;
  for (; *place; place = &(*place)->next) {
    if (strcmp((*place)->name, wanted->name) != 0) continue;
    assert((*place)->type == wanted->type);
    return *place;
  }
  *place = memory_allocate(sizeof **place);
  **place = *wanted;
  return *place;
}

struct metric *metric_counter(const char *name, const char *help, const char *label1,
                              const char *label2) {
  return metric_register(&(struct metric){
      .name = name, .help = help, .type = METRIC_COUNTER, .label_names = {label1, label2}});
}

struct metric *metric_gauge(const char *name, const char *help, const char *label1,
                            const char *label2) {
  return metric_register(&(struct metric){
      .name = name, .help = help, .type = METRIC_GAUGE, .label_names = {label1, label2}});
}

struct metric *metric_histogram(const char *name, const char *help, const char *label1,
                                const char *label2, const double *bounds, unsigned count) {
  return metric_register(&(struct metric){.name = name,
                                          .help = help,
                                          .type = METRIC_HISTOGRAM,
                                          .label_names = {label1, label2},
                                          .bounds = bounds,
                                          .bound_count = count});
}

static void append_escaped(struct buffer *out, const char *text, bool quotes) {
  for (; *text; text++) {
    if (*text == '\\')
      buffer_append_text(out, "\\\\");
    else if (*text == '\n')
      buffer_append_text(out, "\\n");
    else if (*text == '"' && quotes)
      buffer_append_text(out, "\\\"");
    else
      buffer_append_u8(out, (uint8_t)*text);
  }
}

static void append_label(struct buffer *out, const char *name, const char *value) {
  if (!name || !value) return;
  if (out->length) buffer_append_u8(out, ',');
  buffer_append_text(out, name);
  buffer_append_text(out, "=\"");
  append_escaped(out, value, true);
  buffer_append_u8(out, '"');
}

static struct metric_series *series_create(struct metric *metric, const char *labels) {
  struct metric_series *series = memory_allocate_zeroed(1, sizeof *series);
  series->metric = metric;
  series->labels = memory_copy_text(labels);
  if (metric->bound_count)
    series->buckets = memory_allocate_zeroed(metric->bound_count, sizeof *series->buckets);
  HASH_ADD_KEYPTR(hh, metric->series, series->labels, strlen(series->labels), series);
  return series;
}

struct metric_series *metric_with(struct metric *metric, const char *value1, const char *value2) {
  struct buffer labels = {0};
  append_label(&labels, metric->label_names[0], value1);
  append_label(&labels, metric->label_names[1], value2);
  buffer_append_u8(&labels, '\0');
  const char *key = (const char *)labels.data;
  struct metric_series *series;
  HASH_FIND(hh, metric->series, key, labels.length - 1, series);
  if (!series) series = series_create(metric, key);
  buffer_release(&labels);
  return series;
}

void metric_add(struct metric_series *series, double amount) {
  assert(series->metric->type != METRIC_HISTOGRAM);
  assert(series->metric->type == METRIC_GAUGE || amount >= 0);
  series->value += amount;
}

void metric_set(struct metric_series *series, double value) {
  assert(series->metric->type == METRIC_GAUGE);
  series->value = value;
}

void metric_observe(struct metric_series *series, double value) {
  const struct metric *metric = series->metric;
  assert(metric->type == METRIC_HISTOGRAM);
  series->value += value;
  series->observations++;
  for (unsigned i = 0; i < metric->bound_count; i++) {
    if (value > metric->bounds[i]) continue;
    series->buckets[i]++;
    return;
  }
}

double metric_value(const struct metric_series *series) {
  return series->value;
}

/* The shortest form that reads back as the same number. */
static void append_number(struct buffer *out, double value) {
  if (isnan(value)) {
    buffer_append_text(out, "NaN");
  } else if (isinf(value)) {
    buffer_append_text(out, value > 0 ? "+Inf" : "-Inf");
  } else {
    char text[32];
    snprintf(text, sizeof text, "%.15g", value);
    if (strtod(text, NULL) < value || strtod(text, NULL) > value)
      snprintf(text, sizeof text, "%.17g", value);
    buffer_append_text(out, text);
  }
}

static void append_sample(struct buffer *out, const struct metric_series *series,
                          const char *suffix, double value) {
  buffer_append_text(out, series->metric->name);
  buffer_append_text(out, suffix);
  if (*series->labels) buffer_append_format(out, "{%s}", series->labels);
  buffer_append_u8(out, ' ');
  append_number(out, value);
  buffer_append_u8(out, '\n');
}

static void append_bucket(struct buffer *out, const struct metric_series *series, double bound,
                          uint64_t count) {
  buffer_append_format(out, "%s_bucket{%s%sle=\"", series->metric->name, series->labels,
                       *series->labels ? "," : "");
  append_number(out, bound);
  buffer_append_text(out, "\"} ");
  append_number(out, (double)count);
  buffer_append_u8(out, '\n');
}

static void append_histogram(struct buffer *out, const struct metric_series *series) {
  uint64_t cumulative = 0;
  for (unsigned i = 0; i < series->metric->bound_count; i++) {
    cumulative += series->buckets[i];
    append_bucket(out, series, series->metric->bounds[i], cumulative);
  }
  append_bucket(out, series, (double)INFINITY, series->observations);
  append_sample(out, series, "_sum", series->value);
  append_sample(out, series, "_count", (double)series->observations);
}

static void append_family(struct buffer *out, const struct metric *metric) {
  static const char *const type_names[] = {
      [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_HISTOGRAM] = "histogram"};
  buffer_append_format(out, "# HELP %s ", metric->name);
  append_escaped(out, metric->help, false);
  buffer_append_format(out, "\n# TYPE %s %s\n", metric->name, type_names[metric->type]);
  for (const struct metric_series *series = metric->series; series; series = series->hh.next) {
    if (metric->type == METRIC_HISTOGRAM)
      append_histogram(out, series);
    else
      append_sample(out, series, "", series->value);
  }
}

void metrics_render(struct buffer *out) {
  for (const struct metric *metric = first_metric; metric; metric = metric->next)
    append_family(out, metric);
}
