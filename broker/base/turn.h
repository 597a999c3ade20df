/* Work for the end of the loop's turn: whatever several events of one turn ask for is done once,
 * before the loop sleeps.
 *
 * A prepare watcher alone does not do: one that is started by another prepare watcher would first
 * run after the loop has slept. */
#ifndef PGCURSUS_BASE_TURN_H
#define PGCURSUS_BASE_TURN_H

#include <ev.h>
#include <stdbool.h>

struct turn {
  ev_prepare prepare;
  ev_idle idle; /* keeps the loop from sleeping while there is something to do */
  struct ev_loop *loop;
  void (*work)(void *owner);
  void *owner;
  bool requested;
};

void turn_init(struct turn *turn, struct ev_loop *loop, void (*work)(void *owner), void *owner);

/* Has `work` called once at the end of this turn; when it is being called already, once more in the
 * next. */
void turn_request(struct turn *turn);

void turn_stop(struct turn *turn);

#endif
