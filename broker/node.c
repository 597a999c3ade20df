/* Wires the parts together, and nothing more: no part knows another but through what it is given
 * here. */
#include "node.h"

#include <ev.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "base/service.h"
#include "base/worker.h"
#include "cluster/configured_groups.h"
#include "cluster/heartbeats.h"
#include "cluster/housekeeping.h"
#include "cluster/nodes.h"
#include "cluster/users.h"
#include "crs2/crs2.h"
#include "crs2/stream.h"
#include "db/control.h"
#include "db/database.h"
#include "db/health.h"
#include "db/listen.h"
#include "db/primary.h"
#include "http/http.h"
#include "log/announce.h"
#include "log/append.h"
#include "log/commits.h"
#include "log/committed.h"
#include "log/read.h"
#include "log/tail_cache.h"
#include "log/topics.h"
#include "log/wake.h"
#include "net/budget.h"
#include "net/listener.h"
#include "net/tls.h"
#include "security.h"

#define CONNECT_THREADS_MAX 32u
/* Notifications, their announcement, the registry, three for groups, housekeeping, and the one that
 * looks for another primary. */
#define SINGLE_SESSIONS 8u
/* Of its own, so that failing logins delay nothing but logins. */
#define LOGIN_THREADS 1u
#define DRAIN_POLL_SECONDS 0.01
#define TRIM_SECONDS 5.0

struct node {
  struct ev_loop *loop;
  struct config *config;
  char *conninfo; /* outlives a configuration that is replaced */
  struct database database;
  struct worker_pool *workers;
  struct worker_pool *login_workers;
  struct memory_budget budget;
  struct db_health health;
  struct tail_cache *cache;
  struct wake *wake;
  struct control *control;
  struct control *transactions;
  struct control *queries;
  struct topics *topics;
  struct users *users;
  struct announce *announce;
  struct append *append;
  struct commits *commits;
  struct committed *committed;
  struct heartbeats *heartbeats;
  struct configured_groups *configured_groups;
  struct nodes *nodes;
  struct read_pool *reads;
  struct listen *listen;
  struct housekeeping *housekeeping;
  struct tls_server *tls; /* NULL: plain sockets */
  struct listener *listener;
  struct http_server *http;
  struct http_server *exporter;
  struct crs2 crs2;
  char node_id[300];
  char advertised[300];
  char application_name[400];
  bool accepting;
  bool draining;
  bool was_announced;
  int64_t drain_deadline_us;
  ev_timer drain_timer;
  ev_timer trim_timer;
  size_t trimmed_at_peak;
  struct metric_series *connections;
  struct metric_series *database_ready;
  struct metric_series *memory_used;
  struct metric_series *cache_used;
  struct metric_series *appends_pending;
  struct metric_series *standby_missing;
};

/* ------------------------------------------------------------------ what other nodes announce */

/* The rest of a payload that begins with `word`, else NULL. */
static const char *after_word(const char *payload, const char *word) {
  size_t length = strlen(word);
  return strncmp(payload, word, length) == 0 ? payload + length : NULL;
}

static void topic_changed(struct node *node, struct slice name) {
  struct topic *topic = topics_find(node->topics, name);
  int64_t log_id = topic ? topic->log_id : 0;
  topics_forget(node->topics, name);
  configured_groups_note_topic(node->configured_groups, name);
  if (log_id) wake_signal_log(node->wake, log_id);
}

/* LOG PARTITION OFFSET: something below was removed. */
static void log_trimmed(struct node *node, const char *text) {
  long long log_id, offset;
  int partition;
  if (sscanf(text, "%lld %d %lld", &log_id, &partition, &offset) != 3) return;
  tail_cache_trim(node->cache, log_id, partition, offset);
}

static void on_notify(void *owner, const char *channel, const char *payload) {
  struct node *node = owner;
  const char *rest;
  if (strcmp(channel, ANNOUNCE_APPEND_CHANNEL) == 0) announce_receive(node->announce, payload);
  if (strcmp(channel, ANNOUNCE_CONTROL_CHANNEL) != 0) return;
  if ((rest = after_word(payload, "topic ")) != NULL) {
    topic_changed(node, slice_text(rest));
  } else if ((rest = after_word(payload, "log ")) != NULL) {
    wake_signal_log(node->wake, strtoll(rest, NULL, 10)); /* it is no topic's any more */
  } else if ((rest = after_word(payload, "trimmed ")) != NULL) {
    log_trimmed(node, rest);
  } else if ((rest = after_word(payload, "group ")) != NULL) {
    heartbeats_forget_group(node->heartbeats, slice_text(rest));
  } else if (after_word(payload, STREAM_ANNOUNCEMENT) != NULL) {
    streams_receive(&node->crs2, payload);
  } else if (strcmp(payload, "nodes") == 0) {
    nodes_refresh(node->nodes);
  } else if (strcmp(payload, "users") == 0 && node->config->enable_sasl) {
    users_read_table(node->users);
  }
}

static void announce(struct node *node) {
  if (node->was_announced || !node->accepting || !db_health_is_ready(&node->health)) return;
  if (node->config->enable_sasl && !users_are_read(node->users)) return;
  if (!configured_groups_are_settled(node->configured_groups)) return;
  node->was_announced = true;
  log_event(LOG_INFO, "ready", "listen", listener_address(node->listener), "http",
            node->http ? http_address(node->http) : NULL, "exporter",
            node->exporter ? http_address(node->exporter) : NULL, "advertise", node->advertised,
            "node", node->node_id, NULL);
  char status[200];
  snprintf(status, sizeof status, "serving clients on %s", listener_address(node->listener));
  service_notify_ready(status);
}

/* A session with PostgreSQL is lost. When that is a fail-over, records with acks=0 or 1 that this
 * node has seen may be gone, and others get their offsets. What old sessions brought is forgotten
 * at the latest with the last of them. */
static void on_session_loss(void *owner) {
  struct node *node = owner;
  tail_cache_clear(node->cache);
}

static void on_listen_change(void *owner, bool listening) {
  struct node *node = owner;
  tail_cache_set_listening(node->cache, listening);
  topics_set_listening(node->topics, listening);
  heartbeats_set_listening(node->heartbeats, listening);
  if (!listening) return;
  /* What was announced while nobody listened is unknown. */
  configured_groups_note_topic(node->configured_groups, slice_of(NULL, 0));
  if (node->config->enable_sasl) users_read_table(node->users);
}

/* ------------------------------------------------------------------ health and metrics */

static unsigned readiness(void *context, struct http_check *checks, unsigned capacity) {
  struct node *node = context;
  if (!node->was_announced && !node->draining) {
    checks[0] = (struct http_check){.name = "broker", .state = "starting"};
    return 1;
  }
  unsigned count = 0;
  checks[count++] =
      (struct http_check){.name = "broker", .state = node->draining ? "stopping" : "ok"};
  if (count < capacity) {
    checks[count++] =
        (struct http_check){.name = "database", .state = db_health_text(&node->health)};
  }
  return count;
}

static void refresh_metrics(void *context) {
  struct node *node = context;
  metric_set(node->connections, node->listener ? listener_connection_count(node->listener) : 0);
  metric_set(node->database_ready, db_health_is_ready(&node->health));
  metric_set(node->memory_used, (double)node->budget.used);
  metric_set(node->cache_used, (double)tail_cache_memory(node->cache));
  metric_set(node->appends_pending, append_pending(node->append));
  metric_set(node->standby_missing, append_waits_for_standby(node->append));
}

static struct metric_series *gauge(const char *name, const char *help) {
  return metric_with(metric_gauge(name, help, NULL, NULL), NULL, NULL);
}

static void register_metrics(struct node *node) {
  node->connections = gauge("pgcursus_connections", "Client connections open.");
  node->database_ready =
      gauge("pgcursus_database_ready", "1 when every session to PostgreSQL is ready.");
  node->memory_used =
      gauge("pgcursus_request_memory_bytes", "Memory held by requests in progress.");
  node->cache_used = gauge("pgcursus_tail_cache_bytes", "Memory held by the tail cache.");
  node->standby_missing =
      gauge("pgcursus_standby_missing",
            "1 while publishes with acks=all wait for a synchronous standby that is missing.");
  node->appends_pending = gauge("pgcursus_appends_pending", "Publishes queued or in flight.");
}

/* glibc keeps what a large request freed; a node that idles gives it back. */
static void on_trim(struct ev_loop *loop, ev_timer *timer, int events) {
  struct node *node = timer->data;
  (void)loop;
  (void)events;
  if (node->budget.peak == node->trimmed_at_peak || node->budget.used > node->budget.limit / 16)
    return;
  malloc_trim(0);
  node->budget.peak = node->budget.used;
  node->trimmed_at_peak = node->budget.peak;
}

/* ------------------------------------------------------------------ opening */

static const char *or_default(const char *text, const char *otherwise) {
  return text && *text ? text : otherwise;
}

/* What clients are told: the configured address, or the bound one. An address that means "every
 * interface" is no use to a client, so the host then becomes localhost. */
static void choose_advertised(struct node *node) {
  const struct config *config = node->config;
  const char *bound = listener_address(node->listener);
  const char *colon = strrchr(bound, ':');
  const char *port = or_default(config->advertise.port, colon ? colon + 1 : "9000");
  char host[256];
  snprintf(host, sizeof host, "%.*s", (int)(colon ? colon - bound : 0), bound);
  bool is_any = strcmp(host, "0.0.0.0") == 0 || strcmp(host, "[::]") == 0 || host[0] == '\0';
  const char *chosen = or_default(config->advertise.host, is_any ? "localhost" : host);
  if (strchr(chosen, ':') && chosen[0] != '[') {
    snprintf(node->advertised, sizeof node->advertised, "[%s]:%s", chosen, port);
  } else {
    snprintf(node->advertised, sizeof node->advertised, "%s:%s", chosen, port);
  }
  if (config->node_id && *config->node_id) {
    snprintf(node->node_id, sizeof node->node_id, "%s", config->node_id);
  } else {
    snprintf(node->node_id, sizeof node->node_id, "%s-%s",
             or_default(config->advertised_host, "localhost"), port);
  }
}

static struct http_server *open_http(struct node *node, const char *host, const char *port,
                                     unsigned serves, char **reason) {
  const struct http_options options = {
      .host = host,
      .port = port,
      .serves = serves,
      .readiness = readiness,
      .refresh_metrics = refresh_metrics,
      .context = node,
  };
  return http_start(node->loop, &options, reason);
}

/* The health port and, when it is set, one more for metrics alone, on the same host. */
static bool open_http_ports(struct node *node, char **reason) {
  const struct config *config = node->config;
  if (config->http.host) {
    unsigned serves = HTTP_HEALTH | (config->enable_exporter ? HTTP_METRICS : 0);
    node->http = open_http(node, config->http.host, config->http.port, serves, reason);
    if (!node->http) return false;
  }
  if (!config->enable_exporter || !config->exporter_port) return true;
  char port[16];
  snprintf(port, sizeof port, "%lld", (long long)config->exporter_port);
  const char *host = config->http.host ? config->http.host : or_default(config->listen.host, "");
  node->exporter = open_http(node, host, port, HTTP_METRICS, reason);
  return node->exporter != NULL;
}

static bool open_ports(struct node *node) {
  const struct config *config = node->config;
  char *reason = NULL;
  const struct listener_options listener_options = {
      .host = or_default(config->listen.host, ""),
      .port = config->listen.port,
      .max_connections = config->max_client_connections,
      .write_timeout_ms = config->write_timeout_ms,
      .budget = &node->budget,
      .tls = node->tls,
      .on_accept = crs2_accept,
      .context = &node->crs2,
  };
  node->listener = listener_open(node->loop, &listener_options, &reason);
  bool opened = node->listener && open_http_ports(node, &reason);
  if (reason) log_event(LOG_ERROR, "cannot start", "reason", reason, NULL);
  free(reason);
  if (opened) security_warn_of_clear_text(config, node->listener);
  return opened;
}

static void open_control(struct node *node) {
  const struct config *config = node->config;
  const struct control_options control_options = {.database = &node->database,
                                                  .connections = config->control_connections};
  node->control = control_open(&control_options);
  const struct control_options transaction_options = {
      .database = &node->database,
      .connections = config->transaction_connections,
      .lock_timeout_ms = config->append_lock_timeout_ms,
  };
  node->transactions = control_open(&transaction_options);
  const struct control_options query_options = {
      .database = &node->database, .connections = config->stream_connections, .reads_only = true};
  node->queries = control_open(&query_options);
  const struct topics_options topics_options = {.loop = node->loop, .control = node->control};
  node->topics = topics_create(&topics_options);
  const struct users_options users_options = {
      .loop = node->loop, .control = node->control, .workers = node->login_workers};
  node->users = users_open(&users_options);
  users_set_configured(node->users, &config->sasl_users);
  const struct listen_options listen_options = {
      .database = &node->database,
      .on_notify = on_notify,
      .on_change = on_listen_change,
      .owner = node,
  };
  node->listen = listen_open(&listen_options);
}

static void open_nodes(struct node *node) {
  const struct nodes_options options = {
      .database = &node->database,
      .node_id = node->node_id,
      .address = node->advertised,
  };
  node->nodes = nodes_open(&options);
}

static bool has_listeners(void *owner) {
  struct node *node = owner;
  return nodes_has_others(node->nodes);
}

static void open_log(struct node *node) {
  const struct config *config = node->config;
  node->cache = tail_cache_create(config->tail_cache_bytes);
  tail_cache_set_listening(node->cache, false);
  node->health.on_loss = on_session_loss;
  node->health.owner = node;
  node->wake = wake_create();
  const struct announce_options announce_options = {
      .database = &node->database,
      .wake = node->wake,
      .has_listeners = has_listeners,
      .owner = node,
  };
  node->announce = announce_open(&announce_options);
  const struct append_options append_options = {
      .database = &node->database,
      .cache = node->cache,
      .announce = node->announce,
      .lanes = config->append_lanes,
      .group_max_bytes = config->append_group_max_bytes,
      .group_max_items = config->append_group_max_items,
      .min_insync_replicas = (int)config->min_insync_replicas,
      .lock_timeout_ms = config->append_lock_timeout_ms,
  };
  node->append = append_open(&append_options);
  const struct read_options read_options = {
      .database = &node->database,
      .cache = node->cache,
      .wake = node->wake,
      .connections = config->read_connections,
      .poll_interval_ms = config->wait_poll_interval_ms,
  };
  node->reads = read_pool_open(&read_options);
}

static void open_housekeeping(struct node *node) {
  const struct housekeeping_options options = {
      .database = &node->database,
      .config = node->config,
      .tasks = housekeeping_tasks,
      .task_count = housekeeping_task_count,
  };
  node->housekeeping = housekeeping_open(&options);
}

static void open_groups(struct node *node) {
  const struct config *config = node->config;
  node->commits = commits_open(&node->database);
  node->committed = committed_open(&node->database);
  const struct heartbeats_options heartbeats_options = {
      .database = &node->database,
      .session_timeout_ms = config->consumer_session_timeout_ms,
  };
  node->heartbeats = heartbeats_open(&heartbeats_options);
  node->configured_groups =
      configured_groups_open(node->database.loop, node->control, &config->static_consumer_groups);
}

static void open_front_end(struct node *node) {
  node->crs2 = (struct crs2){.loop = node->loop,
                             .config = node->config,
                             .announce = node->announce,
                             .append = node->append,
                             .commits = node->commits,
                             .committed = node->committed,
                             .heartbeats = node->heartbeats,
                             .control = node->control,
                             .transactions = node->transactions,
                             .queries = node->queries,
                             .nodes = node->nodes,
                             .reads = node->reads,
                             .topics = node->topics,
                             .users = node->users,
                             .wake = node->wake,
                             .workers = node->workers,
                             .budget = &node->budget,
                             .advertised = node->advertised,
                             .node_id = node->node_id};
  crs2_init(&node->crs2);
}

static bool open_workers(struct node *node) {
  /* After a fail-over all sessions connect at once, and each may have to wait for a host that is
   * silent. */
  const struct config *config = node->config;
  struct database *database = &node->database;
  unsigned busy = 2 * config->append_lanes + config->read_connections + config->control_connections;
  unsigned sessions =
      busy + config->transaction_connections + config->stream_connections + SINGLE_SESSIONS;
  database->connect_workers = worker_pool_start(
      node->loop, sessions < CONNECT_THREADS_MAX ? sessions : CONNECT_THREADS_MAX);
  database->bulk_workers = worker_pool_start(node->loop, busy);
  node->workers = worker_pool_start(node->loop, config->worker_threads);
  node->login_workers = worker_pool_start(node->loop, LOGIN_THREADS);
  if (database->connect_workers && database->bulk_workers && node->workers && node->login_workers) {
    return true;
  }
  log_event(LOG_ERROR, "cannot start", "reason", "a thread cannot be started", NULL);
  return false;
}

/* The node takes clients once PostgreSQL has been reached for the first time, so that a port that
 * answers is one that works. */
static void on_startup_tick(struct ev_loop *loop, ev_timer *timer, int events) {
  struct node *node = timer->data;
  (void)events;
  announce(node);
  if (node->was_announced) {
    ev_timer_stop(loop, timer);
    ev_timer_init(timer, on_trim, TRIM_SECONDS, TRIM_SECONDS);
    ev_timer_start(loop, timer);
  }
}

/* Blocks above this size are the system's: growing one moves pages instead of copying bytes, which
 * would hold the loop, and freeing one gives the memory back. glibc's own threshold rises to 32 MiB
 * with use. */
#define SYSTEM_BLOCK_BYTES (4 << 20)

struct node *node_open(struct ev_loop *loop, struct config *config) {
  mallopt(M_MMAP_THRESHOLD, SYSTEM_BLOCK_BYTES);
  struct node *node = memory_allocate_zeroed(1, sizeof *node);
  node->loop = loop;
  node->config = config;
  node->conninfo = memory_copy_text(config->database);
  node->database = (struct database){.loop = loop,
                                     .conninfo = node->conninfo,
                                     .application_name = node->application_name,
                                     .health = &node->health};
  database_set_timeouts(&node->database, config->database_connect_timeout_ms,
                        config->database_retry_max_ms, config->client_request_timeout_ms);
  node->budget.limit = config->request_memory_bytes;
  node->database.primary = primary_create(&node->database);
  register_metrics(node);
  if (!open_workers(node) || !security_open_tls(config, &node->tls) || !open_ports(node)) {
    node_close(node);
    return NULL;
  }
  choose_advertised(node);
  snprintf(node->application_name, sizeof node->application_name, "pgcursus %s", node->node_id);
  open_control(node);
  open_nodes(node);
  open_log(node);
  open_groups(node);
  open_housekeeping(node);
  open_front_end(node);
  node->accepting = true;
  ev_timer_init(&node->trim_timer, on_startup_tick, 0.01, 0.01);
  node->trim_timer.data = node;
  ev_timer_start(loop, &node->trim_timer);
  return node;
}

/* ------------------------------------------------------------------ reload and end */

void node_reload(struct node *node) {
  char *error = NULL;
  struct config *config = config_reload(node->config, &error);
  if (config == NULL) {
    log_event(LOG_ERROR, "the new configuration is bad; the old one stays", "reason", error, NULL);
    free(error);
    return;
  }
  for (unsigned i = 0; i < config->warning_count; i++) {
    log_event(LOG_WARN, "configuration", "warning", config->warnings[i], NULL);
  }
  log_set_level((enum log_level)config->log_level);
  log_set_format((enum log_format)config->log_format);
  config_free(node->config);
  node->config = config;
  node->crs2.config = config;
  housekeeping_set_config(node->housekeeping, config);
  security_reload_tls(config, node->tls);
  users_set_configured(node->users, &config->sasl_users);
  if (config->enable_sasl) users_read_table(node->users);
  log_event(LOG_INFO, "configuration reloaded", NULL);
}

static void on_drain_tick(struct ev_loop *loop, ev_timer *timer, int events) {
  struct node *node = timer->data;
  (void)events;
  bool overdue = clock_monotonic_us() > node->drain_deadline_us;
  bool is_done = crs2_is_idle(&node->crs2) && nodes_has_left(node->nodes);
  if (!is_done && !overdue) return;
  if (overdue) log_event(LOG_WARN, "some requests did not finish in time to stop", NULL);
  ev_timer_stop(loop, timer);
  ev_break(loop, EVBREAK_ALL);
}

void node_drain(struct node *node) {
  if (node->draining) return;
  log_event(LOG_INFO, "stopping", NULL);
  node->draining = true;
  node->drain_deadline_us = clock_monotonic_us() + node->config->drain_timeout_ms * 1000;
  nodes_leave(node->nodes);
  listener_stop(node->listener);
  crs2_drain(&node->crs2);
  ev_timer_init(&node->drain_timer, on_drain_tick, 0., DRAIN_POLL_SECONDS);
  node->drain_timer.data = node;
  ev_timer_start(node->loop, &node->drain_timer);
}

/* From the clients inwards, so that whatever is closed has nobody left to answer to. */
void node_close(struct node *node) {
  node->health.stopping = true;
  ev_timer_stop(node->loop, &node->trim_timer);
  ev_timer_stop(node->loop, &node->drain_timer);
  if (node->listener) listener_close(node->listener);
  tls_server_close(node->tls);
  if (node->users) users_stop(node->users);
  if (node->configured_groups) configured_groups_stop(node->configured_groups);
  if (node->login_workers) worker_pool_stop(node->login_workers);
  if (node->workers) worker_pool_stop(node->workers);
  if (node->database.bulk_workers) worker_pool_stop(node->database.bulk_workers);
  /* A thread that is connecting reads what the parts below own. */
  if (node->database.connect_workers) worker_pool_stop(node->database.connect_workers);
  if (node->append) append_close(node->append);
  if (node->commits) commits_close(node->commits);
  if (node->committed) committed_close(node->committed);
  if (node->announce) announce_close(node->announce);
  if (node->nodes) nodes_close(node->nodes);
  if (node->reads) read_pool_close(node->reads);
  if (node->housekeeping) housekeeping_close(node->housekeeping);
  if (node->listen) listen_close(node->listen);
  if (node->heartbeats) heartbeats_close(node->heartbeats);
  if (node->queries) control_close(node->queries);
  if (node->control) control_close(node->control);
  if (node->transactions) control_close(node->transactions);
  if (node->http) http_stop(node->http);
  if (node->exporter) http_stop(node->exporter);
  primary_free(node->database.primary);
  users_close(node->users);
  configured_groups_free(node->configured_groups);
  topics_free(node->topics);
  wake_free(node->wake);
  tail_cache_free(node->cache);
  config_free(node->config);
  free(node->conninfo);
  free(node);
}
