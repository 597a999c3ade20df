/* What the commands on event streams share: one topic and one key, from the name to the definition,
 * and a query about them. Private to the handlers of streams. */
#ifndef PGCURSUS_CRS2_AGGREGATE_H
#define PGCURSUS_CRS2_AGGREGATE_H

#include <stdbool.h>
#include <stdint.h>

#include "crs2/call.h"
#include "db/control.h"
#include "log/topics.h"

/* The greatest length of a key or an event id. */
#define AGGREGATE_MAX_KEY 65535u

struct aggregate {
  struct control_call query; /* first: its callback gets it */
  struct topic_load load;
  struct call *call;
  struct slice topic;
  struct slice key;
  bool needs_replay; /* aggregate_replay rather than event_sourcing */
  /* Goes on, with a definition that fits; called again when that turns out to be stale. */
  void (*run)(struct aggregate *aggregate, const struct topic *topic);
  /* Takes the answer of aggregate_query(). */
  void (*on_rows)(struct aggregate *aggregate, const PGresult *rows);
  int32_t partition; /* the key's own, by the topic's present count */
  unsigned attempts;
  bool is_fresh; /* the definition was read for this call */
};

/* Takes topic and key from the fields; false when the call has been answered (missing_topic,
 * missing_key). */
bool aggregate_take_fields(struct aggregate *aggregate, struct call *call);

/* Finds the topic, sees that it has event streams (or replay), and runs. */
void aggregate_find(struct aggregate *aggregate);

/* The definition was stale: reads it and runs again, or gives up after too many times. */
void aggregate_find_again(struct aggregate *aggregate);

/* Sends a statement. Its first parameters are log and key, or for proofs and ranges log, partition
 * and key; the caller has set those that follow. A stale log begins anew; any other failure is
 * answered. */
void aggregate_query(struct aggregate *aggregate, struct control *control,
                     const struct topic *topic, enum control_statement statement);

/* A number from 0 to 9223372036854775807 in a field. */
bool aggregate_parse_number(struct slice text, int64_t *number) __attribute__((warn_unused_result));

#endif
