/* Registers the configuration's groups. A refusal is logged and stops nothing: the node serves
 * whoever does not need that group. Must never change a group that is registered differently. */
#include "cluster/configured_groups.h"

#include <ev.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "db/array.h"
#include "db/control.h"

#define TIMEOUT_US 5000000
#define RETRY_SECONDS 1.0 /* while PostgreSQL is away */

enum state { WAITING, IN_FLIGHT, REGISTERED, REFUSED };

struct configured_group {
  struct control_call call; /* first: callbacks get it */
  struct configured_groups *owner;
  char *name;
  struct db_array topics, partitions;
  enum state state;
  bool is_again; /* a topic has changed while the call was in flight */
};

struct configured_groups {
  struct ev_loop *loop;
  struct control *control;
  struct configured_group *groups;
  unsigned count;
  bool is_stopping;
  ev_timer retry;
};

static void submit(struct configured_group *group);

static void report(const struct configured_group *group, const struct control_result *result) {
  if (result->status == CONTROL_OK) {
    log_event(LOG_INFO, "consumer group of the configuration is registered", "group", group->name,
              NULL);
  } else {
    log_event(LOG_WARN, "consumer group of the configuration is not registered", "group",
              group->name, "code", result->code, "detail", result->detail, NULL);
  }
}

static void on_done(struct control_call *call, const struct control_result *result) {
  struct configured_group *group = (struct configured_group *)call;
  struct configured_groups *configured = group->owner;
  bool is_again = group->is_again;
  group->is_again = false;
  if (configured->is_stopping) return;
  switch (result->status) {
    case CONTROL_OK:
    case CONTROL_REFUSED:
    case CONTROL_FAILED:
      report(group, result);
      group->state = result->status == CONTROL_OK ? REGISTERED : REFUSED;
      if (group->state == REFUSED && is_again) submit(group);
      break;
    default:
      group->state = WAITING;
      ev_timer_again(configured->loop, &configured->retry);
  }
}

static void submit(struct configured_group *group) {
  group->state = IN_FLIGHT;
  group->call = (struct control_call){.statement = CONTROL_REGISTER_CONFIGURED_GROUP,
                                      .is_read_only = true, /* says the same twice */
                                      .deadline_us = clock_monotonic_us() + TIMEOUT_US,
                                      .on_done = on_done};
  group->call.parameters[0] = db_bytes(slice_text(group->name));
  group->call.parameters[1] = db_array_parameter(&group->topics);
  group->call.parameters[2] = db_array_parameter(&group->partitions);
  control_submit(group->owner->control, &group->call);
}

static void on_retry(struct ev_loop *loop, ev_timer *timer, int events) {
  struct configured_groups *configured = timer->data;
  (void)events;
  ev_timer_stop(loop, timer);
  for (unsigned i = 0; i < configured->count; i++) {
    if (configured->groups[i].state == WAITING) submit(&configured->groups[i]);
  }
}

static bool names_topic(const struct configured_group *group, struct slice topic) {
  struct cursor cursor;
  for (uint32_t i = db_array_open(&cursor, buffer_slice(&group->topics.bytes)); i > 0; i--) {
    if (slice_equals(db_array_next(&cursor), topic)) return true;
  }
  return false;
}

void configured_groups_note_topic(struct configured_groups *configured, struct slice topic) {
  for (unsigned i = 0; i < configured->count; i++) {
    struct configured_group *group = &configured->groups[i];
    if (topic.length && !names_topic(group, topic)) continue;
    group->is_again = group->state == IN_FLIGHT;
    if (group->state == REFUSED) submit(group);
  }
}

bool configured_groups_are_settled(const struct configured_groups *configured) {
  for (unsigned i = 0; i < configured->count; i++) {
    enum state state = configured->groups[i].state;
    if (state == WAITING || state == IN_FLIGHT) return false;
  }
  return true;
}

static void copy_group(struct configured_group *group, const struct config_group *from) {
  group->name = memory_copy_text(from->name);
  db_array_begin(&group->topics, DB_TEXT);
  db_array_begin(&group->partitions, DB_INT4);
  for (unsigned i = 0; i < from->topic_count; i++) {
    db_array_add_bytes(&group->topics, slice_text(from->topics[i].topic));
    db_array_add_int4(&group->partitions, (int32_t)from->topics[i].partitions);
  }
}

struct configured_groups *configured_groups_open(struct ev_loop *loop, struct control *control,
                                                 const struct config_groups *groups) {
  struct configured_groups *configured = memory_allocate_zeroed(1, sizeof *configured);
  configured->loop = loop;
  configured->control = control;
  configured->count = groups->count;
  configured->groups = memory_allocate_zeroed(groups->count, sizeof *configured->groups);
  ev_timer_init(&configured->retry, on_retry, RETRY_SECONDS, RETRY_SECONDS);
  configured->retry.data = configured;
  for (unsigned i = 0; i < groups->count; i++) {
    configured->groups[i].owner = configured;
    copy_group(&configured->groups[i], &groups->items[i]);
    submit(&configured->groups[i]);
  }
  return configured;
}

void configured_groups_stop(struct configured_groups *configured) {
  configured->is_stopping = true;
  ev_timer_stop(configured->loop, &configured->retry);
}

void configured_groups_free(struct configured_groups *configured) {
  if (configured == NULL) return;
  for (unsigned i = 0; i < configured->count; i++) {
    free(configured->groups[i].name);
    db_array_release(&configured->groups[i].topics);
    db_array_release(&configured->groups[i].partitions);
  }
  free(configured->groups);
  free(configured);
}
