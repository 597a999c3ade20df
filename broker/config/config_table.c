/* THE table of settings: names, types, defaults, ranges, help. Flags, environment, file, --help and
 * check-config all come from these rows, so a new setting is a field in config.h and a row here.
 *
 * Data and look-up only: no parsing, no I/O. */
#include "config/config_table.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* Milliseconds that any timer here can hold without overflow when turned into microseconds. */
#define MAX_MS INT64_C(9000000000000)
#define MAX_PORT 65535
#define GIB (INT64_C(1) << 30)

#define AT(field) #field, offsetof(struct config, field)
#define ROW(name_and_offset, kind, flags, text, least, most, names, title, line) \
  ROW_(name_and_offset, kind, flags, text, least, most, names, title, line)
#define ROW_(title_name, position, type, bits, text, least, most, names, title, line)  \
  {                                                                                    \
    .name = (title_name), .kind = (type), .flags = (bits), .offset = (position),       \
    .default_text = (text), .minimum = (least), .maximum = (most), .choices = (names), \
    .heading = (title), .help = line                                                   \
  }

/* The first argument of each is the heading that starts here, or NULL. */
#define TEXT(title, field, text, line) ROW(AT(field), CONFIG_TEXT, 0, text, 0, 0, NULL, title, line)
#define TEXT_RELOADABLE(title, field, text, line) \
  ROW(AT(field), CONFIG_TEXT, CONFIG_RELOADABLE, text, 0, 0, NULL, title, line)
#define BOOLEAN(title, field, text, line) \
  ROW(AT(field), CONFIG_BOOLEAN, 0, text, 0, 0, NULL, title, line)
#define INTEGER(title, field, text, least, most, line) \
  ROW(AT(field), CONFIG_INTEGER, 0, text, least, most, NULL, title, line)
#define ALIAS_INTEGER(title, field, text, least, most, line) \
  ROW(AT(field), CONFIG_INTEGER, CONFIG_ALIAS, text, least, most, NULL, title, line)
#define COUNT(title, field, text, least, most, line) \
  ROW(AT(field), CONFIG_COUNT, 0, text, least, most, NULL, title, line)
#define BYTES(title, field, text, least, most, line) \
  ROW(AT(field), CONFIG_BYTES, 0, text, least, most, NULL, title, line)
#define CHOICE(title, field, text, names, line) \
  ROW(AT(field), CONFIG_CHOICE, CONFIG_RELOADABLE, text, 0, 0, names, title, line)
#define ADDRESS(title, field, bits, text, line) \
  ROW(AT(field), CONFIG_ADDRESS, bits, text, 0, 0, NULL, title, line)

/* In the order of enum log_level and enum log_format. */
static const char *const log_level_names[] = {"debug", "info", "warn", "error", NULL};
static const char *const log_format_names[] = {"text", "json", NULL};

const struct config_setting config_settings[] = {
    ROW(AT(config), CONFIG_TEXT, CONFIG_NOT_IN_FILE, "", 0, 0, NULL, "Start",
        "YAML file with settings; must exist when named"),
    ROW(AT(database), CONFIG_DATABASE, 0, "", 0, 0, NULL, NULL,
        "libpq connection string or URI, several hosts allowed; empty: the PG* environment"),
    ADDRESS(NULL, listen, 0, "127.0.0.1:9000", "HOST:PORT for clients; host * = every address"),
    ADDRESS(NULL, http, CONFIG_MAY_BE_OFF, "127.0.0.1:9080",
            "HOST:PORT of /live, /ready, /health, /metrics; off = none"),
    ADDRESS(NULL, advertise, CONFIG_MAY_BE_OFF, "",
            "HOST:PORT that clients are told to connect to; empty: the bound address"),
    TEXT(NULL, node_id, "", "name of this node in the cluster; empty: made at start"),
    BOOLEAN(NULL, no_migrate, "false", "do not apply migrations at start"),
    CHOICE(NULL, log_level, "info", log_level_names, "debug, info, warn or error"),
    CHOICE(NULL, log_format, "text", log_format_names, "text or json"),

    ALIAS_INTEGER("Addresses, by the reference's names", broker_port, "9000", 1, MAX_PORT,
                  "port of --listen"),
    ALIAS_INTEGER(NULL, health_check_port, "9080", 1, MAX_PORT, "port of --http"),
    ROW(AT(advertised_client_host), CONFIG_TEXT, CONFIG_ALIAS, "", 0, 0, NULL, NULL,
        "host of --advertise"),
    ALIAS_INTEGER(NULL, advertised_broker_port, "0", 0, MAX_PORT,
                  "port of --advertise; 0 = that of the listener"),
    TEXT(NULL, advertised_host, "localhost", "the broker's id in a cluster is HOST-PORT"),
    BOOLEAN(NULL, enable_exporter, "true", "serve Prometheus metrics at /metrics"),
    INTEGER(NULL, exporter_port, "0", 0, MAX_PORT, "extra port for /metrics; 0 = only on --http"),

    BOOLEAN("Security", use_tls, "false", "TLS (1.2 or newer) on the client listener"),
    TEXT_RELOADABLE(NULL, tls_cert_path, "", "PEM file with the certificate chain"),
    TEXT_RELOADABLE(NULL, tls_key_path, "", "PEM file with the private key"),
    TEXT_RELOADABLE(NULL, tls_ca_path, "", "PEM file; client certificates are checked against it"),
    BOOLEAN(NULL, require_client_cert, "false", "refuse clients without a certificate"),
    BOOLEAN(NULL, enable_sasl, "false", "authenticate clients and check their permissions"),
    ROW(AT(sasl_users), CONFIG_USERS, CONFIG_RELOADABLE, "", 0, 0, NULL, NULL,
        "list of {principal, token, permissions}; outside the file: a YAML file's name"),

    COUNT("Clients", max_client_connections, "1000", 1, 1000000,
          "connections; more wait in the listen queue"),
    INTEGER(NULL, client_idle_timeout_ms, "0", 0, MAX_MS,
            "ms without a request before a connection is closed; 0 = never"),
    INTEGER(NULL, client_request_timeout_ms, "30000", 1, MAX_MS,
            "ms for one request, and for a frame that has started"),
    INTEGER(NULL, handshake_timeout_ms, "10000", 1, MAX_MS,
            "ms from accept to the end of the handshake"),
    INTEGER(NULL, write_timeout_ms, "30000", 1, MAX_MS,
            "ms without a byte taken before a peer is cut off"),
    COUNT(NULL, max_stream_connections, "1000", 1, 1000000, "concurrent STREAMs"),
    ROW(AT(stream_timeout), CONFIG_DURATION, 0, "30m", 1, MAX_MS, NULL, NULL,
        "duration after which a STREAM that could send nothing ends"),
    INTEGER(NULL, drain_timeout_ms, "10000", 1, MAX_MS,
            "ms that requests in progress get at SIGTERM"),
    INTEGER(NULL, wait_poll_interval_ms, "500", 1, MAX_MS,
            "ms between looks for a lost wake-up while clients wait"),

    BYTES("Memory and threads", request_memory_bytes, "268435456", 1 << 20, 1024 * GIB,
          "bytes held for requests in progress before large frames wait"),
    BYTES(NULL, tail_cache_bytes, "67108864", 0, 1024 * GIB, "bytes of recent batches; 0 = none"),
    COUNT(NULL, worker_threads, "2", 1, 64, "threads for large (de)compression"),

    COUNT("Database connections", append_lanes, "4", 1, 64,
          "connections that append, and as many for acks=all"),
    BYTES(NULL, append_group_max_bytes, "4194304", 1, GIB, "bytes in one group commit"),
    COUNT(NULL, append_group_max_items, "512", 1, 65536, "publishes in one group commit"),
    INTEGER(NULL, append_lock_timeout_ms, "2000", 1, INT_MAX, "ms to wait for a partition's lock"),
    COUNT(NULL, read_connections, "2", 1, 64, "connections that read"),
    COUNT(NULL, transaction_connections, "4", 1, 64, "connections that begin and end transactions"),
    COUNT(NULL, stream_connections, "2", 1, 64, "connections that read event streams"),
    COUNT(NULL, control_connections, "2", 1, 64, "connections for everything else"),
    INTEGER(NULL, database_connect_timeout_ms, "5000", 1, INT_MAX,
            "ms for one attempt to connect, at all of the DSN's hosts side by side"),
    INTEGER(NULL, database_retry_max_ms, "500", 1, INT_MAX, "ms between attempts, at most"),

    BOOLEAN("Cluster and topics", enabled_distribution, "true",
            "answer the cluster commands; false gives the reference's standalone errors"),
    INTEGER(NULL, node_expiration_ms, "3600000", 1, MAX_MS,
            "ms for which a node that died is still listed as inactive"),
    INTEGER(NULL, default_replication_factor, "3", 1, INT_MAX, "CREATE default"),
    INTEGER(NULL, min_insync_replicas, "1", 1, INT_MAX, "replicas needed for acks=all"),
    INTEGER(NULL, max_topics, "10000", 1, INT_MAX, "topics"),
    INTEGER(NULL, max_partitions_per_topic, "1024", 1, INT_MAX, "partitions of one topic"),
    INTEGER(NULL, max_partitions, "100000", 1, INT_MAX, "partitions of all topics"),

    BOOLEAN("Producers and transactions", enable_idempotence, "false",
            "treat every publish as idempotent"),
    INTEGER(NULL, producer_state_ttl_ms, "1800000", 1, MAX_MS, "ms a silent producer is known"),
    INTEGER(NULL, transaction_timeout_ms, "60000", 1, MAX_MS, "ms an open transaction may last"),
    INTEGER(NULL, transaction_check_interval_ms, "5000", 1, MAX_MS,
            "ms between looks for transactions past their time"),
    INTEGER(NULL, transaction_cleanup_interval_ms, "60000", 1, MAX_MS,
            "ms between removals of what finished transactions leave behind"),
    INTEGER(NULL, transactional_id_expiration_ms, "604800000", 1, MAX_MS,
            "ms after which a completed transaction is forgotten"),
    INTEGER(NULL, transaction_coordinator_shards, "50", 1, 65536, "logical shards"),
    INTEGER(NULL, transaction_recovery_batch_size, "256", 1, 1000000,
            "transactions recovered in one pass"),

    INTEGER("Consumer groups", consumer_session_timeout_ms, "30000", 1, MAX_MS,
            "ms without a heartbeat before a member is removed"),
    INTEGER(NULL, consumer_heartbeat_check_ms, "5000", 1, MAX_MS,
            "ms between looks for such members"),
    INTEGER(NULL, offset_trim_interval_ms, "30000", 1, MAX_MS,
            "ms between passes that remove superseded committed offsets"),
    ROW(AT(static_consumer_groups), CONFIG_GROUPS, 0, "", 0, 0, NULL, NULL,
        "list of {name, consumer_count, topics, topic_partitions}; or a YAML file's name"),

    TEXT("Retention", log_cleanup_policy, "delete", "CREATE default: delete, compact or both"),
    INTEGER(NULL, log_retention_hours, "168", 1, MAX_MS / 3600000,
            "hours a closed segment is kept"),
    INTEGER(NULL, log_retention_bytes, "-1", -1, INT64_MAX, "bytes a partition keeps; -1 = any"),
    INTEGER(NULL, log_retention_check_interval_ms, "300000", 1, MAX_MS, "ms between passes"),
    INTEGER(NULL, log_compaction_check_interval_ms, "300000", 1, MAX_MS, "ms between passes"),
    ROW(AT(log_min_cleanable_dirty_ratio), CONFIG_REAL, 0, "0.5", 0, 1, NULL, NULL,
        "share of removable bytes that makes compaction worthwhile, between 0 and 1"),
    INTEGER(NULL, log_segment_bytes, "1073741824", 1, INT64_MAX, "bytes after which one closes"),
    INTEGER(NULL, log_segment_roll_ms, "604800000", 1, MAX_MS, "ms after which one closes"),
    INTEGER(NULL, removal_check_interval_ms, "5000", 1, MAX_MS,
            "ms between looks for records of deleted and truncated topics"),
};

const unsigned config_setting_count = sizeof config_settings / sizeof config_settings[0];

/* Accepted with a warning. A '*' stands for any text, at one end. */
static const char *const ignored_names[] = {
    "log_dir",
    "disk_*",
    "linger_ms",
    "compression_type",
    "log_index_*",
    "*_channel_buffer_size",
    "raft_*",
    "discovery_port",
    "bootstrap_*",
    "static_cluster_members",
    "internal_*",
    "allow_insecure_cluster_transport",
    "observation_grpc_*",
    "stream_heartbeat_interval",
    "stream_commit_interval",
};

char *config_canonical_name(const char *name) {
  char *canonical = memory_copy_text(name);
  for (char *c = canonical; *c; c++) {
    *c = (*c == '-' || *c == '.') ? '_' : (char)tolower((unsigned char)*c);
  }
  return canonical;
}

int config_setting_find(const char *name) {
  char *canonical = config_canonical_name(name);
  int found = -1;
  for (unsigned i = 0; i < config_setting_count && found < 0; i++) {
    if (strcmp(config_settings[i].name, canonical) == 0) found = (int)i;
  }
  free(canonical);
  return found;
}

static bool name_matches(const char *pattern, const char *name) {
  size_t length = strlen(pattern);
  if (pattern[0] == '*') {
    size_t tail = length - 1;
    return strlen(name) > tail && strcmp(name + strlen(name) - tail, pattern + 1) == 0;
  }
  if (pattern[length - 1] == '*')
    return strncmp(name, pattern, length - 1) == 0 && name[length - 1];
  return strcmp(name, pattern) == 0;
}

bool config_name_is_ignored(const char *name) {
  char *canonical = config_canonical_name(name);
  bool ignored = false;
  for (size_t i = 0; i < sizeof ignored_names / sizeof ignored_names[0] && !ignored; i++) {
    ignored = name_matches(ignored_names[i], canonical);
  }
  free(canonical);
  return ignored;
}

/* Levenshtein's distance, one row of the matrix at a time. Both texts are shorter than 64 bytes. */
static unsigned edit_distance(const char *a, const char *b) {
  unsigned row[64];
  size_t width = strlen(b);
  for (unsigned j = 0; j <= width; j++) row[j] = j;
  for (unsigned i = 1; a[i - 1]; i++) {
    unsigned diagonal = row[0];
    row[0] = i;
    for (unsigned j = 1; j <= width; j++) {
      unsigned changed = diagonal + (a[i - 1] != b[j - 1]);
      unsigned added = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
      diagonal = row[j];
      row[j] = changed < added ? changed : added;
    }
  }
  return row[width];
}

/* As the edit distance, but a part of a name ("insync") counts as nearer than its missing letters
 * say. */
static unsigned name_distance(const char *typed, const char *name) {
  size_t typed_length = strlen(typed);
  if (typed_length >= 3 && strstr(name, typed)) {
    return (unsigned)(strlen(name) - typed_length) / 4;
  }
  return edit_distance(typed, name);
}

const char *config_nearest_name(const char *name) {
  if (strlen(name) >= 64) return NULL;
  char *canonical = config_canonical_name(name);
  const char *nearest = NULL;
  unsigned best = UINT_MAX;
  for (unsigned i = 0; i < config_setting_count; i++) {
    unsigned distance = name_distance(canonical, config_settings[i].name);
    if (distance < best) {
      best = distance;
      nearest = config_settings[i].name;
    }
  }
  /* More than half of the letters wrong: a guess would only mislead. */
  bool near = best <= (strlen(canonical) + 1) / 2;
  free(canonical);
  return near ? nearest : NULL;
}
