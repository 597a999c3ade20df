/* One PostgreSQL connection on the event loop, in libpq's pipeline mode, reconnecting by itself.
 *
 * Work is sent as batches: some prepared statements with binary parameters and one Sync, which
 * makes a batch one transaction. Several batches may be in flight; they finish in order. Connecting
 * (names, TLS, authentication, preparing) blocks and so happens on a worker thread. A batch whose
 * parameters are large is sent and awaited on a worker thread too, and so is a large result
 * received, since libpq copies what it sends and receives. */
#ifndef PGCURSUS_DB_CONNECTION_H
#define PGCURSUS_DB_CONNECTION_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct database;
struct db_connection;

/* A prepared statement. Parameters and results are binary. */
struct db_statement {
  const char *name;
  const char *sql;
  unsigned parameter_count;
  const Oid *parameter_types;
};

struct db_parameter {
  const void *data; /* NULL is SQL NULL */
  int length;
};

/* One execution of a statement; the parameters must stay valid until the batch is done. */
struct db_call {
  unsigned statement; /* index into the connection's statements */
  const struct db_parameter *parameters;
};

enum db_outcome {
  DB_COMMITTED, /* the Sync answered without an error: the transaction is committed */
  DB_REFUSED,   /* PostgreSQL reported an error: the transaction is rolled back */
  DB_UNKNOWN, /* the connection was lost, or the wait for a standby cancelled: it may have committed
               */
  DB_UNSENT,  /* nothing was sent: there is no connection */
};

/* What went wrong; valid during the callback only. Texts are never NULL. */
struct db_failure {
  char sqlstate[6]; /* "00000" when PostgreSQL named none */
  const char *message;
  const char *detail;
  unsigned call; /* index of the call that failed */
};

/* Embedded in the sender's own struct. `on_result` is called for each call that gave rows; what it
 * learns counts only when `on_done` says DB_COMMITTED. `on_done` is called exactly once, never
 * before db_connection_send() has returned. */
struct db_batch {
  void (*on_result)(struct db_batch *batch, unsigned call, const PGresult *result);
  void (*on_done)(struct db_batch *batch, enum db_outcome outcome,
                  const struct db_failure *failure);
  /* on_result touches nothing but the batch's own struct: large results are given to it on a worker
   * thread. */
  bool results_on_worker;
  /* private to db/connection.c and db/batch.c */
  struct db_batch *next;
  unsigned call_count;
  unsigned answered;
  bool wait_was_cancelled;
  bool failed;
  struct db_failure failure;
  char *failure_text;
};

struct db_connection_options {
  const struct database *database; /* its bulk workers must be stopped before the connection is
                                    * closed */
  const char *const *setup;        /* SQL run after connecting, ended by NULL */
  const struct db_statement *statements;
  unsigned statement_count;
  /* A batch without an answer for that long means the connection is dead. */
  int64_t answer_limit_ms;
  /* State changed: ready, or lost (`reason` says why), or still not reachable (`reason` again). */
  void (*on_state)(struct db_connection *connection, void *owner, bool ready, const char *reason);
  void (*on_notify)(void *owner, const char *channel, const char *payload); /* may be NULL */
  void *owner;
};

/* Starts connecting. `setup` and `statements` are copied (the statements' texts are not); all other
 * texts must outlive the connect workers, which may be at work after the connection was closed. */
struct db_connection *db_connection_open(const struct db_connection_options *options)
    __attribute__((returns_nonnull, warn_unused_result));

/* A setup statement for sessions whose functions find every row by an index. Plans are made once a
 * session, maybe while a table is still tiny, and must still be right when it has grown; and they
 * are made once: a plan for the values of a call costs more than most calls do. */
#define DB_SETUP_PLANNER                                                                \
  "SELECT set_config('jit', 'off', false), set_config('enable_seqscan', 'off', false)," \
  " set_config('plan_cache_mode', 'force_generic_plan', false)"

/* A setup statement that keeps in the session when it began, for functions that must not judge
 * others' silence before the node has been in contact for a while
 * (sql/functions/group/overdue_before.sql). */
#define DB_SETUP_CONTACT_SINCE \
  "DO $$BEGIN PERFORM set_config('pgcursus.contact_since', clock_timestamp()::text, false); END$$"

enum db_connection_state {
  DB_CONNECTING, /* the first attempt since the start or since a loss: worth waiting for */
  DB_READY,
  DB_BULK, /* a worker thread has it for a large batch or result */
  DB_DOWN, /* an attempt has failed; attempts go on */
  DB_CLOSED,
};
enum db_connection_state db_connection_state(const struct db_connection *connection);

/* True when a batch can be sent now (ready and not lent to a worker). */
bool db_connection_can_send(const struct db_connection *connection);

unsigned db_connection_in_flight(const struct db_connection *connection);

/* Sends a batch: `count` calls and a Sync. Must be able to send. */
void db_connection_send(struct db_connection *connection, struct db_batch *batch,
                        const struct db_call *calls, unsigned count);

/* Drops the connection (what is in flight becomes unknown) and reconnects. */
void db_connection_reset(struct db_connection *connection, const char *reason);

/* Ends it for good; batches in flight are reported as unknown. Frees the connection, at once or
 * when its worker has returned it. */
void db_connection_close(struct db_connection *connection);

#endif
