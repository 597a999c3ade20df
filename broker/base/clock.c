/* The two clocks. Nothing else in the program asks the system for the time. */
#include "base/clock.h"

#include <time.h>

static int64_t clock_read_us(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now); /* cannot fail for these clocks with a valid pointer */
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t clock_monotonic_us(void) {
  return clock_read_us(CLOCK_MONOTONIC);
}

int64_t clock_wall_us(void) {
  return clock_read_us(CLOCK_REALTIME);
}
