/* The broker's view of PostgreSQL as a whole. Owns no session; must never act, only tell. */
#include "db/health.h"

#include <stdio.h>

#include "base/log.h"

void db_health_add_session(struct db_health *health) {
  health->expected++;
}

bool db_health_is_ready(const struct db_health *health) {
  return health->expected > 0 && health->ready == health->expected;
}

const char *db_health_text(const struct db_health *health) {
  if (db_health_is_ready(health)) return "ok";
  return health->reason[0] ? health->reason : "connecting";
}

void db_health_report(struct db_health *health, bool was_ready, bool is_ready, const char *reason) {
  if (was_ready && !is_ready) health->ready--;
  if (!was_ready && is_ready) health->ready++;
  if (!is_ready && reason) snprintf(health->reason, sizeof health->reason, "%s", reason);
  if (health->stopping) return;
  if (was_ready && !is_ready && health->on_loss) health->on_loss(health->owner);
  bool ready = db_health_is_ready(health);
  if (ready && !health->was_ready) {
    health->reason[0] = '\0';
    log_event(LOG_INFO, "PostgreSQL is available", NULL);
  } else if (!ready && health->was_ready) {
    log_event(LOG_WARN,
              "PostgreSQL is not available; clients get retryable errors until it is back",
              "reason", health->reason, NULL);
  }
  health->was_ready = ready;
}
