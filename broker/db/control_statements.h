/* The control plane's SQL functions, one row each: what the node may call, with what types. */
#ifndef PGCURSUS_DB_CONTROL_STATEMENTS_H
#define PGCURSUS_DB_CONTROL_STATEMENTS_H

#include <stdbool.h>

#include "db/connection.h"

#define CONTROL_MAX_PARAMETERS 24

enum control_statement {
  CONTROL_CREATE_TOPIC,
  CONTROL_TOPIC_DEFINITION,
  CONTROL_DESCRIBE_TOPIC,
  CONTROL_LIST_TOPICS,
  CONTROL_ALTER_TOPIC,
  CONTROL_DELETE_TOPIC,
  CONTROL_TRUNCATE_TOPIC,
  CONTROL_SET_SERIALIZABLE, /* db/control.c's own */
  CONTROL_SET_READ_COMMITTED,
  CONTROL_STATEMENT_COUNT
};

extern const struct db_statement control_statements[CONTROL_STATEMENT_COUNT];

/* What these functions check must be looked at after the locks that they wait for, so they need a
 * snapshot a statement (READ COMMITTED) and lock what they count on. */
extern const bool control_runs_read_committed[CONTROL_STATEMENT_COUNT];

/* Columns that the topic statements return, in order (sql/functions/topic). */
enum topic_column {
  TOPIC_NAME,
  TOPIC_LOG_ID,
  TOPIC_PARTITION_COUNT,
  TOPIC_REPLICATION_FACTOR,
  TOPIC_IDEMPOTENT,
  TOPIC_EVENT_SOURCING,
  TOPIC_AGGREGATE_REPLAY,
  TOPIC_MIN_IN_SYNC_REPLICAS,
  TOPIC_CLEANUP_POLICY,
  TOPIC_RETENTION_HOURS,
  TOPIC_RETENTION_BYTES,
  TOPIC_PARTITIONER,
  TOPIC_AUTH_POLICY,
  TOPIC_READ_ACL,
  TOPIC_WRITE_ACL,
  TOPIC_REVISION,
  TOPIC_LIFECYCLE_EPOCH,
  TOPIC_COLUMN_COUNT,
  /* CONTROL_DESCRIBE_TOPIC goes on with */
  TOPIC_PARTITION = TOPIC_COLUMN_COUNT,
  TOPIC_LEADER_EPOCH,
  TOPIC_EARLIEST_OFFSET,
  TOPIC_END_OFFSET,
};

/* CONTROL_LIST_TOPICS returns */
enum topic_list_column {
  TOPIC_LIST_NAME,
  TOPIC_LIST_AUTH_POLICY,
  TOPIC_LIST_READ_ACL,
  TOPIC_LIST_LOG_ID,
  TOPIC_LIST_PARTITION_COUNT,
  TOPIC_LIST_REVISION,
};

#endif
