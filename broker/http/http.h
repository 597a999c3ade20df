/* The HTTP end points /live, /ready, /health, / and /metrics (commands-1 section 6, "Health
 * answers"), served by libmicrohttpd on the broker's own loop: no thread, no blocking. */
#ifndef PGCURSUS_HTTP_HTTP_H
#define PGCURSUS_HTTP_HTTP_H

#include <stdbool.h>

struct ev_loop;
struct http_server;

/* One readiness check: its name and "ok", or a text that says what is wrong. */
struct http_check {
  const char *name;
  const char *state;
};

/* What a port serves. */
enum {
  HTTP_HEALTH = 1u << 0,  /* /live, /ready, /health and / */
  HTTP_METRICS = 1u << 1, /* /metrics */
};

struct http_options {
  const char *host;
  const char *port;
  unsigned serves;
  /* Fills at most `capacity` checks and returns how many there are. All "ok" means ready. */
  unsigned (*readiness)(void *context, struct http_check *checks, unsigned capacity);
  /* Called before /metrics is rendered, to set gauges. May be NULL. */
  void (*refresh_metrics)(void *context);
  void *context;
};

/* NULL, with `*reason` set to a text the caller frees, when the port cannot be had. */
struct http_server *http_start(struct ev_loop *loop, const struct http_options *options,
                               char **reason) __attribute__((warn_unused_result));

/* "host:port" really bound. */
const char *http_address(const struct http_server *server);

void http_stop(struct http_server *server);

#endif
