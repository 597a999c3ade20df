/* Appending records: group commit over a few lanes.
 *
 * A partition always belongs to the same pair of lanes: one for what waits for standbys, one for
 * what does not, so that a standby that is gone stops nobody else. While a lane's transaction is in
 * flight arriving items queue; when it returns, all that queued leaves as one group, one
 * transaction. Plain items of one partition are merged into one row. Nothing is reported as
 * appended before PostgreSQL has committed it. */
#ifndef PGCURSUS_LOG_APPEND_H
#define PGCURSUS_LOG_APPEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "log/columns.h"

struct database;
struct announce;
struct append;
struct tail_cache;

enum append_status {
  APPEND_OK,
  APPEND_DUPLICATE,            /* every record was there already; last_offset is the original one */
  APPEND_STALE,                /* the log is no longer the topic's, or its definition changed */
  APPEND_NO_PARTITION,         /* no such partition */
  APPEND_TOO_FEW_REPLICAS,     /* current, expected */
  APPEND_STALE_EPOCH,          /* current is the recorded epoch */
  APPEND_SEQUENCE_GAP,         /* expected, current = what came */
  APPEND_WRONG_FIRST_SEQUENCE, /* expected, current = what came */
  APPEND_ORIGINAL_UNKNOWN,     /* a duplicate whose offset is no longer known */
  APPEND_HELD_BACK,            /* inside only: a synchronous standby is missing, so it waits */
  APPEND_NO_TRANSACTION,       /* the transactional id is not initialised */
  APPEND_FENCED,               /* current is the transactional id's epoch */
  APPEND_NOT_OPEN,             /* current is an enum append_transaction_state */
  APPEND_OVERDUE,              /* the transaction must be aborted first */
  APPEND_CONFLICTING,          /* a request of this number had other content */
  APPEND_OVER_CAPACITY,        /* expected is the limit of records or bytes */
  APPEND_RESERVED,             /* event: of the stream; current is the transaction, 0: in one */
  APPEND_VERSION_CONFLICT,     /* event: current is the stream's version */
  APPEND_OTHER_PARTITION,      /* event: its stream lives in partition `current` */
  APPEND_VERSION_TAKEN,        /* event with an identity: another one has its version */
  APPEND_EVENT_ID_TAKEN,       /* ... has its event id */
  APPEND_ORIGINAL_GONE,        /* ... has its version and can no longer be read */
  APPEND_UNAVAILABLE,          /* surely not appended; worth trying again */
  APPEND_UNKNOWN,              /* the connection was lost: it may have been appended */
  APPEND_TIMED_OUT,            /* surely not appended: the deadline passed in the queue */
  APPEND_FAILED,               /* PostgreSQL refused it; trying again will not help */
};

/* Why a transaction takes no record. */
enum append_transaction_state {
  TRANSACTION_NOT_BEGUN,
  TRANSACTION_PREPARE_COMMIT,
  TRANSACTION_PREPARE_ABORT,
  TRANSACTION_COMMITTED,
  TRANSACTION_ABORTED,
};

struct append_result {
  enum append_status status;
  int64_t last_offset;
  int32_t partition; /* where it is: for a duplicate that the broker placed, maybe another one */
  int64_t current;
  int64_t expected;
  const char *reason; /* for a person; never NULL; valid during the callback */
};

/* The transaction that an item's one record belongs to; its producer is the record's. */
struct append_transaction {
  struct slice transactional_id;
  int32_t requested_partition; /* -1: the broker chose it */
  int64_t client_sequence;     /* names the request: sending it twice appends it once */
};

/* One publish. The caller fills the first part and keeps the struct and the rows until `on_done`,
 * called exactly once, never before append_submit() has returned; it may then submit the same item
 * again. */
struct append_item {
  int64_t log_id;
  int64_t revision; /* of the topic definition that the caller checked against */
  int32_t partition;
  bool may_repeat;        /* sending it twice appends it once: idempotent rows, identified events */
  bool wait_for_replicas; /* acks=all */
  int64_t deadline_us;    /* monotonic */
  struct columns *rows;   /* linked by `next`; several rows are appended all or none */
  unsigned row_count;
  size_t bytes;                                 /* memory of the rows */
  const struct append_transaction *transaction; /* NULL: none; else one row of one record */
  /* Not empty: an event. Its one row has one record with this key and the version that it shall
   * have (sql/functions/stream/append_events.sql), and with an event id when the log knows
   * identities. */
  struct slice stream_key;
  void (*on_done)(struct append_item *item, const struct append_result *result);
  /* private to log/append.c */
  struct append_item *next;
  uint64_t arrival;    /* counts submissions: the order between items of one partition */
  unsigned round;      /* of an event: how many of its stream are before it in the group */
  bool alone;          /* to be sent in a group of its own */
  unsigned conflicts;  /* transactions of its own that conflicted with another */
  bool maybe_appended; /* an earlier attempt ended unknown */
};

struct append_options {
  const struct database *database;
  struct tail_cache *cache;
  struct announce *announce;
  unsigned lanes; /* of each kind */
  size_t group_max_bytes;
  unsigned group_max_items;
  int min_insync_replicas; /* the broker's default */
  int64_t lock_timeout_ms;
};

struct append *append_open(const struct append_options *options)
    __attribute__((returns_nonnull, warn_unused_result));

void append_submit(struct append *append, struct append_item *item);

/* Items queued or in flight. */
unsigned append_pending(const struct append *append);

/* True while publishes with acks=all are held back since a synchronous standby is missing. */
bool append_waits_for_standby(const struct append *append);

/* Fails what is queued, closes the lanes, frees. Nothing may be in flight that the caller still
 * wants. */
void append_close(struct append *append);

#endif
