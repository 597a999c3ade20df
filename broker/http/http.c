/* Health and metrics over HTTP. libmicrohttpd speaks HTTP; it runs on the broker's loop through its
 * epoll descriptor and a timer, so there is no thread and nothing blocks.
 *
 * Answers from what its callbacks say and decides nothing itself: no database, no protocol state.
 */
#include "http/http.h"

#include <ev.h>
#include <json-c/json.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "net/socket.h"

enum {
  CHECKS_MAX = 16,
  CONNECTIONS_MAX = 64,
  CONNECTION_TIMEOUT_SECONDS = 10,
  CONNECTION_MEMORY = 16 << 10,
};

/* One listening socket. libmicrohttpd takes one, a host name may stand for more. */
struct http_daemon {
  struct http_server *server;
  struct MHD_Daemon *daemon;
  ev_io watcher;
  ev_timer timer;
};

struct http_server {
  struct ev_loop *loop;
  struct http_options options; /* host and port are not kept */
  char address[SOCKET_ADDRESS_SIZE];
  struct http_daemon daemons[SOCKET_LISTEN_MAX];
  unsigned daemon_count;
};

/* Answers */

struct answer {
  unsigned status;
  const char *content_type;
  struct buffer body;
};

static const char text_plain[] = "text/plain; charset=utf-8";
static const char application_json[] = "application/json";

/* Before start-up is complete there are no checks: that is "not ready" too. */
static unsigned read_checks(const struct http_server *server, struct http_check *checks,
                            bool *ready) {
  unsigned count = 0;
  if (server->options.readiness) {
    count = server->options.readiness(server->options.context, checks, CHECKS_MAX);
  }
  if (!count) checks[count++] = (struct http_check){"broker", "starting"};
  *ready = true;
  for (unsigned i = 0; i < count; i++) {
    if (strcmp(checks[i].state, "ok") != 0) *ready = false;
  }
  return count;
}

static void append_json(struct buffer *out, struct json_object *object) {
  buffer_append_text(out, json_object_to_json_string_ext(
                              object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
  json_object_put(object);
}

static void answer_live(struct http_server *server, struct answer *answer) {
  (void)server;
  answer->content_type = application_json;
  struct json_object *object = json_object_new_object();
  json_object_object_add(object, "status", json_object_new_string("live"));
  append_json(&answer->body, object);
}

static void answer_ready(struct http_server *server, struct answer *answer) {
  struct http_check checks[CHECKS_MAX];
  bool ready;
  unsigned count = read_checks(server, checks, &ready);
  answer->content_type = application_json;
  answer->status = ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
  struct json_object *object = json_object_new_object(), *states = json_object_new_object();
  json_object_object_add(object, "status", json_object_new_string(ready ? "ready" : "not_ready"));
  for (unsigned i = 0; i < count; i++) {
    json_object_object_add(states, checks[i].name, json_object_new_string(checks[i].state));
  }
  json_object_object_add(object, "checks", states);
  append_json(&answer->body, object);
}

static void answer_health(struct http_server *server, struct answer *answer) {
  struct http_check checks[CHECKS_MAX];
  bool ready;
  unsigned count = read_checks(server, checks, &ready);
  if (ready) {
    buffer_append_text(&answer->body, "OK");
    return;
  }
  answer->status = MHD_HTTP_SERVICE_UNAVAILABLE;
  for (unsigned i = 0; i < count; i++) {
    if (strcmp(checks[i].state, "ok") == 0) continue;
    buffer_append_format(&answer->body, "%s: %s\n", checks[i].name, checks[i].state);
  }
}

static void answer_metrics(struct http_server *server, struct answer *answer) {
  if (server->options.refresh_metrics) server->options.refresh_metrics(server->options.context);
  answer->content_type = "text/plain; version=0.0.4; charset=utf-8";
  metrics_render(&answer->body);
}

static void answer_not_found(struct http_server *server, struct answer *answer) {
  static const char *const texts[] = {
      [HTTP_HEALTH] = "not found; there are /live, /ready and /health\n",
      [HTTP_METRICS] = "not found; there is /metrics\n",
      [HTTP_HEALTH | HTTP_METRICS] = "not found; there are /live, /ready, /health and /metrics\n",
  };
  answer->status = MHD_HTTP_NOT_FOUND;
  buffer_append_text(&answer->body, texts[server->options.serves]);
}

static void answer_method_not_allowed(struct http_server *server, struct answer *answer) {
  (void)server;
  answer->status = MHD_HTTP_METHOD_NOT_ALLOWED;
  buffer_append_text(&answer->body, "method not allowed\n");
}

typedef void answer_function(struct http_server *server, struct answer *answer);

static answer_function *find_answer(unsigned serves, const char *path, const char *method) {
  static const struct {
    const char *path;
    unsigned part;
    answer_function *function;
  } routes[] = {
      {"/live", HTTP_HEALTH, answer_live},        {"/ready", HTTP_HEALTH, answer_ready},
      {"/health", HTTP_HEALTH, answer_health},    {"/", HTTP_HEALTH, answer_health},
      {"/metrics", HTTP_METRICS, answer_metrics},
  };
  for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
    if (!(serves & routes[i].part) || strcmp(path, routes[i].path) != 0) continue;
    bool reads = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    return reads ? routes[i].function : answer_method_not_allowed;
  }
  return answer_not_found;
}

/* HTTP */

/* libmicrohttpd leaves the body out for HEAD and still sends its length. */
static enum MHD_Result send_answer(struct MHD_Connection *connection, struct answer *answer) {
  struct MHD_Response *response = MHD_create_response_from_buffer(
      answer->body.length, answer->body.data, MHD_RESPMEM_MUST_FREE);
  if (!response) {
    buffer_release(&answer->body);
    return MHD_NO;
  }
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->content_type);
  MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
  if (answer->status == MHD_HTTP_METHOD_NOT_ALLOWED) {
    MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  }
  enum MHD_Result result = MHD_queue_response(connection, answer->status, response);
  MHD_destroy_response(response);
  return result;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
                                  const char *path, const char *method, const char *version,
                                  const char *upload, size_t *upload_size, void **request) {
  (void)version;
  (void)upload;
  (void)upload_size;
  (void)request;
  struct answer answer = {.status = MHD_HTTP_OK, .content_type = text_plain};
  const struct http_server *server = context;
  find_answer(server->options.serves, path, method)(context, &answer);
  return send_answer(connection, &answer);
}

/* The loop */

static void run_daemon(struct http_daemon *daemon) {
  MHD_run(daemon->daemon);
  struct ev_loop *loop = daemon->server->loop;
  MHD_UNSIGNED_LONG_LONG timeout_ms;
  ev_timer_stop(loop, &daemon->timer);
  if (MHD_get_timeout(daemon->daemon, &timeout_ms) != MHD_YES) return;
  ev_timer_set(&daemon->timer, (double)timeout_ms / 1000., 0.);
  ev_timer_start(loop, &daemon->timer);
}

static void on_readable(struct ev_loop *loop, ev_io *watcher, int revents) {
  (void)loop;
  (void)revents;
  run_daemon(watcher->data);
}

static void on_timeout(struct ev_loop *loop, ev_timer *timer, int revents) {
  (void)loop;
  (void)revents;
  run_daemon(timer->data);
}

/* Takes over the socket. */
static bool start_daemon(struct http_server *server, int fd) {
  struct http_daemon *daemon = &server->daemons[server->daemon_count];
  daemon->server = server;
  daemon->daemon = MHD_start_daemon(
      MHD_USE_EPOLL, 0, NULL, NULL, on_request, server, MHD_OPTION_LISTEN_SOCKET, fd,
      MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
      (unsigned)CONNECTION_TIMEOUT_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
      (size_t)CONNECTION_MEMORY, MHD_OPTION_END);
  if (!daemon->daemon) {
    close(fd);
    return false;
  }
  const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon->daemon, MHD_DAEMON_INFO_EPOLL_FD);
  if (!info || info->epoll_fd < 0) {
    MHD_stop_daemon(daemon->daemon);
    return false;
  }
  ev_io_init(&daemon->watcher, on_readable, info->epoll_fd, EV_READ);
  daemon->watcher.data = daemon;
  ev_io_start(server->loop, &daemon->watcher);
  ev_timer_init(&daemon->timer, on_timeout, 0., 0.);
  daemon->timer.data = daemon;
  server->daemon_count++;
  return true;
}

struct http_server *http_start(struct ev_loop *loop, const struct http_options *options,
                               char **reason) {
  int fds[SOCKET_LISTEN_MAX];
  unsigned count = socket_listen(options->host, options->port, false, fds, reason);
  if (!count) return NULL;
  struct http_server *server = memory_allocate_zeroed(1, sizeof *server);
  server->loop = loop;
  server->options = *options;
  server->options.host = server->options.port = NULL;
  socket_local_address(fds[0], server->address);
  for (unsigned i = 0; i < count; i++) {
    if (start_daemon(server, fds[i])) continue;
    *reason = memory_copy_text("the HTTP server (libmicrohttpd) did not start");
    while (++i < count) close(fds[i]);
    http_stop(server);
    return NULL;
  }
  return server;
}

const char *http_address(const struct http_server *server) {
  return server->address;
}

void http_stop(struct http_server *server) {
  for (unsigned i = 0; i < server->daemon_count; i++) {
    ev_io_stop(server->loop, &server->daemons[i].watcher);
    ev_timer_stop(server->loop, &server->daemons[i].timer);
    MHD_stop_daemon(server->daemons[i].daemon); /* closes the socket */
  }
  free(server);
}
