/* The configuration of one broker process: every setting, typed, with where its value came from.
 *
 * A setting has one name and three spellings: `--min-insync-replicas 2`,
 * PGCURSUS_MIN_INSYNC_REPLICAS=2 and `min_insync_replicas: 2` in the YAML file. A flag wins over
 * the environment, the environment over the file, the file over the default. The rows of
 * config_table.c say everything else about a setting.
 *
 * Nothing here logs or exits: loading gives a struct or a text that says what to change. */
#ifndef PGCURSUS_CONFIG_CONFIG_H
#define PGCURSUS_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/log.h"

enum config_action {
  CONFIG_RUN,          /* pgcursusd ...              */
  CONFIG_MIGRATE,      /* pgcursusd migrate ...      */
  CONFIG_CHECK_CONFIG, /* pgcursusd check-config ... */
  CONFIG_HELP,         /* --help, -h: nothing else of the struct is filled in */
  CONFIG_VERSION,      /* --version, -V: likewise */
};

/* What a principal may do (commands-1 1.5), as a set. */
enum config_permission {
  CONFIG_PERMISSION_ADMIN = 1u << 0,
  CONFIG_PERMISSION_TOPIC_READ = 1u << 1,
  CONFIG_PERMISSION_TOPIC_WRITE = 1u << 2,
  CONFIG_PERMISSION_GROUP = 1u << 3,
  CONFIG_PERMISSION_TRANSACTION = 1u << 4,
  CONFIG_PERMISSION_ALL = 0x1f, /* "*" */
};

/* The set that a permission's name stands for, in any letter case; 0 when it is none. */
unsigned config_permission_of(const char *name);

/* The longest token, in bytes. */
#define CONFIG_TOKEN_MAX_LENGTH 4096

/* HOST:PORT. Both parts are NULL when the address is not set (or `off`); host "" means every
 * address. */
struct config_address {
  char *host; /* without the brackets of an IPv6 address */
  char *port; /* decimal */
};

struct config_user {
  char *principal;
  char *token; /* secret */
  char **permission_names;
  unsigned permission_count;
  unsigned permissions; /* set of enum config_permission */
};

struct config_users {
  struct config_user *items;
  unsigned count;
};

struct config_group_topic {
  char *topic;
  int64_t partitions; /* from topic_partitions; 0 when the topic is only named in `topics` */
};

/* A consumer group that is registered at start. */
struct config_group {
  char *name;
  int64_t consumer_count;
  struct config_group_topic *topics;
  unsigned topic_count;
};

struct config_groups {
  struct config_group *items;
  unsigned count;
};

struct config_origin; /* where a value came from; config_origin_of() shows it */

struct config {
  enum config_action action;

  /* Start */
  char *config;   /* the YAML file; "" when none was named */
  char *database; /* libpq connection string or URI, may hold a password; "" = libpq's own
                     environment */
  struct config_address listen; /* client listener; port "0" lets the system choose */
  struct config_address http;   /* /live, /ready, /health, /metrics; host NULL = switched off */
  /* What clients are told to connect to. Either part NULL: use the bound address for it. */
  struct config_address advertise;
  char *node_id; /* "" = the node makes one up */
  bool no_migrate;
  unsigned log_level;  /* enum log_level */
  unsigned log_format; /* enum log_format */

  /* Names of the reference for the same addresses; listen, http and advertise above are the
   * outcome. */
  int64_t broker_port;
  int64_t health_check_port;
  char *advertised_client_host;
  int64_t advertised_broker_port;
  char *advertised_host; /* broker id in CLUSTER_STATUS = <advertised_host>-<broker_port> */
  bool enable_exporter;  /* false: no /metrics */
  int64_t exporter_port; /* 0 = /metrics is on the http port, else a second HTTP listener there */

  /* Security */
  bool use_tls;
  char *tls_cert_path;
  char *tls_key_path;
  char *tls_ca_path; /* "" = client certificates are not checked */
  bool require_client_cert;
  bool enable_sasl;
  struct config_users sasl_users;

  /* Connections, requests, streams */
  unsigned max_client_connections;
  int64_t client_idle_timeout_ms; /* 0 = never */
  int64_t client_request_timeout_ms;
  int64_t handshake_timeout_ms;
  int64_t write_timeout_ms;
  unsigned max_stream_connections;
  int64_t stream_timeout; /* milliseconds */
  int64_t drain_timeout_ms;
  int64_t wait_poll_interval_ms;

  /* Memory and work */
  size_t request_memory_bytes;
  size_t tail_cache_bytes;
  unsigned worker_threads;

  /* Database */
  unsigned append_lanes;
  size_t append_group_max_bytes;
  unsigned append_group_max_items;
  int64_t append_lock_timeout_ms;
  unsigned read_connections;
  unsigned stream_connections;
  unsigned control_connections;
  unsigned transaction_connections;
  int64_t database_connect_timeout_ms;
  int64_t database_retry_max_ms;

  /* Cluster, topics, durability */
  bool enabled_distribution;
  int64_t node_expiration_ms; /* how long a node that died is still shown */
  int64_t default_replication_factor;
  int64_t min_insync_replicas;
  int64_t max_topics;
  int64_t max_partitions_per_topic;
  int64_t max_partitions;

  /* Producers and transactions */
  bool enable_idempotence;
  int64_t producer_state_ttl_ms;
  int64_t transaction_timeout_ms;
  int64_t transaction_check_interval_ms;
  int64_t transaction_cleanup_interval_ms;
  int64_t transactional_id_expiration_ms;
  int64_t transaction_coordinator_shards;
  int64_t transaction_recovery_batch_size;

  /* Groups */
  int64_t consumer_session_timeout_ms;
  int64_t consumer_heartbeat_check_ms; /* always smaller than the session timeout */
  int64_t offset_trim_interval_ms;     /* passes that remove superseded committed offsets */
  struct config_groups static_consumer_groups;

  /* Retention and compaction */
  char *log_cleanup_policy; /* canonical: "delete", "compact" or "delete,compact" */
  int64_t log_retention_hours;
  int64_t log_retention_bytes; /* -1 = unlimited */
  int64_t log_retention_check_interval_ms;
  int64_t log_compaction_check_interval_ms;
  double log_min_cleanable_dirty_ratio;
  int64_t log_segment_bytes;
  int64_t log_segment_roll_ms;
  int64_t removal_check_interval_ms; /* looks for records of deleted and truncated topics */

  /* What the operator should know although it stops nothing (values that fell back to a default,
   * ignored settings). To be logged once the log is set up. */
  char **warnings;
  unsigned warning_count;

  struct config_origin *origins; /* private: one a row of the table */
  int argc;                      /* private: the command line, for config_reload() */
  char **argv;
};

/* Reads the command line, the environment and the file, checks everything. NULL, with `*error` set
 * to a text the caller frees, when the process must not start like this. */
struct config *config_load(int argc, char **argv, char **error) __attribute__((warn_unused_result));

/* Reads everything again (SIGHUP). The result differs from `current` only in what can change while
 * the broker runs: certificates, users, log level and format; other changes become warnings and
 * keep the current value. NULL with `*error` when the new configuration is bad: `current` then
 * stays in force. */
struct config *config_reload(const struct config *current, char **error)
    __attribute__((warn_unused_result));

void config_free(struct config *config);

/* The output of check-config: every setting, its value and where it came from, as YAML. Secrets
 * show as ***. */
void config_print_effective(const struct config *config, FILE *out);

/* The text of --help. */
void config_print_help(FILE *out);

/* Where the value of the setting `name` came from: "default", "file NAME:LINE", "environment
 * VARIABLE" or "flag --name". NULL for an unknown name. */
const char *config_origin_of(const struct config *config, const char *name);

/* The connection string with its passwords replaced by ***, for logs. The caller frees it. */
char *config_mask_database(const char *database) __attribute__((warn_unused_result));

#endif
