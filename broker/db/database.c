/* Holds settings, nothing more. */
#include "db/database.h"

#include <stdio.h>

#define ANSWER_GRACE_MS 5000

void database_set_timeouts(struct database *database, int64_t connect_timeout_ms,
                           int64_t retry_max_ms, int64_t statement_timeout_ms) {
  database->connect_timeout_ms = connect_timeout_ms;
  database->retry_max_ms = retry_max_ms;
  database->statement_timeout_ms = statement_timeout_ms;
  snprintf(database->set_statement_timeout, sizeof database->set_statement_timeout,
           "SET statement_timeout = %lld", (long long)statement_timeout_ms);
}

int64_t database_answer_limit_ms(const struct database *database) {
  return database->statement_timeout_ms + ANSWER_GRACE_MS;
}
