/* Time. Durations and deadlines come from the monotonic clock, so a step of the wall clock moves
 * none of them. */
#ifndef PGCURSUS_BASE_CLOCK_H
#define PGCURSUS_BASE_CLOCK_H

#include <stdint.h>

/* Monotonic microseconds since some fixed point. */
int64_t clock_monotonic_us(void);

/* Wall clock, microseconds since 1970-01-01 UTC. */
int64_t clock_wall_us(void);

#endif
