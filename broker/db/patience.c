/* Owns nothing: looks at a session's socket in short turns, between which it may give up. */
#include "db/patience.h"

#include <errno.h>
#include <poll.h>

#include "base/clock.h"
#include "base/worker.h"

#define TURN_MS 100

static bool is_over(const struct db_patience *patience, int64_t now_us) {
  return now_us >= patience->deadline_us ||
         (patience->pool && worker_pool_is_stopping(patience->pool));
}

bool db_await_result(PGconn *pg, const struct db_patience *patience) {
  for (;;) {
    int unsent = PQflush(pg);
    if (unsent < 0) return false;
    if (unsent == 0 && !PQisBusy(pg)) return true;
    int64_t now_us = clock_monotonic_us();
    if (is_over(patience, now_us)) return false;
    int64_t left_ms = (patience->deadline_us - now_us) / 1000 + 1;
    struct pollfd descriptor = {.fd = PQsocket(pg),
                                .events = (short)(POLLIN | (unsent ? POLLOUT : 0))};
    int ready = poll(&descriptor, 1, left_ms < TURN_MS ? (int)left_ms : TURN_MS);
    if (ready < 0 && errno != EINTR) return false;
    if (ready > 0 && (descriptor.revents & ~POLLOUT) && PQconsumeInput(pg) != 1) return false;
  }
}

PGresult *db_last_result(PGconn *pg, const struct db_patience *patience) {
  PGresult *last = NULL;
  for (;;) {
    PGresult *result = db_await_result(pg, patience) ? PQgetResult(pg) : NULL;
    if (result == NULL) break;
    PQclear(last);
    last = result;
  }
  if (PQtransactionStatus(pg) == PQTRANS_ACTIVE || PQstatus(pg) != CONNECTION_OK) {
    PQclear(last); /* the statement has not ended */
    last = NULL;
  }
  return last;
}
