/* A histogram of microseconds in little memory: 64 steps in each power of two, so a percentile is
 * at most 1.6 % too high. Values above 2^40 us count as 2^40. */
#ifndef PGCURSUS_CLI_HISTOGRAM_H
#define PGCURSUS_CLI_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_STEPS 64u
#define HISTOGRAM_BUCKETS (36u * HISTOGRAM_STEPS)

/* A zeroed struct is an empty histogram. */
struct histogram {
  uint64_t count;
  uint64_t sum;
  uint64_t maximum;
  uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *histogram, int64_t value);

/* The value that `percent` of all values do not exceed; 0 when there is none. */
uint64_t histogram_percentile(const struct histogram *histogram, double percent);

double histogram_mean(const struct histogram *histogram);

#endif
