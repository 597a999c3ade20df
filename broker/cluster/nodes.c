/* Keeps this node registered and the list of nodes fresh. Owns the session that holds the
 * registration's lock; must never be asked to decide anything, since what it knows may be old. */
#include "cluster/nodes.h"

#include <ev.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "db/connection.h"
#include "db/database.h"
#include "db/values.h"

#define REFRESH_SECONDS 2.0
#define ANSWER_LIMIT_MS 5000
#define TRUST_US 10000000 /* an older list is as good as none */

/* A session that has been silent for long belongs to a node that is frozen or cut off: it loses its
 * place. */
static const char *const setup[] = {"SET statement_timeout = '5s'",
                                    "SET lock_timeout = '1s'",
                                    "SET idle_session_timeout = '10s'",
                                    "SET jit = off",
                                    DB_SETUP_CONTACT_SINCE,
                                    NULL};

enum { STATEMENT_REGISTER, STATEMENT_LIST, STATEMENT_LEAVE };

static const Oid register_types[] = {DB_TEXT, DB_TEXT};
static const Oid leave_types[] = {DB_TEXT};
static const struct db_statement statements[] = {
    [STATEMENT_REGISTER] = {"register_node", "SELECT pgcursus.register_node($1, $2)", 2,
                            register_types},
    [STATEMENT_LIST] = {"registered_nodes",
                        "SELECT " NODE_ENTRY_COLUMNS " FROM pgcursus.registered_nodes()", 0, NULL},
    [STATEMENT_LEAVE] = {"unregister_node", "SELECT pgcursus.unregister_node($1)", 1, leave_types},
};

struct nodes {
  struct db_batch batch; /* first */
  struct nodes_options options;
  struct db_connection *connection;
  struct db_parameter parameters[2];
  struct db_call call;
  unsigned asked; /* the statement in flight */
  bool in_flight;
  bool is_dirty; /* the list is to be read again at once */
  bool is_registered;
  bool leaving;
  bool was_told; /* that the node id is taken */
  ev_timer timer;
  struct node_entry *entries;
  size_t count;
  int64_t read_at_us;
};

/* ------------------------------------------------------------------ the list */

struct node_entry *node_entries_read(const PGresult *rows, size_t *count) {
  *count = (size_t)PQntuples(rows);
  if (*count == 0) return NULL;
  struct node_entry *entries = memory_allocate_zeroed(*count, sizeof *entries);
  for (int row = 0; row < (int)*count; row++) {
    entries[row] = (struct node_entry){
        .id = memory_copy_text(PQgetvalue(rows, row, 0)),
        .address = memory_copy_text(PQgetvalue(rows, row, 1)),
        .started_at = db_get_int8(rows, row, 2) + DB_EPOCH_US,
        .last_seen = db_get_int8(rows, row, 3) + DB_EPOCH_US,
        .is_alive = db_get_bool(rows, row, 4),
    };
  }
  return entries;
}

void node_entries_free(struct node_entry *entries, size_t count) {
  for (size_t i = 0; i < count; i++) {
    free(entries[i].id);
    free(entries[i].address);
  }
  free(entries);
}

const struct node_entry *nodes_list(const struct nodes *nodes, size_t *count) {
  *count = nodes->count;
  return nodes->entries;
}

bool nodes_has_others(const struct nodes *nodes) {
  if (!nodes->is_registered || clock_monotonic_us() - nodes->read_at_us > TRUST_US) return true;
  for (size_t i = 0; i < nodes->count; i++) {
    const struct node_entry *entry = &nodes->entries[i];
    if (entry->is_alive && strcmp(entry->id, nodes->options.node_id) != 0) return true;
  }
  return false;
}

static void take_list(struct nodes *nodes, const PGresult *rows) {
  node_entries_free(nodes->entries, nodes->count);
  nodes->entries = node_entries_read(rows, &nodes->count);
  nodes->read_at_us = clock_monotonic_us();
  /* Somebody may have removed a registration that looked dead. */
  const struct node_entry *own =
      placement_find(nodes->entries, nodes->count, slice_text(nodes->options.node_id));
  if (own == NULL || !own->is_alive) nodes->is_registered = false;
}

/* ------------------------------------------------------------------ the session */

static void send(struct nodes *nodes, unsigned statement) {
  nodes->asked = statement;
  nodes->in_flight = true;
  nodes->parameters[0] = db_bytes(slice_text(nodes->options.node_id));
  nodes->parameters[1] = db_bytes(slice_text(nodes->options.address));
  nodes->call = (struct db_call){.statement = statement, .parameters = nodes->parameters};
  db_connection_send(nodes->connection, &nodes->batch, &nodes->call, 1);
}

static void proceed(struct nodes *nodes) {
  if (nodes->in_flight || !db_connection_can_send(nodes->connection)) return;
  if (nodes->leaving) {
    if (nodes->is_registered) send(nodes, STATEMENT_LEAVE);
  } else if (!nodes->is_registered && nodes->asked != STATEMENT_REGISTER) {
    send(nodes, STATEMENT_REGISTER);
  } else if (nodes->is_dirty) {
    nodes->is_dirty = false;
    send(nodes, STATEMENT_LIST);
  }
}

static void note_registration(struct nodes *nodes, bool registered) {
  nodes->is_registered = registered;
  nodes->is_dirty = true;
  if (!registered && !nodes->was_told) {
    log_event(
        LOG_ERROR,
        "another node has this node id; give each its own with --node-id or --advertised-host",
        "node", nodes->options.node_id, NULL);
  }
  nodes->was_told = !registered;
}

static void on_result(struct db_batch *batch, unsigned call, const PGresult *result) {
  struct nodes *nodes = (struct nodes *)batch;
  (void)call;
  if (nodes->asked == STATEMENT_LIST) {
    take_list(nodes, result);
  } else if (nodes->asked == STATEMENT_REGISTER && PQntuples(result) == 1) {
    note_registration(nodes, db_get_bool(result, 0, 0));
  }
}

static void on_done(struct db_batch *batch, enum db_outcome outcome,
                    const struct db_failure *failure) {
  struct nodes *nodes = (struct nodes *)batch;
  nodes->in_flight = false;
  if (nodes->asked == STATEMENT_LEAVE) nodes->is_registered = false;
  if (outcome == DB_REFUSED) {
    log_event(LOG_WARN, "the registry of nodes cannot be read or written", "sqlstate",
              failure->sqlstate, "reason", failure->message, NULL);
    return; /* the next tick tries again */
  }
  proceed(nodes);
}

static void on_tick(struct ev_loop *loop, ev_timer *timer, int events) {
  struct nodes *nodes = timer->data;
  (void)loop;
  (void)events;
  if (!nodes->in_flight)
    nodes->asked = STATEMENT_LIST; /* a refused registration may be tried again */
  nodes->is_dirty = true;
  proceed(nodes);
}

/* The lock went with the old session. */
static void on_state(struct db_connection *connection, void *owner, bool ready,
                     const char *reason) {
  struct nodes *nodes = owner;
  (void)connection;
  (void)reason;
  nodes->is_registered = false;
  if (!ready) return;
  nodes->asked = STATEMENT_LIST;
  nodes->is_dirty = true;
  proceed(nodes);
}

/* ------------------------------------------------------------------ life */

struct nodes *nodes_open(const struct nodes_options *options) {
  struct nodes *nodes = memory_allocate_zeroed(1, sizeof *nodes);
  nodes->options = *options;
  nodes->asked = STATEMENT_LIST;
  nodes->batch.on_result = on_result;
  nodes->batch.on_done = on_done;
  const struct db_connection_options connection_options = {
      .database = options->database,
      .setup = setup,
      .statements = statements,
      .statement_count = sizeof statements / sizeof *statements,
      .answer_limit_ms = ANSWER_LIMIT_MS,
      .on_state = on_state,
      .owner = nodes,
  };
  nodes->connection = db_connection_open(&connection_options);
  ev_timer_init(&nodes->timer, on_tick, REFRESH_SECONDS, REFRESH_SECONDS);
  nodes->timer.data = nodes;
  ev_timer_start(options->database->loop, &nodes->timer);
  return nodes;
}

void nodes_refresh(struct nodes *nodes) {
  nodes->is_dirty = true;
  proceed(nodes);
}

void nodes_leave(struct nodes *nodes) {
  nodes->leaving = true;
  ev_timer_stop(nodes->options.database->loop, &nodes->timer);
  proceed(nodes);
}

bool nodes_has_left(const struct nodes *nodes) {
  return !nodes->is_registered && !nodes->in_flight;
}

void nodes_close(struct nodes *nodes) {
  ev_timer_stop(nodes->options.database->loop, &nodes->timer);
  nodes->leaving = true;
  nodes->is_registered = false;
  db_connection_close(nodes->connection);
  node_entries_free(nodes->entries, nodes->count);
  free(nodes);
}
