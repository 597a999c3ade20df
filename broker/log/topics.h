/* Topic definitions as this node knows them.
 *
 * A cached definition is advice: the append function refuses a stale one, a reader finds the log
 * gone. It is dropped on a notification; while the node does not listen, it is trusted for a
 * second. */
#ifndef PGCURSUS_LOG_TOPICS_H
#define PGCURSUS_LOG_TOPICS_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "db/control.h"

struct ev_loop;
struct topics;

enum topic_operation { TOPIC_READ_ACCESS, TOPIC_WRITE_ACCESS };

struct topic {
  unsigned references;
  char *name;
  int64_t log_id;
  int32_t partition_count;
  int32_t replication_factor;
  bool idempotent;
  bool event_sourcing;
  bool aggregate_replay;
  int32_t min_in_sync_replicas; /* 0: unset */
  char *cleanup_policy;
  int64_t retention_hours;
  int64_t retention_bytes;
  char *partitioner;
  char *auth_policy;
  char *read_acl; /* comma separated */
  char *write_acl;
  int64_t revision;
  int64_t lifecycle_epoch;
  bool places_by_key; /* partitioner hash_key */
};

/* Reads a row that has the columns of enum topic_column. One reference, the caller's. */
struct topic *topic_from_row(const PGresult *rows, int row)
    __attribute__((returns_nonnull, warn_unused_result));
/* The few columns of enum topic_list_column; everything else is empty. */
struct topic *topic_from_list_row(const PGresult *rows, int row)
    __attribute__((returns_nonnull, warn_unused_result));
struct topic *topic_retain(struct topic *topic);
void topic_release(struct topic *topic);

/* May `principal` (NULL: nobody) read or write under this policy (commands-1 1.6)? */
bool topic_policy_allows(const char *auth_policy, const char *acl, enum topic_operation operation,
                         const char *principal);
bool topic_allows(const struct topic *topic, enum topic_operation operation, const char *principal);

/* The in-sync replicas that acks=all needs: the topic's own minimum or the broker's, at least 1. */
int64_t topic_effective_min_in_sync(const struct topic *topic, int64_t broker_minimum);

struct topics_options {
  struct ev_loop *loop;
  struct control *control;
};

struct topics *topics_create(const struct topics_options *options)
    __attribute__((returns_nonnull, warn_unused_result));
void topics_free(struct topics *topics);

/* The cached definition when it can be trusted, else NULL. Borrowed until the next turn of the
 * loop. */
struct topic *topics_find(struct topics *topics, struct slice name);

/* Reads a definition from the database. Embedded in the caller's struct; `on_done` is called
 * exactly once, never before topics_load() has returned. `topic` is borrowed, and NULL when
 * `status` is CONTROL_OK and there is none. */
struct topic_load {
  struct control_call call; /* first; the caller sets call.deadline_us only */
  void (*on_done)(struct topic_load *load, enum control_status status, struct topic *topic,
                  const char *reason);
  struct topics *topics;
  uint64_t changes; /* private */
};
void topics_load(struct topics *topics, struct topic_load *load, struct slice name);

/* The next partition in turn for a topic (commands-1 4.5); counts from 0 since this node first met
 * it. */
int32_t topics_next_partition(struct topics *topics, const struct topic *topic);

/* Puts a definition that was just read into the cache. */
void topics_put(struct topics *topics, struct topic *topic);
void topics_forget(struct topics *topics, struct slice name);
void topics_forget_all(struct topics *topics);

/* Whether changes are announced to this node at the moment. */
void topics_set_listening(struct topics *topics, bool listening);

#endif
