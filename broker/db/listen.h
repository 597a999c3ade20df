/* The node's one LISTEN session: never inside a transaction, checked often, replaced when it is
 * silent. */
#ifndef PGCURSUS_DB_LISTEN_H
#define PGCURSUS_DB_LISTEN_H

#include <stdbool.h>
#include <stdint.h>

struct database;
struct listen;

struct listen_options {
  const struct database *database;
  void (*on_notify)(void *owner, const char *channel, const char *payload);
  /* Listening has begun (again): whatever was announced before is unknown. Or it has ended. */
  void (*on_change)(void *owner, bool listening);
  void *owner;
};

struct listen *listen_open(const struct listen_options *options)
    __attribute__((returns_nonnull, warn_unused_result));
bool listen_is_active(const struct listen *listen);
void listen_close(struct listen *listen);

#endif
