/* End-of-turn work. Owns two watchers, knows nothing of the work. */
#include "base/turn.h"

static void on_prepare(struct ev_loop *loop, ev_prepare *watcher, int events) {
  struct turn *turn = watcher->data;
  (void)loop;
  (void)events;
  turn_stop(turn);
  turn->work(turn->owner);
}

static void on_idle(struct ev_loop *loop, ev_idle *watcher, int events) {
  (void)loop;
  (void)watcher;
  (void)events;
}

void turn_init(struct turn *turn, struct ev_loop *loop, void (*work)(void *owner), void *owner) {
  turn->loop = loop;
  turn->work = work;
  turn->owner = owner;
  turn->requested = false;
  ev_prepare_init(&turn->prepare, on_prepare);
  ev_idle_init(&turn->idle, on_idle);
  turn->prepare.data = turn;
}

void turn_request(struct turn *turn) {
  if (turn->requested) return;
  turn->requested = true;
  ev_prepare_start(turn->loop, &turn->prepare);
  ev_idle_start(turn->loop, &turn->idle);
}

void turn_stop(struct turn *turn) {
  ev_prepare_stop(turn->loop, &turn->prepare);
  ev_idle_stop(turn->loop, &turn->idle);
  turn->requested = false;
}
