/* Connections to a PostgreSQL that is not there, and the loop they are on. Its db_connection_*()
 * take the place of db/connection.c in every unit program: the linker finds them first. A test sees
 * what was sent and decides what is answered. */
#ifndef PGCURSUS_TESTS_DB_FIXTURE_H
#define PGCURSUS_TESTS_DB_FIXTURE_H

#include <ev.h>
#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/slice.h"
#include "db/connection.h"
#include "db/database.h"
#include "db/health.h"

enum { DB_FIXTURE_CONNECTIONS = 8, DB_FIXTURE_DEPTH = 16 };

/* What is on its way: the calls stay the sender's. */
struct sent {
  struct db_batch *batch;
  const struct db_call *calls;
  unsigned count;
};

struct db_connection {
  struct db_connection_options options;
  enum db_connection_state state;
  struct sent sent[DB_FIXTURE_DEPTH]; /* in flight, oldest first */
  unsigned in_flight;
  unsigned batches; /* sent so far */
};

/* The connections in the order they were opened; the count falls when one is closed. */
extern struct db_connection *db_fixture[DB_FIXTURE_CONNECTIONS];
extern unsigned db_fixture_count;

/* A test's own, from begin() to end(). `session` is the first connection that was opened. */
extern struct ev_loop *loop;
extern struct db_health health;
extern struct database database; /* of this loop and this health */
extern struct db_connection *session;

/* The set-up of a test: begin(), open what is tested, and, when PostgreSQL is to be there,
 * connect(), which makes all connections ready. */
void db_fixture_begin(void);
void db_fixture_connect(void);
/* Once all is closed; a connection that is still open fails the test. */
void db_fixture_end(void);

/* What is ready to happen. */
void turn(void);
/* Runs the loop until the condition holds; the test fails when that takes 20 s. */
#define run_until(condition)                                \
  for (int64_t limit_us_ = clock_monotonic_us() + 20000000; \
       !(condition) && run_once_before(limit_us_);)
bool run_once_before(int64_t limit_us);

void db_fixture_make_ready(struct db_connection *connection);
/* An attempt to connect failed. */
void db_fixture_make_down(struct db_connection *connection);
/* The connection breaks: what is in flight becomes unknown, and it is connecting anew. */
void db_fixture_lose(struct db_connection *connection);

/* Answers the oldest batch: a result a call (NULL: none), which are cleared; then the commit. */
void db_fixture_commit(struct db_connection *connection, PGresult **results, unsigned count);
/* The same results, and an error: at `call`. */
void db_fixture_refuse(struct db_connection *connection, unsigned call, const char *sqlstate,
                       const char *message, const char *detail);
/* The outcome of the oldest batch is unknown, though the connection lives. */
void db_fixture_leave_unknown(struct db_connection *connection);

/* Parameter `number` (from 0) of a call in flight. */
struct slice db_fixture_bytes(const struct sent *sent, unsigned call, unsigned number);
int64_t db_fixture_number(const struct sent *sent, unsigned call, unsigned number);
bool db_fixture_is_null(const struct sent *sent, unsigned call, unsigned number);

/* A result of that many columns, all NULL until set. */
PGresult *db_fixture_result(int columns);
void db_fixture_set_bytes(PGresult *result, int row, int column, struct slice bytes);
void db_fixture_set_int8(PGresult *result, int row, int column, int64_t value);
void db_fixture_set_int4(PGresult *result, int row, int column, int32_t value);
void db_fixture_set_int2(PGresult *result, int row, int column, int16_t value);
void db_fixture_set_bool(PGresult *result, int row, int column, bool value);

#endif
