/* The read statements and how their rows become batches. Private to log/read.c. */
#ifndef PGCURSUS_LOG_FETCH_H
#define PGCURSUS_LOG_FETCH_H

#include <stdbool.h>

#include "db/connection.h"
#include "db/values.h"
#include "log/batch.h"

enum read_statement { STATEMENT_FETCH, STATEMENT_ENDS, READ_STATEMENT_COUNT };
extern const struct db_statement read_statements[READ_STATEMENT_COUNT];

#define FETCH_PARAMETERS 7

struct fetch_answer {
  bool log_is_current;
  int64_t earliest_offset;
  int64_t end_offset;
  int64_t stable_offset;
  struct log_batch **batches; /* owned: release each, then free the array */
  unsigned batch_count;
  bool malformed; /* a row could not be understood */
};

/* Copies what a result of STATEMENT_FETCH holds. */
void fetch_read_result(const PGresult *result, int64_t log_id, int32_t partition,
                       struct fetch_answer *answer);

void fetch_answer_release(struct fetch_answer *answer);

#endif
