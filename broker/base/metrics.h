/* Counters, gauges and histograms, shown in the Prometheus text format.
 *
 * Metrics are registered once at start and updated on the loop only. A metric may have up to two
 * labels; each combination of label values is its own series, made by metric_with(). */
#ifndef PGCURSUS_BASE_METRICS_H
#define PGCURSUS_BASE_METRICS_H

#include <stdint.h>

#include "base/buffer.h"

struct metric;        /* a family: name, help, type, label names */
struct metric_series; /* one combination of label values */

/* Families live as long as the program. Label names end with NULL or may be NULL altogether. `name`
 * follows Prometheus habits (pgcursus_requests_total, ..._seconds). */
struct metric *metric_counter(const char *name, const char *help, const char *label1,
                              const char *label2);
struct metric *metric_gauge(const char *name, const char *help, const char *label1,
                            const char *label2);
/* `bounds` are ascending upper bounds; `count` of them. They must stay valid. */
struct metric *metric_histogram(const char *name, const char *help, const char *label1,
                                const char *label2, const double *bounds, unsigned count);

/* The series for these label values (NULL for absent labels); created on first use. Keep the
 * pointer on hot paths. */
struct metric_series *metric_with(struct metric *metric, const char *value1, const char *value2);

void metric_add(struct metric_series *series, double amount);    /* counter, gauge */
void metric_set(struct metric_series *series, double value);     /* gauge */
void metric_observe(struct metric_series *series, double value); /* histogram */
double metric_value(const struct metric_series *series);         /* counter, gauge; for tests */

/* Appends every family in the Prometheus text exposition format. */
void metrics_render(struct buffer *out);

#endif
