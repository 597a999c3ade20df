/* The control-plane caller: one SQL function a call, in a SERIALIZABLE transaction of its own,
 * tried again on serialization failures and deadlocks until the call's deadline. Clients never see
 * those. Calls about transactions, which are many, share a database transaction when they meet. */
#ifndef PGCURSUS_DB_CONTROL_H
#define PGCURSUS_DB_CONTROL_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "db/connection.h"
#include "db/control_statements.h"
#include "db/values.h"

struct database;
struct control;

enum control_status {
  CONTROL_OK,
  CONTROL_REFUSED,     /* the function refused by rule: code and detail */
  CONTROL_UNAVAILABLE, /* nothing happened; worth trying again */
  CONTROL_UNKNOWN,     /* the connection was lost: it may have happened */
  CONTROL_TIMED_OUT,   /* nothing happened before the deadline */
  CONTROL_FAILED,      /* an error that trying again will not mend */
};

/* Valid during the callback. */
struct control_result {
  enum control_status status;
  const PGresult *rows; /* CONTROL_OK only */
  const char *code;     /* CONTROL_REFUSED: the error code; else a text for a person */
  const char *detail;   /* CONTROL_REFUSED: a JSON object of fields, or empty */
};

/* What a call locks that may share a database transaction with others (sql/functions/transaction,
 * lock_changes). The texts stay valid as parameters do. */
struct control_locks {
  struct slice transactional_id; /* empty: the call runs alone */
  struct slice group;            /* empty: none that is named in the call */
  bool may_end;                  /* the transaction: its partitions are locked */
};

/* Embedded in the caller's struct; parameters and what they point to stay valid until `on_done`,
 * which is called exactly once, never before control_submit() has returned. */
struct control_call {
  enum control_statement statement;
  bool is_read_only; /* may be sent again after a lost connection: also what says the same twice */
  int64_t deadline_us; /* monotonic */
  /* Calls of one key, unless it is 0, run one after another on this node: they would conflict
   * anyway. */
  uint64_t exclusive_key;
  struct control_locks locks;
  struct db_parameter parameters[CONTROL_MAX_PARAMETERS];
  union db_scalar scalars[CONTROL_MAX_PARAMETERS];
  void (*on_done)(struct control_call *call, const struct control_result *result);
  /* private to db/control.c */
  struct control_call *next;
  PGresult *rows;
  uint64_t arrival;
  int64_t not_before_us;
  unsigned attempts;
  bool runs_alone; /* it was in a batch that failed, for a reason that is one call's */
};

struct control_options {
  const struct database *database;
  unsigned connections;
  bool reads_only; /* REPEATABLE READ and read-only: for large reads, which need no serial order */
  int64_t lock_timeout_ms; /* 0: none */
};

struct control *control_open(const struct control_options *options)
    __attribute__((returns_nonnull, warn_unused_result));

void control_submit(struct control *control, struct control_call *call);

/* Fails what is queued and closes the sessions. */
void control_close(struct control *control);

#endif
