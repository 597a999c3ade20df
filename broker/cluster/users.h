/* Who may log in: the users of the configuration and those of the database's table, as one set.
 *
 * A user of the configuration hides one of the same name in the table. The table is read as a
 * whole, again whenever it may have changed, and kept while PostgreSQL is away. */
#ifndef PGCURSUS_CLUSTER_USERS_H
#define PGCURSUS_CLUSTER_USERS_H

#include <stdbool.h>

#include "base/slice.h"
#include "base/token_hash.h"
#include "base/worker.h"
#include "config/config.h"

struct control;
struct ev_loop;
struct users;

struct users_options {
  struct ev_loop *loop;
  struct control *control;
  struct worker_pool *workers; /* where hashes are computed */
};

struct users *users_open(const struct users_options *options)
    __attribute__((returns_nonnull, warn_unused_result));

/* Replaces the users of the configuration; they are copied. */
void users_set_configured(struct users *users, const struct config_users *configured);

/* Reads the table (again); tried again until it succeeds. */
void users_read_table(struct users *users);

/* True once the table has been read. */
bool users_are_read(const struct users *users);

/* The permissions (set of enum config_permission) of a principal; false when there is none. */
bool users_find(const struct users *users, struct slice principal, unsigned *permissions)
    __attribute__((warn_unused_result));

enum login_outcome {
  LOGIN_ACCEPTED,
  LOGIN_REFUSED,
  LOGIN_UNKNOWN, /* the table has not been read yet, and the principal may be in it */
};

/* Embedded in the caller's struct; `token` and `principal` stay valid until `on_done`. */
struct user_login {
  struct slice principal;
  struct slice token;
  void (*on_done)(struct user_login *login, enum login_outcome outcome);
  /* private to cluster/users.c */
  struct worker_job job;
  struct users *users;
  bool is_stored;
  uint8_t salt[64];
  unsigned salt_length, iterations, padding;
  uint8_t expected[TOKEN_HASH_SIZE], computed[TOKEN_HASH_SIZE], digest[TOKEN_HASH_SIZE];
};

/* Compares a token. What is right takes no time once it has been seen; every refusal takes the same
 * time, whether there is such a user or not. `on_done` is called exactly once, perhaps before this
 * returns. */
void users_login(struct users *users, struct user_login *login);

/* Reads no more; to be called before `control` is closed. */
void users_stop(struct users *users);

/* Logins must be done (the workers stopped) and `control` closed. NULL is fine. */
void users_close(struct users *users);

#endif
