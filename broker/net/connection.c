/* The life of a connection: its states, deadlines, what its socket is watched for, and its end.
 *
 * Moves no bytes (connection_input.c, connection_output.c) and gives them no meaning. */
#include "net/connection.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/memory.h"
#include "net/connection_private.h"

static bool move_is_legal(enum connection_state from, enum connection_state to) {
  switch (from) {
    case CONNECTION_NEW:
      return to == CONNECTION_OPEN || to == CONNECTION_CLOSED;
    case CONNECTION_OPEN:
      return to == CONNECTION_ENDED || to == CONNECTION_CLOSING || to == CONNECTION_CLOSED;
    case CONNECTION_ENDED:
      return to == CONNECTION_CLOSING || to == CONNECTION_CLOSED;
    case CONNECTION_CLOSING:
      return to == CONNECTION_CLOSED;
    case CONNECTION_CLOSED:
      return false;
  }
  return false;
}

/* The one place where a state changes. */
void connection_move(struct connection *connection, enum connection_state state) {
  assert(move_is_legal(connection->state, state));
  connection->state = state;
}

static void list_as_unread(struct connection *connection, bool unread) {
  struct net_context *context = connection->context;
  if (unread == connection->in_unread_list) return;
  connection->in_unread_list = unread;
  if (!unread) {
    DL_DELETE2(context->unread, connection, unread_prev, unread_next);
    return;
  }
  DL_APPEND2(context->unread, connection, unread_prev, unread_next);
  if (!ev_is_active(&context->hangup_check)) ev_timer_again(context->loop, &context->hangup_check);
}

/* Reading stops when the read-ahead is full and starts again when half of it is consumed: else
 * every small request taken from it would be followed by a read of a few bytes. */
static bool should_read(const struct connection *connection) {
  size_t unread = connection_unread(connection);
  if (connection->state != CONNECTION_OPEN || admission_is_paused(connection) ||
      unread >= connection_input_limit(connection)) {
    return false;
  }
  bool waits_for_more = !connection->held && unread < connection->wanted;
  return waits_for_more || unread <= READ_AHEAD_LIMIT / 2 || connection->is_reading;
}

/* What the socket must be ready for before reading (writing) can go on. */
static int event_of_reading(const struct connection *connection) {
  return connection->ops->read_needs_write(connection->transport_state) ? EV_WRITE : EV_READ;
}

static int event_of_writing(const struct connection *connection) {
  return connection->ops->write_needs_read(connection->transport_state) ? EV_READ : EV_WRITE;
}

void connection_update_watcher(struct connection *connection) {
  if (connection_is_closed(connection)) return;
  admission_update(connection);
  bool reads = should_read(connection);
  /* Fresh output is written at the end of the turn; the socket is asked only when it refused some.
   */
  bool writes = connection->write_deadline_us != 0;
  int events =
      (reads ? event_of_reading(connection) : 0) | (writes ? event_of_writing(connection) : 0);
  list_as_unread(connection, !reads);
  bool begins = reads && !connection->is_reading;
  connection->is_reading = reads;
  if (begins && connection->ops->has_pending_input(connection->transport_state)) {
    net_context_schedule(connection, TURN_READ); /* the socket would not wake us for these bytes */
  }

  ev_io *watcher = &connection->watcher;
  if (ev_is_active(watcher)) {
    if ((watcher->events & (EV_READ | EV_WRITE)) == events) return;
    ev_io_stop(connection->context->loop, watcher);
  }
  if (!events) return;
  ev_io_set(watcher, connection->fd, events);
  ev_io_start(connection->context->loop, watcher);
}

/* When a thousand clients reconnect at once, those that are connected still get their answers: a
 * handshake that has to wait leaves its socket readable, which brings it back in the next turn. */
static void read_handshake(struct connection *connection) {
  struct net_context *context = connection->context;
  if (context->handshakes_us >= HANDSHAKES_PER_TURN_US) return;
  int64_t start = clock_monotonic_us();
  connection_read(connection);
  context->handshakes_us += clock_monotonic_us() - start;
}

static void on_socket_event(struct ev_loop *loop, ev_io *watcher, int revents) {
  (void)loop;
  struct connection *connection = watcher->data;
  bool writes = connection->write_deadline_us && (revents & event_of_writing(connection));
  bool reads = connection->is_reading && (revents & event_of_reading(connection));
  if (writes) connection_flush(connection);
  if (!reads || connection_is_closed(connection)) return;
  if (connection->ops->is_handshaking(connection->transport_state)) {
    read_handshake(connection);
  } else {
    connection_read(connection);
  }
}

/* The earliest deadline that may pass now; while admission pauses the connection, the owner's does
 * not. */
static int64_t earliest_deadline(const struct connection *connection) {
  int64_t due = connection->write_deadline_us;
  if (connection->deadline_us && !connection->paused_since_us &&
      (!due || connection->deadline_us < due)) {
    due = connection->deadline_us;
  }
  return due;
}

/* Lazy on purpose: a deadline is set and cleared with every request, the timer moves only when it
 * has to fire earlier than it would. When it fires too early, it is started again for the rest. */
void connection_arm_timer(struct connection *connection) {
  int64_t due = earliest_deadline(connection);
  if (!due || connection_is_closed(connection)) return;
  struct ev_loop *loop = connection->context->loop;
  if (ev_is_active(&connection->timer)) {
    if (connection->timer_due_us <= due) return;
    ev_timer_stop(loop, &connection->timer);
  }
  int64_t remaining = due - clock_monotonic_us();
  connection->timer_due_us = due;
  ev_timer_set(&connection->timer, remaining > 0 ? (double)remaining / 1e6 : 0., 0.);
  ev_timer_start(loop, &connection->timer);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int revents) {
  (void)loop;
  (void)revents;
  struct connection *connection = timer->data;
  int64_t now = clock_monotonic_us();
  if (connection->write_deadline_us && connection->write_deadline_us <= now) {
    connection_close(connection, "the peer takes no output");
    return;
  }
  if (connection->deadline_us && !connection->paused_since_us && connection->deadline_us <= now) {
    connection->deadline_us = 0;
    if (connection->state == CONNECTION_CLOSING) {
      connection_close(connection, connection->close_reason);
      return;
    }
    connection->handler->on_deadline(connection, connection->owner);
  }
  connection_arm_timer(connection);
}

struct connection *connection_create(struct net_context *context,
                                     const struct connection_options *options) {
  struct connection *connection = memory_allocate_zeroed(1, sizeof *connection);
  connection->state = CONNECTION_NEW;
  connection->fd = options->fd;
  connection->ops = options->ops;
  connection->transport_state = options->transport_state;
  connection->context = context;
  connection->peer = options->peer;
  connection->wanted = 1;
  connection->write_timeout_us = options->write_timeout_ms * 1000;
  connection->on_released = options->on_released;
  connection->listener = options->listener;
  ev_io_init(&connection->watcher, on_socket_event, options->fd, EV_READ);
  connection->watcher.data = connection;
  ev_timer_init(&connection->timer, on_timer, 0., 0.);
  connection->timer.data = connection;
  return connection;
}

void connection_free(struct connection *connection) {
  assert(connection_is_closed(connection));
  free(connection->peer);
  free(connection);
}

void connection_attach(struct connection *connection, const struct connection_handler *handler,
                       void *owner) {
  /* A second front end may take a connection over, for instance after it has seen the first bytes.
   */
  connection->handler = handler;
  connection->owner = owner;
  if (connection->state == CONNECTION_NEW) connection_move(connection, CONNECTION_OPEN);
  connection_deliver_soon(connection);
  connection_update_watcher(connection);
}

void connection_set_deadline(struct connection *connection, int64_t milliseconds) {
  if (connection->state == CONNECTION_CLOSING || connection_is_closed(connection)) return;
  if (milliseconds <= 0) {
    connection->deadline_us = 0;
    return;
  }
  /* While paused time stands still, so it counts from the moment of the pause. */
  int64_t since = connection->paused_since_us ? connection->paused_since_us : clock_monotonic_us();
  connection->deadline_us = since + milliseconds * 1000;
  connection_arm_timer(connection);
}

void connection_close_after_output(struct connection *connection, int64_t grace_ms,
                                   const char *reason) {
  if (connection->state == CONNECTION_CLOSING || connection_is_closed(connection)) return;
  connection_move(connection, CONNECTION_CLOSING);
  connection->close_reason = reason;
  connection_drop_input(connection);
  connection_update_watcher(connection);
  connection->deadline_us = clock_monotonic_us() + (grace_ms > 0 ? grace_ms : 0) * 1000;
  connection_arm_timer(connection);
  net_context_schedule(connection, TURN_FLUSH);
}

void connection_close(struct connection *connection, const char *reason) {
  if (connection_is_closed(connection)) return;
  struct ev_loop *loop = connection->context->loop;
  connection_move(connection, CONNECTION_CLOSED);
  ev_io_stop(loop, &connection->watcher);
  ev_timer_stop(loop, &connection->timer);
  admission_leave(connection);
  admission_note_full(connection, false);
  list_as_unread(connection, false);
  connection_drop_input(connection);
  connection_drop_output(connection);
  connection->ops->close(connection->fd, connection->transport_state);
  connection->fd = -1;
  /* Freed when the turn ends: callers further up the stack may still look at the state. */
  net_context_schedule(connection, 0);
  if (connection->handler) {
    connection->handler->on_closed(connection, connection->owner, reason);
    connection->handler = NULL;
  }
  if (connection->on_released) connection->on_released(connection, connection->listener);
}

const char *connection_peer(const struct connection *connection) {
  return connection->peer;
}

struct ev_loop *connection_loop(const struct connection *connection) {
  return connection->context->loop;
}
