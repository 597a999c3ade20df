/* Housekeeping: the periodic work on what is stored (expiry, retention, removal), done by one node
 * at a time.
 *
 * The node whose session holds a PostgreSQL advisory lock does it. The lock goes with the session,
 * so when that node dies another takes over within a second; the others ask for the lock once a
 * second and do nothing else. A node that is frozen loses its session, and the lock, after some
 * seconds of silence. Two nodes that keep house at once would be harmless: every step checks in its
 * own transaction that there is something to do.
 *
 * Adding a task takes one SQL function and one row.
 *
 * The function (sql/functions/<family>/, granted to pgcursus_broker) does one small step and
 * returns one row (done bigint, more boolean): how many rows it removed or changed, and whether
 * there may be more to do at once; a function that removes records may add (records bigint, bytes
 * bigint) and is then asked for all four. It runs in a transaction of its own, at READ COMMITTED
 * unless the row says SERIALIZABLE, and re-checks its condition there, whatever a step before it
 * found. It should be done within some tens of milliseconds, as publishers may wait for what it
 * locks or writes, and must not wait for long itself: the session has a lock_timeout of 150 ms,
 * after which the step has failed and is tried again. Work larger than a step remembers in a table
 * how far it came.
 *
 * The row (housekeeping_tasks.c) has the task's name (a metric label), the statement, the setting
 * that is its interval in milliseconds, and the settings that are its parameters $1, $2, ...
 *
 * A task runs once at take-over and then an interval after it last had nothing more to do. While a
 * step says that there is more, the next one follows after a pause. After any step nothing is done
 * for a few times as long as it took, so that most of the time is left to others whatever there is
 * to do. Metrics by task: pgcursus_housekeeping_{steps,rows,errors}_total, of some also
 * {records,bytes}_total, and the histogram pgcursus_housekeeping_step_seconds. */
#ifndef PGCURSUS_CLUSTER_HOUSEKEEPING_H
#define PGCURSUS_CLUSTER_HOUSEKEEPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

struct database;
struct housekeeping;

#define HOUSEKEEPING_MAX_PARAMETERS 6

/* A member of struct config that is a parameter or an interval: int64_t, double or char *. */
struct housekeeping_setting {
  size_t offset;
  unsigned type; /* oid; 0: none */
};

struct housekeeping_task {
  const char *name;
  /* SELECT done, more FROM pgcursus.step($1, ...), or SELECT done, more, records, bytes ... */
  const char *statement;
  struct housekeeping_setting interval; /* an int64_t, milliseconds */
  struct housekeeping_setting parameters[HOUSEKEEPING_MAX_PARAMETERS]; /* $1, $2, ... */
  bool is_serializable; /* the functions it competes with count on SERIALIZABLE */
  bool counts_removed;  /* the statement has all four columns */
};

/* housekeeping_tasks.c */
extern const struct housekeeping_task housekeeping_tasks[];
extern const unsigned housekeeping_task_count;

struct housekeeping_options {
  const struct database *database;
  const struct config *config; /* what settings are read from; see housekeeping_set_config() */
  const struct housekeeping_task *tasks; /* usually housekeeping_tasks; must stay valid */
  unsigned task_count;
};

/* Starts connecting. The session does not count for the node's
 * readiness. */
struct housekeeping *housekeeping_open(const struct housekeeping_options *options)
    __attribute__((returns_nonnull, warn_unused_result));

/* A new configuration: later steps read their settings from it. */
void housekeeping_set_config(struct housekeeping *housekeeping, const struct config *config);

/* True while this node keeps house. */
bool housekeeping_is_active(const struct housekeeping *housekeeping);

/* Closes the session, which gives the lock back. A step in flight ends by itself. */
void housekeeping_close(struct housekeeping *housekeeping);

#endif
