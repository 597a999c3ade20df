/* Owns the identity and the place of the primary, and the session that looks for another. Knows the
 * node's sessions only as followers. */
#include "db/primary.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/log.h"
#include "base/memory.h"
#include "db/connect.h"
#include "db/database.h"

struct primary {
  struct db_connect look; /* first: its callback gets it */
  const struct database *database;
  bool is_looking;
  struct db_server_identity settled; /* what the followers know */
  struct primary_follower *followers;
  pthread_mutex_t lock; /* over everything below */
  struct db_server_identity server;
  char *host;
};

struct primary *primary_create(const struct database *database) {
  struct primary *primary = memory_allocate_zeroed(1, sizeof *primary);
  primary->database = database;
  pthread_mutex_init(&primary->lock, NULL);
  return primary;
}

void primary_free(struct primary *primary) {
  if (primary == NULL) return;
  pthread_mutex_destroy(&primary->lock);
  free(primary->host);
  free(primary);
}

static bool is_same(struct db_server_identity one, struct db_server_identity other) {
  return one.system == other.system && one.timeline == other.timeline;
}

bool primary_admit(struct primary *primary, struct db_server_identity server, const char *host) {
  pthread_mutex_lock(&primary->lock);
  bool is_left =
      server.system == primary->server.system && server.timeline < primary->server.timeline;
  if (!is_left) {
    primary->server = server;
    free(primary->host);
    primary->host = memory_copy_text(host);
  }
  pthread_mutex_unlock(&primary->lock);
  return !is_left;
}

char *primary_host(struct primary *primary) {
  pthread_mutex_lock(&primary->lock);
  char *host = primary->host ? memory_copy_text(primary->host) : NULL;
  pthread_mutex_unlock(&primary->lock);
  return host;
}

void primary_follow(struct primary *primary, struct primary_follower *follower) {
  DL_APPEND(primary->followers, follower);
}

void primary_unfollow(struct primary *primary, struct primary_follower *follower) {
  DL_DELETE(primary->followers, follower);
}

static struct db_server_identity current(struct primary *primary) {
  pthread_mutex_lock(&primary->lock);
  struct db_server_identity server = primary->server;
  pthread_mutex_unlock(&primary->lock);
  return server;
}

bool primary_is(struct primary *primary, struct db_server_identity server) {
  return is_same(current(primary), server);
}

void primary_settle(struct primary *primary) {
  struct db_server_identity server = current(primary);
  if (is_same(server, primary->settled)) return;
  /* At the end of the node nobody may connect anew. */
  if (worker_pool_is_stopping(primary->database->connect_workers)) return;
  bool is_first = primary->settled.system == 0;
  primary->settled = server;
  if (is_first) return;
  log_event(LOG_WARN, "another PostgreSQL server is the primary now; sessions with the old one end",
            NULL);
  struct primary_follower *follower, *next;
  DL_FOREACH_SAFE(primary->followers, follower, next) follower->on_change(follower);
}

static void look_done(struct db_connect *look) {
  struct primary *primary = (struct primary *)look;
  primary->is_looking = false;
  PQfinish(look->pg);
  free(look->error);
  primary_settle(primary);
}

void primary_look(struct primary *primary) {
  if (primary->is_looking) return;
  primary->is_looking = true;
  primary->look = (struct db_connect){.database = primary->database, .done = look_done};
  db_connect_start(&primary->look);
}
