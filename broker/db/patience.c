/* Owns nothing: looks at a session's socket in short turns, between which it may give up. */
#include "db/patience.h"

#include <errno.h>
#include <poll.h>

#include "base/clock.h"
#include "base/worker.h"

#define TURN_MS 100

bool db_patience_is_over(const struct db_patience *patience) {
  return clock_monotonic_us() >= patience->deadline_us ||
         (patience->pool && worker_pool_is_stopping(patience->pool)) ||
         (patience->is_given_up && atomic_load(patience->is_given_up));
}

int db_patience_turn_ms(const struct db_patience *patience) {
  int64_t left_ms = (patience->deadline_us - clock_monotonic_us()) / 1000 + 1;
  return left_ms < TURN_MS ? (left_ms < 0 ? 0 : (int)left_ms) : TURN_MS;
}

bool db_await_result(PGconn *pg, const struct db_patience *patience) {
  for (;;) {
    int unsent = PQflush(pg);
    if (unsent < 0) return false;
    if (unsent == 0 && !PQisBusy(pg)) return true;
    if (db_patience_is_over(patience)) return false;
    struct pollfd descriptor = {.fd = PQsocket(pg),
                                .events = (short)(POLLIN | (unsent ? POLLOUT : 0))};
    int ready = poll(&descriptor, 1, db_patience_turn_ms(patience));
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
