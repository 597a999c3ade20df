/* The set of users, and the comparison of tokens with what is stored of them.
 *
 * Holds no token of the table: its users have a slow hash, and after the first login a digest under
 * a key of this process, so that a thousand clients that reconnect cost nothing. Must never log a
 * token or anything made from one. */
#include "cluster/users.h"

#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "db/control.h"

#define READ_TIMEOUT_US 30000000LL
#define RETRY_SECONDS 1.0

enum { DIGEST_KEY_SIZE = 32 };

struct user {
  char *principal;
  unsigned permissions;
  bool has_digest; /* always for users of the configuration; else once a login has succeeded */
  uint8_t digest[TOKEN_HASH_SIZE];
  /* Of the table only. */
  uint8_t salt[64];
  unsigned salt_length, iterations;
  uint8_t hash[TOKEN_HASH_SIZE];
  UT_hash_handle hh;
};

struct users {
  struct control_call call; /* first: the reading of the table */
  struct users_options options;
  struct user *configured;
  struct user *stored;
  unsigned greatest_iterations; /* what every refusal costs */
  bool is_read;
  bool is_reading;
  bool reads_again; /* something changed while it was read */
  bool is_closing;
  ev_timer retry;
  uint8_t digest_key[DIGEST_KEY_SIZE];
  uint8_t nobody[TOKEN_HASH_SIZE]; /* what tokens for unknown principals are compared with */
};

/* ------------------------------------------------------------------ the two sets */

static struct user *find_in(struct user *set, struct slice principal) {
  struct user *user = NULL;
  if (principal.length) HASH_FIND(hh, set, principal.data, principal.length, user);
  return user;
}

static struct user *find(const struct users *users, struct slice principal) {
  struct user *user = find_in(users->configured, principal);
  return user ? user : find_in(users->stored, principal);
}

static struct user *add(struct user **set, struct slice principal) {
  struct user *user = memory_allocate_zeroed(1, sizeof *user);
  user->principal = memory_allocate(principal.length + 1);
  memcpy(user->principal, principal.data, principal.length);
  user->principal[principal.length] = '\0';
  HASH_ADD_KEYPTR(hh, *set, user->principal, principal.length, user);
  return user;
}

static void drop_all(struct user **set) {
  struct user *user, *next;
  HASH_ITER(hh, *set, user, next) {
    HASH_DEL(*set, user);
    free(user->principal);
    explicit_bzero(user, sizeof *user);
    free(user);
  }
}

static struct slice digest_key(const struct users *users) {
  return slice_of(users->digest_key, DIGEST_KEY_SIZE);
}

void users_set_configured(struct users *users, const struct config_users *configured) {
  drop_all(&users->configured);
  for (unsigned i = 0; i < configured->count; i++) {
    const struct config_user *item = &configured->items[i];
    struct slice principal = slice_text(item->principal);
    if (!principal.length || find_in(users->configured, principal)) continue;
    struct user *user = add(&users->configured, principal);
    user->permissions = item->permissions;
    user->has_digest = true;
    token_digest(digest_key(users), slice_text(item->token), user->digest);
  }
}

bool users_find(const struct users *users, struct slice principal, unsigned *permissions) {
  const struct user *user = find(users, principal);
  if (user == NULL) return false;
  *permissions = user->permissions;
  return true;
}

/* ------------------------------------------------------------------ the table */

static unsigned permissions_of(struct slice names) {
  unsigned permissions = 0;
  char copy[256];
  snprintf(copy, sizeof copy, "%.*s", (int)names.length, (const char *)names.data);
  char *rest = copy;
  for (char *name; (name = strsep(&rest, ",")) != NULL;) permissions |= config_permission_of(name);
  return permissions;
}

static bool hash_is(const struct user *user, const uint8_t hash[TOKEN_HASH_SIZE]) {
  return token_hash_equals(user->hash, hash);
}

/* A row is what the table's constraints let in; anything else is no user. */
static void add_row(struct users *users, struct user **set, const PGresult *rows, int row) {
  struct slice principal = db_get_bytes(rows, row, USER_PRINCIPAL);
  struct slice salt = db_get_bytes(rows, row, USER_SALT);
  struct slice hash = db_get_bytes(rows, row, USER_HASH);
  int32_t iterations = db_get_int4(rows, row, USER_ITERATIONS);
  if (!principal.length || hash.length != TOKEN_HASH_SIZE || !salt.length || iterations < 1 ||
      iterations > TOKEN_HASH_MAX_ITERATIONS) {
    return;
  }
  struct user *user = add(set, principal);
  if (salt.length > sizeof user->salt) salt.length = sizeof user->salt;
  user->permissions = permissions_of(db_get_bytes(rows, row, USER_PERMISSIONS));
  user->salt_length = (unsigned)salt.length;
  memcpy(user->salt, salt.data, salt.length);
  memcpy(user->hash, hash.data, TOKEN_HASH_SIZE);
  user->iterations = (unsigned)iterations;
  if (user->iterations > users->greatest_iterations) users->greatest_iterations = user->iterations;
  const struct user *before = find_in(users->stored, principal);
  if (before && before->has_digest && hash_is(before, user->hash)) {
    user->has_digest = true;
    memcpy(user->digest, before->digest, sizeof user->digest);
  }
}

static void replace_table(struct users *users, const PGresult *rows) {
  struct user *set = NULL;
  users->greatest_iterations = TOKEN_HASH_ITERATIONS;
  for (int row = 0; row < PQntuples(rows); row++) add_row(users, &set, rows, row);
  drop_all(&users->stored);
  users->stored = set;
  users->is_read = true;
  char count[16];
  snprintf(count, sizeof count, "%u", HASH_COUNT(users->stored));
  log_event(LOG_INFO, "users read from the database", "users", count, NULL);
  if (users->stored || users->configured) return;
  log_event(LOG_WARN,
            "enable_sasl is on and there is no user, so nobody can log in: add one with "
            "`pgcursus user add`, or to sasl_users",
            NULL);
}

static void on_table_read(struct control_call *call, const struct control_result *result) {
  struct users *users = (struct users *)call;
  users->is_reading = false;
  if (users->is_closing) return;
  if (result->status == CONTROL_OK) replace_table(users, result->rows);
  if (result->status == CONTROL_OK && !users->reads_again) return;
  users->reads_again = false;
  if (result->status == CONTROL_OK) {
    users_read_table(users);
  } else {
    ev_timer_again(users->options.loop, &users->retry);
  }
}

void users_read_table(struct users *users) {
  if (users->is_reading) {
    users->reads_again = true;
    return;
  }
  ev_timer_stop(users->options.loop, &users->retry);
  users->is_reading = true;
  users->call = (struct control_call){.statement = CONTROL_LOGIN_USERS,
                                      .is_read_only = true,
                                      .deadline_us = clock_monotonic_us() + READ_TIMEOUT_US,
                                      .on_done = on_table_read};
  control_submit(users->options.control, &users->call);
}

static void on_retry(struct ev_loop *loop, ev_timer *timer, int events) {
  (void)loop;
  (void)events;
  users_read_table(timer->data);
}

bool users_are_read(const struct users *users) {
  return users->is_read;
}

/* ------------------------------------------------------------------ logins */

static void run_hash(struct worker_job *job) {
  struct user_login *login = (struct user_login *)((char *)job - offsetof(struct user_login, job));
  struct slice salt = slice_of(login->salt, login->salt_length);
  uint8_t unused[TOKEN_HASH_SIZE];
  token_hash(login->token, salt, login->iterations, login->computed);
  if (login->padding) token_hash(login->token, salt, login->padding, unused);
}

/* The user may have been changed or removed while the hash was computed. */
static void hash_done(struct worker_job *job) {
  struct user_login *login = (struct user_login *)((char *)job - offsetof(struct user_login, job));
  struct user *user = login->is_stored ? find(login->users, login->principal) : NULL;
  bool matches = token_hash_equals(login->computed, login->expected);
  bool accepted = user && user->iterations && hash_is(user, login->expected) && matches;
  if (accepted) {
    user->has_digest = true;
    memcpy(user->digest, login->digest, sizeof user->digest);
  }
  explicit_bzero(login->computed, sizeof login->computed);
  explicit_bzero(login->digest, sizeof login->digest);
  login->on_done(login, accepted ? LOGIN_ACCEPTED : LOGIN_REFUSED);
}

/* A user of the table gets its own hash, padded to the cost of the dearest; everybody else a hash
 * that nothing equals. */
static void prepare_hash(const struct users *users, struct user_login *login,
                         const struct user *user) {
  login->is_stored = user && user->iterations;
  login->iterations = users->greatest_iterations;
  login->salt_length = TOKEN_SALT_SIZE;
  memcpy(login->salt, users->nobody, TOKEN_SALT_SIZE);
  memcpy(login->expected, users->nobody, TOKEN_HASH_SIZE);
  if (login->is_stored) {
    login->iterations = user->iterations;
    login->salt_length = user->salt_length;
    memcpy(login->salt, user->salt, user->salt_length);
    memcpy(login->expected, user->hash, TOKEN_HASH_SIZE);
  }
  login->padding = users->greatest_iterations - login->iterations;
}

void users_login(struct users *users, struct user_login *login) {
  login->users = users;
  if (login->token.length > CONFIG_TOKEN_MAX_LENGTH) {
    login->on_done(login, LOGIN_REFUSED);
    return;
  }
  struct user *user = find(users, login->principal);
  token_digest(digest_key(users), login->token, login->digest);
  const uint8_t *known = user && user->has_digest ? user->digest : users->nobody;
  bool matches = token_hash_equals(login->digest, known);
  if (matches && user && user->has_digest) {
    login->on_done(login, LOGIN_ACCEPTED);
  } else if (!user && !users->is_read) {
    login->on_done(login, LOGIN_UNKNOWN);
  } else {
    prepare_hash(users, login, user);
    login->job = (struct worker_job){.run = run_hash, .done = hash_done};
    worker_pool_submit(users->options.workers, &login->job);
  }
}

/* ------------------------------------------------------------------ life */

struct users *users_open(const struct users_options *options) {
  struct users *users = memory_allocate_zeroed(1, sizeof *users);
  users->options = *options;
  users->greatest_iterations = TOKEN_HASH_ITERATIONS;
  token_random(users->digest_key, sizeof users->digest_key);
  token_random(users->nobody, sizeof users->nobody);
  ev_timer_init(&users->retry, on_retry, RETRY_SECONDS, RETRY_SECONDS);
  users->retry.data = users;
  return users;
}

void users_stop(struct users *users) {
  users->is_closing = true;
  ev_timer_stop(users->options.loop, &users->retry);
}

void users_close(struct users *users) {
  if (users == NULL) return;
  drop_all(&users->configured);
  drop_all(&users->stored);
  explicit_bzero(users->digest_key, sizeof users->digest_key);
  free(users);
}
