/* Whether PostgreSQL can be used: counts sessions that are ready, logs the changes once, feeds
 * /ready. */
#ifndef PGCURSUS_DB_HEALTH_H
#define PGCURSUS_DB_HEALTH_H

#include <stdbool.h>

struct db_health {
  unsigned expected; /* sessions that exist */
  unsigned ready;
  bool was_ready; /* as last logged */
  bool stopping;
  /* Called, when set, whenever a session is lost: the next one may be with another server, after a
   * fail-over that lost what was not replicated. */
  void (*on_loss)(void *owner);
  void *owner;
  char reason[240]; /* why the last session was lost or refused; empty when all is well */
};

/* A session was opened (it counts as expected, and not ready). */
void db_health_add_session(struct db_health *health);

/* A session changed. `was_ready` and `is_ready` are its states before and after. */
void db_health_report(struct db_health *health, bool was_ready, bool is_ready, const char *reason);

/* True when every session is ready. */
bool db_health_is_ready(const struct db_health *health);

/* "ok", or a text for a person. */
const char *db_health_text(const struct db_health *health);

#endif
