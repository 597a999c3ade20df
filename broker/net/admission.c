/* Who may read on while the request memory budget is over its limit.
 *
 * Small requests go on: up to the read-ahead every connection may read. A connection in the middle
 * of a larger frame waits in a queue, and only the one at its head reads, so that memory grows by
 * one frame at a time and there is always progress. A head that sends nothing for a second is cut
 * off: it would keep the others waiting for as long as it likes. So is a peer that for a second has
 * taken nothing of more output than the high-water mark: it would keep memory from all others. When
 * memory has been given back, all go on.
 *
 * Time spent waiting here does not count against the front end's deadline. */
#include <utlist.h>

#include "base/clock.h"
#include "net/connection_private.h"

bool admission_is_paused(const struct connection *connection) {
  return connection->in_queue && connection->context->queue != connection;
}

static void pause_deadline(struct connection *connection) {
  connection->paused_since_us = clock_monotonic_us();
}

static void resume_deadline(struct connection *connection) {
  if (!connection->paused_since_us) return;
  if (connection->deadline_us) {
    connection->deadline_us += clock_monotonic_us() - connection->paused_since_us;
  }
  connection->paused_since_us = 0;
  connection_arm_timer(connection);
}

static void watch_head(struct net_context *context) {
  ev_timer_stop(context->loop, &context->stall);
  if (!context->queue) return;
  int64_t due = context->head_progress_us + STALL_LIMIT_US;
  int64_t remaining = due - clock_monotonic_us();
  ev_timer_set(&context->stall, remaining > 0 ? (double)remaining / 1e6 : 0., 0.);
  ev_timer_start(context->loop, &context->stall);
}

static void join(struct connection *connection) {
  struct net_context *context = connection->context;
  DL_APPEND2(context->queue, connection, queue_prev, queue_next);
  connection->in_queue = true;
  if (context->queue == connection) {
    context->head_progress_us = clock_monotonic_us();
    watch_head(context);
  } else {
    pause_deadline(connection);
  }
}

void admission_leave(struct connection *connection) {
  if (!connection->in_queue) return;
  struct net_context *context = connection->context;
  bool was_head = context->queue == connection;
  DL_DELETE2(context->queue, connection, queue_prev, queue_next);
  connection->in_queue = false;
  resume_deadline(connection);
  if (!was_head) return;
  context->head_progress_us = clock_monotonic_us();
  watch_head(context);
  if (context->queue) {
    resume_deadline(context->queue);
    connection_update_watcher(context->queue);
  }
}

void admission_update(struct connection *connection) {
  size_t unread = connection_unread(connection);
  bool waits = connection->state == CONNECTION_OPEN && unread >= READ_AHEAD_LIMIT &&
               unread < connection_input_limit(connection) &&
               memory_budget_is_over(connection->context->budget);
  if (waits && !connection->in_queue) join(connection);
  if (!waits) admission_leave(connection);
}

void admission_note_progress(struct connection *connection) {
  struct net_context *context = connection->context;
  if (context->queue == connection) context->head_progress_us = clock_monotonic_us();
}

/* The queue is emptied before anybody reads on, so that no step depends on who is its head
 * meanwhile. */
void admission_on_relief(struct memory_budget *budget) {
  struct net_context *context = budget->owner;
  struct connection *released = context->queue, *connection, *next;
  context->queue = NULL;
  ev_timer_stop(context->loop, &context->stall);
  DL_FOREACH2(released, connection, queue_next) connection->in_queue = false;
  DL_FOREACH_SAFE2(released, connection, next, queue_next) {
    resume_deadline(connection);
    connection_update_watcher(connection);
  }
}

void admission_on_stall(struct ev_loop *loop, ev_timer *timer, int revents) {
  (void)loop;
  (void)revents;
  struct net_context *context = timer->data;
  if (!context->queue) return;
  int64_t silent_us = clock_monotonic_us() - context->head_progress_us;
  if (silent_us < STALL_LIMIT_US) {
    watch_head(context);
    return;
  }
  connection_close(context->queue, "request memory exhausted by a stalled frame");
}

void admission_note_full(struct connection *connection, bool is_full) {
  struct net_context *context = connection->context;
  if (is_full == connection->in_full_list) return;
  connection->in_full_list = is_full;
  if (!is_full) {
    DL_DELETE2(context->full, connection, full_prev, full_next);
    return;
  }
  DL_APPEND2(context->full, connection, full_prev, full_next);
  if (!ev_is_active(&context->full_check)) ev_timer_again(context->loop, &context->full_check);
}

/* The one to cut off next, or NULL. */
static struct connection *find_stalled_output(const struct net_context *context) {
  struct connection *connection;
  if (!memory_budget_is_over(context->budget)) return NULL;
  int64_t since = clock_monotonic_us() - STALL_LIMIT_US;
  DL_FOREACH2(context->full, connection, full_next) {
    if (connection_output_is_full(connection) && connection->write_progress_us <= since) {
      return connection;
    }
  }
  return NULL;
}

/* One after the other, until memory is enough. */
void admission_on_full_check(struct ev_loop *loop, ev_timer *timer, int revents) {
  (void)revents;
  struct net_context *context = timer->data;
  struct connection *connection;
  while ((connection = find_stalled_output(context)) != NULL) {
    connection_close(connection, "request memory exhausted by output that is not taken");
  }
  if (!context->full) ev_timer_stop(loop, timer);
}
