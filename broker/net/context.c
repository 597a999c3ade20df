/* What the connections of one loop share: the scratch buffer, the list of work for the end of the
 * loop's turn, and the check for dead peers among sockets that are not read.
 *
 * It knows no protocol and closes a connection only when its socket is dead. */
#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/memory.h"
#include "net/connection_private.h"

void net_context_schedule(struct connection *connection, unsigned work) {
  struct net_context *context = connection->context;
  connection->turn_work |= work;
  if (connection->in_turn_list) return;
  connection->in_turn_list = true;
  connection->turn_next = NULL;
  if (context->turn_last) {
    context->turn_last->turn_next = connection;
  } else {
    context->turn_first = connection;
  }
  context->turn_last = connection;
  if (!ev_is_active(&context->wake)) ev_idle_start(context->loop, &context->wake);
}

/* First everybody's input, then everybody's output: answers that one input causes on other
 * connections still leave in this turn, in one write. Work that comes up while writing waits for
 * the next turn. */
static void run_turn(struct net_context *context) {
  struct connection *first = context->turn_first;
  if (!first) return;
  context->turn_first = context->turn_last = NULL;

  for (struct connection *c = first; c; c = c->turn_next) {
    unsigned work = c->turn_work;
    c->turn_work &= ~(unsigned)(TURN_READ | TURN_DELIVER);
    if ((work & TURN_READ) && !connection_is_closed(c)) connection_read(c);
    if ((work & TURN_DELIVER) && !connection_is_closed(c)) connection_deliver(c);
  }
  for (struct connection *c = first, *next; c; c = next) {
    next = c->turn_next;
    c->in_turn_list = false;
    unsigned work = c->turn_work;
    c->turn_work = 0;
    if (connection_is_closed(c)) {
      connection_free(c);
      continue;
    }
    if (work & ~(unsigned)TURN_FLUSH) net_context_schedule(c, work & ~(unsigned)TURN_FLUSH);
    /* With a full socket the watcher writes, when there is room. */
    if ((work & TURN_FLUSH) && !c->write_deadline_us) connection_flush(c);
  }
}

static void on_turn_end(struct ev_loop *loop, ev_prepare *watcher, int revents) {
  (void)revents;
  struct net_context *context = watcher->data;
  run_turn(context);
  context->handshakes_us = 0;
  if (!context->turn_first) ev_idle_stop(loop, &context->wake);
}

static void on_wake(struct ev_loop *loop, ev_idle *watcher, int revents) {
  (void)loop;
  (void)watcher;
  (void)revents;
}

/* A socket that is not read says nothing when its peer dies, and would keep its memory or its place
 * in a queue. One poll() a second asks all of them, and only while there are any. */
static void on_hangup_check(struct ev_loop *loop, ev_timer *timer, int revents) {
  (void)revents;
  struct net_context *context = timer->data;
  if (!context->unread) {
    ev_timer_stop(loop, timer);
    return;
  }
  size_t count = 0;
  struct connection *c;
  DL_FOREACH2(context->unread, c, unread_next) count++;
  struct pollfd *sockets = memory_allocate_zeroed(count, sizeof *sockets);
  struct connection **connections = memory_allocate_zeroed(count, sizeof(struct connection *));
  count = 0;
  DL_FOREACH2(context->unread, c, unread_next) {
    sockets[count].fd = c->fd;
    connections[count++] = c;
  }
  int dead = poll(sockets, (nfds_t)count, 0);
  /* Closing one may close others, but frees none before the turn ends. */
  for (size_t i = 0; i < count && dead > 0; i++) {
    if (!(sockets[i].revents & (POLLERR | POLLHUP))) continue;
    dead--;
    if (connections[i]->in_unread_list) connection_close(connections[i], "connection lost");
  }
  free(connections);
  free(sockets);
}

struct net_context *net_context_acquire(struct ev_loop *loop, struct memory_budget *budget) {
  struct net_context *context = budget->owner;
  if (context) {
    assert(context->loop == loop);
    context->references++;
    return context;
  }
  context = memory_allocate_zeroed(1, sizeof *context);
  context->loop = loop;
  context->budget = budget;
  context->references = 1;
  context->scratch = memory_allocate(SCRATCH_SIZE);
  budget->owner = context;
  budget->on_relief = admission_on_relief;

  /* After everybody else's prepare watchers: what they queue leaves in the same turn. */
  ev_prepare_init(&context->turn, on_turn_end);
  ev_set_priority(&context->turn, EV_MINPRI);
  context->turn.data = context;
  ev_prepare_start(loop, &context->turn);
  ev_unref(loop);
  ev_idle_init(&context->wake, on_wake);
  ev_timer_init(&context->stall, admission_on_stall, 0., 0.);
  context->stall.data = context;
  ev_timer_init(&context->hangup_check, on_hangup_check, 0., HANGUP_CHECK_SECONDS);
  context->hangup_check.data = context;
  ev_timer_init(&context->full_check, admission_on_full_check, 0., FULL_CHECK_MS / 1000.0);
  context->full_check.data = context;
  return context;
}

void net_context_release(struct net_context *context) {
  if (--context->references > 0) return;
  while (context->turn_first) {
    struct connection *c = context->turn_first;
    assert(connection_is_closed(c));
    context->turn_first = c->turn_next;
    connection_free(c);
  }
  ev_ref(context->loop);
  ev_prepare_stop(context->loop, &context->turn);
  ev_idle_stop(context->loop, &context->wake);
  ev_timer_stop(context->loop, &context->stall);
  ev_timer_stop(context->loop, &context->hangup_check);
  ev_timer_stop(context->loop, &context->full_check);
  context->budget->owner = NULL;
  context->budget->on_relief = NULL;
  free(context->scratch);
  free(context);
}
