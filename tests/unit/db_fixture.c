/* Plays db/connection.c: the same promises to the sender, no socket behind them. */
#include "db_fixture.h"

#include <endian.h>

#include "base/memory.h"
#include "unit.h"

struct db_connection *db_fixture[DB_FIXTURE_CONNECTIONS];
unsigned db_fixture_count;
struct ev_loop *loop;
struct db_health health;
struct database database;
struct db_connection *session;

/* ---- what broker code calls ---- */

struct db_connection *db_connection_open(const struct db_connection_options *options) {
  struct db_connection *connection = memory_allocate_zeroed(1, sizeof *connection);
  connection->options = *options;
  connection->state = DB_CONNECTING;
  assert_true(db_fixture_count < DB_FIXTURE_CONNECTIONS);
  if (db_fixture_count == 0) session = connection;
  db_fixture[db_fixture_count++] = connection;
  return connection;
}

enum db_connection_state db_connection_state(const struct db_connection *connection) {
  return connection->state;
}

bool db_connection_can_send(const struct db_connection *connection) {
  return connection->state == DB_READY;
}

unsigned db_connection_in_flight(const struct db_connection *connection) {
  return connection->in_flight;
}

void db_connection_send(struct db_connection *connection, struct db_batch *batch,
                        const struct db_call *calls, unsigned count) {
  assert_true(db_connection_can_send(connection));
  assert_true(count > 0 && connection->in_flight < DB_FIXTURE_DEPTH);
  connection->sent[connection->in_flight++] = (struct sent){batch, calls, count};
  connection->batches++;
}

static struct sent take_oldest(struct db_connection *connection) {
  assert_true(connection->in_flight > 0);
  struct sent oldest = connection->sent[0];
  connection->in_flight--;
  memmove(connection->sent, connection->sent + 1, connection->in_flight * sizeof oldest);
  return oldest;
}

static void report(struct db_connection *connection, bool ready, const char *reason) {
  connection->options.on_state(connection, connection->options.owner, ready, reason);
}

static void fail_in_flight(struct db_connection *connection, const char *reason) {
  const struct db_failure failure = {.sqlstate = "08006", .message = reason, .detail = ""};
  unsigned count = connection->in_flight;
  struct sent sent[DB_FIXTURE_DEPTH];
  memcpy(sent, connection->sent, count * sizeof *sent);
  connection->in_flight = 0;
  for (unsigned i = 0; i < count; i++) sent[i].batch->on_done(sent[i].batch, DB_UNKNOWN, &failure);
}

void db_connection_reset(struct db_connection *connection, const char *reason) {
  (void)reason;
  db_fixture_lose(connection);
}

void db_connection_close(struct db_connection *connection) {
  connection->state = DB_CLOSED;
  fail_in_flight(connection, "the node is stopping");
  for (unsigned i = 0; i < db_fixture_count; i++) {
    if (db_fixture[i] != connection) continue;
    db_fixture[i] = db_fixture[--db_fixture_count];
    break;
  }
  free(connection);
}

/* ---- what tests call ---- */

void db_fixture_begin(void) {
  loop = ev_loop_new(0);
  health = (struct db_health){0};
  database = (struct database){.loop = loop, .health = &health};
}

void db_fixture_connect(void) {
  for (unsigned i = 0; i < db_fixture_count; i++) db_fixture_make_ready(db_fixture[i]);
}

void db_fixture_end(void) {
  ev_loop_destroy(loop);
  assert_int_equal(db_fixture_count, 0);
}

void turn(void) {
  ev_run(loop, EVRUN_NOWAIT);
}

bool run_once_before(int64_t limit_us) {
  if (clock_monotonic_us() > limit_us) fail_msg("it did not happen");
  ev_run(loop, EVRUN_ONCE);
  return true;
}

void db_fixture_make_ready(struct db_connection *connection) {
  connection->state = DB_READY;
  report(connection, true, NULL);
}

void db_fixture_make_down(struct db_connection *connection) {
  connection->state = DB_DOWN;
  report(connection, false, "refused");
}

void db_fixture_lose(struct db_connection *connection) {
  connection->state = DB_CONNECTING;
  report(connection, false, "lost");
  fail_in_flight(connection, "the connection to PostgreSQL was lost");
}

void db_fixture_commit(struct db_connection *connection, PGresult **results, unsigned count) {
  assert_int_equal(connection->sent[0].count, count);
  struct sent sent = take_oldest(connection);
  for (unsigned i = 0; i < count; i++) {
    if (results[i]) sent.batch->on_result(sent.batch, i, results[i]);
    PQclear(results[i]);
  }
  sent.batch->on_done(sent.batch, DB_COMMITTED, NULL);
}

void db_fixture_refuse(struct db_connection *connection, unsigned call, const char *sqlstate,
                       const char *message, const char *detail) {
  struct db_failure failure = {.message = message, .detail = detail, .call = call};
  snprintf(failure.sqlstate, sizeof failure.sqlstate, "%s", sqlstate);
  struct sent sent = take_oldest(connection);
  sent.batch->on_done(sent.batch, DB_REFUSED, &failure);
}

void db_fixture_leave_unknown(struct db_connection *connection) {
  const struct db_failure failure = {.sqlstate = "57014", .message = "cancelled", .detail = ""};
  struct sent sent = take_oldest(connection);
  sent.batch->on_done(sent.batch, DB_UNKNOWN, &failure);
}

struct slice db_fixture_bytes(const struct sent *sent, unsigned call, unsigned number) {
  assert_true(call < sent->count);
  const struct db_parameter *parameter = &sent->calls[call].parameters[number];
  return slice_of(parameter->data, (size_t)parameter->length);
}

bool db_fixture_is_null(const struct sent *sent, unsigned call, unsigned number) {
  return db_fixture_bytes(sent, call, number).data == NULL;
}

int64_t db_fixture_number(const struct sent *sent, unsigned call, unsigned number) {
  struct slice bytes = db_fixture_bytes(sent, call, number);
  uint64_t value = 0;
  assert_true(bytes.length == 1 || bytes.length == 4 || bytes.length == 8);
  for (size_t i = 0; i < bytes.length; i++) value = value << 8 | bytes.data[i];
  return bytes.length == 4 ? (int32_t)value : (int64_t)value;
}

PGresult *db_fixture_result(int columns) {
  PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
  PGresAttDesc *attributes = memory_allocate_zeroed((size_t)columns, sizeof *attributes);
  char name[] = "column";
  for (int i = 0; i < columns; i++) {
    attributes[i].name = name;
    attributes[i].format = 1;
  }
  assert_true(PQsetResultAttrs(result, columns, attributes));
  free(attributes);
  return result;
}

void db_fixture_set_bytes(PGresult *result, int row, int column, struct slice bytes) {
  char *value = memory_allocate(bytes.length + 1); /* libpq takes no const */
  if (bytes.length) memcpy(value, bytes.data, bytes.length);
  assert_true(PQsetvalue(result, row, column, value, bytes.data ? (int)bytes.length : -1));
  free(value);
}

void db_fixture_set_int8(PGresult *result, int row, int column, int64_t value) {
  uint64_t ordered = htobe64((uint64_t)value);
  db_fixture_set_bytes(result, row, column, slice_of(&ordered, sizeof ordered));
}

void db_fixture_set_int4(PGresult *result, int row, int column, int32_t value) {
  uint32_t ordered = htobe32((uint32_t)value);
  db_fixture_set_bytes(result, row, column, slice_of(&ordered, sizeof ordered));
}

void db_fixture_set_int2(PGresult *result, int row, int column, int16_t value) {
  uint16_t ordered = htobe16((uint16_t)value);
  db_fixture_set_bytes(result, row, column, slice_of(&ordered, sizeof ordered));
}

void db_fixture_set_bool(PGresult *result, int row, int column, bool value) {
  uint8_t byte = value;
  db_fixture_set_bytes(result, row, column, slice_of(&byte, 1));
}
