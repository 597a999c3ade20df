/* What a node knows of its primary, so that all its sessions agree.
 *
 * A primary is told from another by its database system and its timeline, which every promotion
 * makes greater. Once a session has found a newer timeline, the others leave the old server at once
 * (one that hangs would not tell them that it is dead), and no session goes back to it: what an old
 * primary still takes would be lost. */
#ifndef PGCURSUS_DB_PRIMARY_H
#define PGCURSUS_DB_PRIMARY_H

#include <stdbool.h>
#include <stdint.h>

struct database;
struct primary;

/* Zero: the server does not say. */
struct db_server_identity {
  uint64_t system;
  uint32_t timeline;
};

/* One that is told of a change. Embedded in the owner's struct; `on_change` is called on the loop.
 */
struct primary_follower {
  void (*on_change)(struct primary_follower *follower);
  struct primary_follower *prev, *next; /* private to db/primary.c */
};

/* `database` stays the caller's and valid; its workers may not be started yet. */
struct primary *primary_create(const struct database *database)
    __attribute__((returns_nonnull, warn_unused_result));

/* After the workers have stopped. */
void primary_free(struct primary *primary);

/* ------------------------------------------------------------------ on any thread */

/* False when the node knows of a later timeline of the same system. Else this is now the primary,
 * and `host` (db_host_name()) the place to try first. */
bool primary_admit(struct primary *primary, struct db_server_identity server, const char *host)
    __attribute__((warn_unused_result));

/* The place where the primary was last, to be freed; NULL when it is not known yet. */
char *primary_host(struct primary *primary) __attribute__((warn_unused_result));

/* ------------------------------------------------------------------ on the loop */

void primary_follow(struct primary *primary, struct primary_follower *follower);
void primary_unfollow(struct primary *primary, struct primary_follower *follower);

/* Whether a session with that server is one with the primary. */
bool primary_is(struct primary *primary, struct db_server_identity server);

/* A session was admitted: tells the followers when the primary has changed since the last call. */
void primary_settle(struct primary *primary);

/* The primary does not answer: looks for another with a session of its own, unless that is under
 * way. */
void primary_look(struct primary *primary);

#endif
