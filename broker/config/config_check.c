/* What depends on several settings: addresses under their two names, limits that follow others, and
 * combinations that must not start (commands-1 section 6). */
#include <errno.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/slice.h"
#include "base/text.h"
#include "config/config_private.h"

static unsigned row_of(const char *name) {
  return (unsigned)config_setting_find(name);
}

static bool is_set(const struct config *config, const char *name) {
  return config->origins[row_of(name)].source != CONFIG_FROM_DEFAULT;
}

static void replace_text(char **field, char *text) {
  free(*field);
  *field = text;
}

/* `address_name` and `port_name` say the same port. The one that was set in the stronger place
 * wins, the port when both were set in equal places; afterwards both show the outcome. */
static void merge_port(struct config *config, const char *address_name,
                       struct config_address *address, const char *port_name, int64_t *port) {
  if (!address->port) return; /* switched off */
  unsigned address_row = row_of(address_name), port_row = row_of(port_name);
  const struct config_origin *address_origin = &config->origins[address_row];
  const struct config_origin *port_origin = &config->origins[port_row];
  if (port_origin->source != CONFIG_FROM_DEFAULT && port_origin->source >= address_origin->source) {
    replace_text(&address->port, config_format("%" PRId64, *port));
    char *origin = config_format("%s, port: %s", address_origin->text, port_origin->text);
    config_set_origin(config, address_row, port_origin->source, origin);
    free(origin);
  } else {
    *port = strtoll(address->port, NULL, 10);
    if (address_origin->source != CONFIG_FROM_DEFAULT) {
      config_set_origin(config, port_row, address_origin->source, address_origin->text);
    }
  }
}

/* --advertise, else the reference's two names, else nothing: then the bound address is advertised.
 * What is known only once the listener is bound stays NULL. */
static void derive_advertised_address(struct config *config) {
  struct config_address *address = &config->advertise;
  const char *host = config->advertised_client_host;
  int64_t port = config->advertised_broker_port;
  if (!address->port && (*host || port)) {
    const struct config_origin *origin =
        &config->origins[row_of(*host ? "advertised_client_host" : "advertised_broker_port")];
    config_set_origin(config, row_of("advertise"), origin->source, origin->text);
    address->host = memory_copy_text(host);
    address->port = config_format("%" PRId64, port ? port : config->broker_port);
  }
  if (address->host && !*address->host) replace_text(&address->host, NULL);
  if (address->port && strcmp(address->port, "0") == 0) replace_text(&address->port, NULL);
}

/* "Compact , DELETE" -> "delete,compact" (commands-1 1.6); NULL when a word is neither. */
static const char *canonical_policy(const char *text) {
  bool deletes = false, compacts = false;
  while (true) {
    size_t length = strcspn(text, ",");
    struct slice word = text_trim(slice_of(text, length));
    if (word.length == 6 && strncasecmp((const char *)word.data, "delete", 6) == 0) {
      deletes = true;
    } else if (word.length == 7 && strncasecmp((const char *)word.data, "compact", 7) == 0) {
      compacts = true;
    } else {
      return NULL;
    }
    if (!text[length]) break;
    text += length + 1;
  }
  return deletes && compacts ? "delete,compact" : compacts ? "compact" : "delete";
}

static void derive_cleanup_policy(struct config *config) {
  const char *policy = canonical_policy(config->log_cleanup_policy);
  if (!policy) {
    config_warn(config,
                "%s: log_cleanup_policy: \"%s\" is not delete, compact or both; using delete",
                config_origin_of(config, "log_cleanup_policy"), config->log_cleanup_policy);
    policy = "delete";
  }
  replace_text(&config->log_cleanup_policy, memory_copy_text(policy));
}

static void derive_heartbeat_check(struct config *config) {
  if (config->consumer_heartbeat_check_ms < config->consumer_session_timeout_ms) return;
  int64_t half = config->consumer_session_timeout_ms / 2;
  config->consumer_heartbeat_check_ms = half ? half : 1;
  config_set_origin(config, row_of("consumer_heartbeat_check_ms"),
                    config->origins[row_of("consumer_heartbeat_check_ms")].source,
                    "half of consumer_session_timeout_ms, which it must be below");
  if (is_set(config, "consumer_heartbeat_check_ms")) {
    config_warn(
        config,
        "consumer_heartbeat_check_ms must be below consumer_session_timeout_ms; using %" PRId64,
        config->consumer_heartbeat_check_ms);
  }
}

/* Refusals */

static bool check_database(const struct config *config, char **error) {
  if (!*config->database) return true;
  PQconninfoOption *options = PQconninfoParse(config->database, NULL);
  if (!options) {
    /* libpq's own message may quote a part of a password. */
    *error = config_format(
        "%s: database: not a libpq connection string (\"host=... dbname=...\") or URI "
        "(\"postgresql://...\")",
        config_origin_of(config, "database"));
    return false;
  }
  PQconninfoFree(options);
  return true;
}

static bool check_file(const struct config *config, const char *name, const char *path,
                       bool required, char **error) {
  if (!*path && required) {
    *error = config_format("use_tls needs %s (%s)", name, config_origin_of(config, "use_tls"));
    return false;
  }
  if (*path && access(path, R_OK) != 0) {
    *error = config_format("%s: %s: %s: %s", config_origin_of(config, name), name, path,
                           strerror(errno));
    return false;
  }
  return true;
}

static bool check_tls(struct config *config, char **error) {
  if (!config->use_tls) {
    if (config->require_client_cert) {
      *error = config_format("%s: require_client_cert needs use_tls",
                             config_origin_of(config, "require_client_cert"));
      return false;
    }
    if (*config->tls_cert_path) {
      config_warn(config, "%s: tls_cert_path is not used, because use_tls is off",
                  config_origin_of(config, "tls_cert_path"));
    }
    return true;
  }
  return check_file(config, "tls_cert_path", config->tls_cert_path, true, error) &&
         check_file(config, "tls_key_path", config->tls_key_path, true, error) &&
         check_file(config, "tls_ca_path", config->tls_ca_path, config->require_client_cert, error);
}

static bool is_blank(const char *text) {
  return text_trim(slice_text(text)).length == 0;
}

/* What is wrong with one user's permissions, for the message; NULL when nothing is. */
static char *permission_problem(const struct config_user *user) {
  if (!user->permission_count) return memory_copy_text("has no permissions");
  for (unsigned i = 0; i < user->permission_count; i++) {
    const char *name = user->permission_names[i];
    if (!config_permission_of(name)) {
      return config_format(
          "has the unknown permission \"%s\"; there are admin, topic.read, "
          "topic.write, group, transaction and *",
          name);
    }
    for (unsigned j = 0; j < i; j++) {
      if (strcasecmp(name, user->permission_names[j]) == 0) {
        return config_format("has the permission %s twice", name);
      }
    }
  }
  return NULL;
}

static char *user_problem(const struct config_users *users, unsigned index) {
  const struct config_user *user = &users->items[index];
  if (is_blank(user->principal)) return memory_copy_text("has a blank principal");
  if (is_blank(user->token)) return memory_copy_text("has a blank token");
  if (strlen(user->token) > CONFIG_TOKEN_MAX_LENGTH)
    return memory_copy_text("has too long a token");
  for (unsigned i = 0; i < index; i++) {
    if (strcmp(users->items[i].principal, user->principal) == 0) {
      return memory_copy_text("is there twice");
    }
  }
  return permission_problem(user);
}

/* None at all is allowed: there is also the table in the database. */
static bool check_users(const struct config *config, char **error) {
  if (!config->enable_sasl) return true;
  const struct config_users *users = &config->sasl_users;
  for (unsigned i = 0; i < users->count; i++) {
    char *problem = user_problem(users, i);
    if (!problem) continue;
    *error =
        config_format("%s: sasl_users: user %u (\"%s\") %s", config_origin_of(config, "sasl_users"),
                      i + 1, users->items[i].principal, problem);
    free(problem);
    return false;
  }
  return true;
}

bool config_check(struct config *config, char **error) {
  merge_port(config, "listen", &config->listen, "broker_port", &config->broker_port);
  merge_port(config, "http", &config->http, "health_check_port", &config->health_check_port);
  derive_advertised_address(config);
  derive_cleanup_policy(config);
  derive_heartbeat_check(config);
  return check_database(config, error) && check_tls(config, error) && check_users(config, error);
}
