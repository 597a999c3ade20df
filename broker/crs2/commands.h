/* The table of CRS2 commands: everything that is known of a command stands in its row. Dispatch,
 * HELP, permission checks and the reference page are made from it. */
#ifndef PGCURSUS_CRS2_COMMANDS_H
#define PGCURSUS_CRS2_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct call;

enum command_availability {
  COMMAND_SERVED,
  COMMAND_LATER,    /* known, but this version has no handler: unknown_command */
  COMMAND_INTERNAL, /* between brokers of the reference; never executed for a client */
};

struct command {
  uint16_t id; /* enum command_id */
  const char *name;
  unsigned permissions; /* set of enum config_permission; all are needed */
  enum command_availability availability;
  bool is_listed; /* in HELP; rows stand in HELP's order */
  void (*handle)(struct call *call);
  const char *fields; /* for people: required ones in capitals' place, see docs */
  const char *summary;
  bool is_streamed; /* every answer, a refusal too, is a stream frame (crs2-wire 13.4) */
  bool overlaps; /* several on one connection may be in progress: what they do keeps their order */
};

/* By internal number; NULL for NEGOTIATE and unknown numbers. */
const struct command *command_find(uint16_t id);

/* All rows, in order. */
const struct command *command_table(size_t *count);

/* Runs a call whose payload has been read: the common checks of commands-1 1.2, then the handler.
 */
void command_dispatch(struct call *call);

#endif
