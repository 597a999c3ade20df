/* Takes connection strings apart. Owns no session and must not wait for a server: only names are
 * waited for. */
#include "db/hosts.h"

#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* One place, or what stands in the connection string. libpq lets a later keyword win, so defaults
 * stand before the connection string (dbname, which it expands) and what the node relies on stands
 * after it. A keyword without a value counts for nothing. */
static PGconn *start(const struct db_hosts *hosts, const struct db_host *host,
                     const char *spoiler) {
  const char *const keywords[] = {"tcp_user_timeout",
                                  "keepalives_idle",
                                  "keepalives_interval",
                                  "keepalives_count",
                                  "target_session_attrs",
                                  "fallback_application_name",
                                  "dbname",
                                  "client_encoding",
                                  "host",
                                  "hostaddr",
                                  "port",
                                  "channel_binding",
                                  NULL};
  const char *const values[] = {"10000",
                                "10",
                                "5",
                                "3",
                                "read-write",
                                hosts->application_name,
                                hosts->conninfo,
                                "UTF8",
                                host->host,
                                host->address,
                                host->port,
                                spoiler,
                                NULL};
  return PQconnectStartParams(keywords, values, 1);
}

/* Elements of a comma-separated list; 0 when there is none or one of them is empty. */
static unsigned count_elements(const char *list) {
  unsigned count = 0;
  for (; list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL) {
    if (*list == ',' || *list == '\0') return 0;
    count++;
  }
  return count;
}

/* A copy of element `number`, or of the last one; NULL when there is no list. */
static char *element(const char *list, unsigned number) {
  if (list == NULL) return NULL;
  for (const char *comma; number > 0 && (comma = strchr(list, ',')) != NULL; number--) {
    list = comma + 1;
  }
  char *copy = memory_copy_text(list);
  copy[strcspn(copy, ",")] = '\0';
  return copy;
}

/* Takes the texts. */
static void add(struct db_hosts *hosts, char *host, char *address, char *port) {
  hosts->list = memory_resize(hosts->list, (hosts->count + 1) * sizeof *hosts->list);
  hosts->list[hosts->count++] = (struct db_host){.host = host, .address = address, .port = port};
}

/* Adds every address of a name; of a name that has none libpq shall complain. Takes the texts. */
static void add_addresses(struct db_hosts *hosts, char *host, char *port) {
  const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
  struct addrinfo *found = NULL;
  bool is_path = host[0] == '/' || host[0] == '@';
  if (is_path || getaddrinfo(host, NULL, &hints, &found) != 0 || found == NULL) {
    add(hosts, host, NULL, port);
    return;
  }
  for (const struct addrinfo *one = found; one; one = one->ai_next) {
    char address[NI_MAXHOST];
    if (getnameinfo(one->ai_addr, one->ai_addrlen, address, sizeof address, NULL, 0,
                    NI_NUMERICHOST) == 0) {
      add(hosts, memory_copy_text(host), memory_copy_text(address), memory_copy_text(port));
    }
  }
  freeaddrinfo(found);
  free(host);
  free(port);
}

static const char *value_of(const PQconninfoOption *options, const char *keyword) {
  for (; options && options->keyword; options++) {
    if (strcmp(options->keyword, keyword) == 0) return options->val;
  }
  return NULL;
}

/* False when libpq must have the lists as they are. */
static bool take_apart(struct db_hosts *hosts, const PQconninfoOption *options) {
  const char *names = value_of(options, "host"), *addresses = value_of(options, "hostaddr"),
             *ports = value_of(options, "port"),
             *attributes = value_of(options, "target_session_attrs");
  unsigned count = count_elements(addresses ? addresses : names);
  if (count == 0 || (names && count_elements(names) != count)) return false;
  if (ports && count_elements(ports) != 1 && count_elements(ports) != count) return false;
  if (attributes && strcmp(attributes, "prefer-standby") == 0) return false;
  for (unsigned i = 0; i < count; i++) {
    char *host = element(names, i), *address = element(addresses, i), *port = element(ports, i);
    if (address) {
      add(hosts, host, address, port);
    } else {
      add_addresses(hosts, host, port);
    }
  }
  return true;
}

/* What a connection string means, with services and the environment, libpq tells only of a PGconn;
 * an impossible setting stops that one before it connects. */
static PQconninfoOption *read_options(const struct db_hosts *hosts) {
  const struct db_host as_given = {.host = NULL};
  PGconn *pg = start(hosts, &as_given, "impossible");
  PQconninfoOption *options = PQconninfo(pg);
  PQfinish(pg);
  return options;
}

void db_hosts_find(struct db_hosts *hosts, const char *conninfo, const char *application_name,
                   int64_t timeout_ms) {
  *hosts = (struct db_hosts){
      .conninfo = conninfo, .application_name = application_name, .timeout_ms = timeout_ms};
  PQconninfoOption *options = read_options(hosts);
  const char *seconds = value_of(options, "connect_timeout");
  if (seconds && strtol(seconds, NULL, 10) > 0)
    hosts->timeout_ms = strtol(seconds, NULL, 10) * 1000;
  if (!take_apart(hosts, options)) add(hosts, NULL, NULL, NULL);
  PQconninfoFree(options);
}

void db_hosts_release(struct db_hosts *hosts) {
  for (unsigned i = 0; i < hosts->count; i++) {
    free(hosts->list[i].host);
    free(hosts->list[i].address);
    free(hosts->list[i].port);
  }
  free(hosts->list);
}

char *db_host_name(const struct db_host *host) {
  const char *parts[] = {host->host, host->address, host->port};
  char *name = NULL;
  size_t size = 0;
  FILE *stream = open_memstream(&name, &size);
  for (size_t i = 0; i < 3; i++) fprintf(stream, "%s%s", i ? "," : "", parts[i] ? parts[i] : "");
  fclose(stream);
  return name;
}

void db_hosts_prefer(struct db_hosts *hosts, const char *name) {
  for (unsigned i = 0; name && i < hosts->count; i++) {
    char *own = db_host_name(&hosts->list[i]);
    bool is_it = strcmp(own, name) == 0;
    free(own);
    if (!is_it) continue;
    struct db_host preferred = hosts->list[i];
    memmove(&hosts->list[1], &hosts->list[0], i * sizeof preferred);
    hosts->list[0] = preferred;
    return;
  }
}

PGconn *db_hosts_start(const struct db_hosts *hosts, unsigned number) {
  return start(hosts, &hosts->list[number], NULL);
}
