/* Logarithmic buckets, linear within a power of two, as in HdrHistogram. */
#include "histogram.h"

#define LARGEST ((uint64_t)1 << 40)

static unsigned bucket_of(uint64_t value) {
  if (value < HISTOGRAM_STEPS) return (unsigned)value;
  unsigned power = 63u - (unsigned)__builtin_clzll(value);
  unsigned shift = power - 6u;
  return (shift + 1) * HISTOGRAM_STEPS + (unsigned)((value >> shift) - HISTOGRAM_STEPS);
}

/* The largest value that falls into a bucket. */
static uint64_t bucket_limit(unsigned bucket) {
  if (bucket < HISTOGRAM_STEPS) return bucket;
  unsigned shift = bucket / HISTOGRAM_STEPS - 1;
  uint64_t step = HISTOGRAM_STEPS + bucket % HISTOGRAM_STEPS;
  return ((step + 1) << shift) - 1;
}

void histogram_add(struct histogram *histogram, int64_t value) {
  uint64_t positive = value > 0 ? (uint64_t)value : 0;
  if (positive > LARGEST) positive = LARGEST;
  histogram->count++;
  histogram->sum += positive;
  if (positive > histogram->maximum) histogram->maximum = positive;
  histogram->buckets[bucket_of(positive)]++;
}

uint64_t histogram_percentile(const struct histogram *histogram, double percent) {
  if (histogram->count == 0) return 0;
  uint64_t wanted = (uint64_t)(percent / 100.0 * (double)histogram->count + 0.5);
  if (wanted == 0) wanted = 1;
  uint64_t seen = 0;
  for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
    seen += histogram->buckets[i];
    if (seen < wanted) continue;
    uint64_t limit = bucket_limit(i);
    return limit < histogram->maximum ? limit : histogram->maximum;
  }
  return histogram->maximum;
}

double histogram_mean(const struct histogram *histogram) {
  return histogram->count ? (double)histogram->sum / (double)histogram->count : 0.0;
}
