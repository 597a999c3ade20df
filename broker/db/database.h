/* The database of a node: where its sessions go, and what they share. One struct for all parts of a
 * node, which outlives them. */
#ifndef PGCURSUS_DB_DATABASE_H
#define PGCURSUS_DB_DATABASE_H

#include <stdint.h>

struct db_health;
struct ev_loop;
struct primary;
struct worker_pool;

struct database {
  struct ev_loop *loop;
  struct worker_pool *connect_workers; /* for connecting */
  struct worker_pool *bulk_workers;    /* for large parameters and results */
  const char *conninfo;
  const char *application_name;
  struct db_health *health;
  struct primary *primary;
  int64_t connect_timeout_ms;
  int64_t retry_max_ms; /* greatest pause between attempts */
  int64_t statement_timeout_ms;
  char set_statement_timeout[48]; /* a setup statement; made by database_set_timeouts() */
};

void database_set_timeouts(struct database *database, int64_t connect_timeout_ms,
                           int64_t retry_max_ms, int64_t statement_timeout_ms);

/* How long a session whose statements have the timeout above may leave one unanswered. */
int64_t database_answer_limit_ms(const struct database *database);

#endif
