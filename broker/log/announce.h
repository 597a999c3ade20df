/* Tells other nodes how far partitions reach, so that their waiting readers wake.
 *
 * On a connection of its own, after the commit, everything of the last few milliseconds in one
 * notification: NOTIFY takes a lock of the whole cluster until its commit, which an append must
 * never wait for. An announcement may be lost; the others look for themselves every
 * wait_poll_interval_ms. */
#ifndef PGCURSUS_LOG_ANNOUNCE_H
#define PGCURSUS_LOG_ANNOUNCE_H

#include <stdbool.h>
#include <stdint.h>

struct database;
struct announce;
struct wake;

/* The channels; every node listens to both. */
#define ANNOUNCE_APPEND_CHANNEL "pgcursus_append"
#define ANNOUNCE_CONTROL_CHANNEL "pgcursus_control"

struct announce_options {
  const struct database *database;
  struct wake *wake;
  /* Whether anybody listens; nothing is sent while it says no. */
  bool (*has_listeners)(void *owner);
  void *owner;
};

/* Starts connecting. The session does not count for the node's readiness. */
struct announce *announce_open(const struct announce_options *options)
    __attribute__((returns_nonnull, warn_unused_result));

/* The partition reaches `end_offset` now, committed: wakes who waits here, and tells the other
 * nodes soon. */
void announce_end(struct announce *announce, int64_t log_id, int32_t partition, int64_t end_offset);

/* Sends a payload of less than 8000 bytes on the control channel. False when it was not: nobody
 * listens, or PostgreSQL cannot be reached. */
bool announce_control(struct announce *announce, const char *payload);

/* A word that is this node's while it runs. */
const char *announce_sender(const struct announce *announce);

/* A payload of the append channel: wakes who waits here for what it names. */
void announce_receive(struct announce *announce, const char *payload);

void announce_close(struct announce *announce);

#endif
