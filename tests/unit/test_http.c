/* The HTTP end points, asked over a socket: exact answers of commands-1 section 6. */
#include <arpa/inet.h>
#include <ev.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "http/http.h"
#include "unit.h"

static struct ev_loop *loop;
static struct http_server *server;
static const char *database_state;
static bool starting;
static unsigned refreshed;

static unsigned readiness(void *context, struct http_check *checks, unsigned capacity) {
  (void)context;
  assert_true(capacity >= 2);
  if (starting) return 0;
  checks[0] = (struct http_check){"database", database_state};
  checks[1] = (struct http_check){"listener", "ok"};
  return 2;
}

static void refresh(void *context) {
  (void)context;
  refreshed++;
}

static int start(void **state) {
  (void)state;
  loop = ev_loop_new(EVFLAG_AUTO);
  database_state = "ok";
  starting = false;
  char *reason = NULL;
  struct http_options options = {.host = "127.0.0.1",
                                 .port = "0",
                                 .serves = HTTP_HEALTH | HTTP_METRICS,
                                 .readiness = readiness,
                                 .refresh_metrics = refresh};
  server = http_start(loop, &options, &reason);
  if (!server) fail_msg("%s", reason);
  return 0;
}

static int stop(void **state) {
  (void)state;
  http_stop(server);
  ev_loop_destroy(loop);
  return 0;
}

static int dial(void) {
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)atoi(http_address(server) + 10)),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
  return fd;
}

/* The whole answer, as text the caller frees. */
static char *ask(const char *request) {
  int fd = dial();
  assert_int_equal(send(fd, request, strlen(request), 0), strlen(request));
  struct buffer answer = {0};
  int64_t end = clock_monotonic_us() + 60000000;
  for (ssize_t count = -1; count != 0;) {
    if (clock_monotonic_us() > end) fail_msg("no end of the answer to %s", request);
    ev_run(loop, EVRUN_NOWAIT);
    char bytes[4096];
    count = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (count > 0) buffer_append(&answer, bytes, (size_t)count);
  }
  close(fd);
  buffer_append_u8(&answer, 0);
  return (char *)answer.data;
}

static char *get(const char *method, const char *path) {
  struct buffer request = {0};
  buffer_append_format(&request, "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", method,
                       path);
  buffer_append_u8(&request, 0);
  char *answer = ask((char *)request.data);
  buffer_release(&request);
  return answer;
}

static void assert_answer(char *answer, int status, const char *body) {
  char line[32];
  snprintf(line, sizeof line, "HTTP/1.1 %d ", status);
  assert_memory_equal(answer, line, strlen(line));
  assert_string_equal(strstr(answer, "\r\n\r\n") + 4, body);
  free(answer);
}

static void live_is_live(void **state) {
  (void)state;
  database_state = "down";
  assert_answer(get("GET", "/live"), 200, "{\"status\":\"live\"}");
}

static void ready_shows_every_check(void **state) {
  (void)state;
  char *answer = get("GET", "/ready");
  assert_non_null(strstr(answer, "Content-Type: application/json\r\n"));
  assert_answer(answer, 200,
                "{\"status\":\"ready\",\"checks\":{\"database\":\"ok\",\"listener\":\"ok\"}}");
  database_state = "cannot reach a/b: \"refused\"";
  assert_answer(get("GET", "/ready"), 503,
                "{\"status\":\"not_ready\",\"checks\":{\"database\":"
                "\"cannot reach a/b: \\\"refused\\\"\",\"listener\":\"ok\"}}");
}

static void before_the_first_check_the_broker_is_starting(void **state) {
  (void)state;
  starting = true;
  assert_answer(get("GET", "/ready"), 503,
                "{\"status\":\"not_ready\",\"checks\":{\"broker\":\"starting\"}}");
  assert_answer(get("GET", "/health"), 503, "broker: starting\n");
}

static void health_is_one_word_or_the_reasons(void **state) {
  (void)state;
  assert_answer(get("GET", "/health"), 200, "OK");
  assert_answer(get("GET", "/"), 200, "OK");
  assert_answer(get("GET", "/health?verbose=1"), 200, "OK");
  database_state = "no connection";
  char *answer = get("GET", "/");
  assert_non_null(strstr(answer, "Content-Type: text/plain"));
  assert_answer(answer, 503, "database: no connection\n");
}

static void head_has_the_headers_only(void **state) {
  (void)state;
  char *answer = get("HEAD", "/health");
  assert_non_null(strstr(answer, "Content-Length: 2\r\n"));
  assert_answer(answer, 200, "");
  database_state = "no";
  assert_answer(get("HEAD", "/ready"), 503, "");
}

static void other_methods_are_refused(void **state) {
  (void)state;
  static const char *const methods[] = {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"};
  for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
    char *answer = get(methods[i], "/ready");
    assert_non_null(strstr(answer, "Allow: GET, HEAD\r\n"));
    assert_answer(answer, 405, "method not allowed\n");
  }
  char *answer =
      ask("POST /live HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
  assert_answer(answer, 405, "method not allowed\n");
}

static void an_unknown_path_is_not_found(void **state) {
  (void)state;
  char *answer = get("GET", "/nothing");
  assert_memory_equal(answer, "HTTP/1.1 404 ", 13);
  free(answer);
}

static void metrics_are_refreshed_and_rendered(void **state) {
  (void)state;
  struct metric *metric = metric_counter("pgcursus_test_total", "For this test.", NULL, NULL);
  metric_add(metric_with(metric, NULL, NULL), 3);
  refreshed = 0;
  char *answer = get("GET", "/metrics");
  assert_int_equal(refreshed, 1);
  assert_non_null(strstr(answer, "Content-Type: text/plain; version=0.0.4"));
  assert_non_null(strstr(answer, "\npgcursus_test_total 3\n"));
  free(answer);
}

static void on_tick(struct ev_loop *of, ev_timer *timer, int revents) {
  (void)of;
  (void)timer;
  (void)revents;
}

static void an_idle_server_uses_no_time(void **state) {
  (void)state;
  free(get("GET", "/live"));
  int fd = dial(); /* says nothing */
  for (int i = 0; i < 20; i++) ev_run(loop, EVRUN_NOWAIT);
  ev_timer timer;
  ev_timer_init(&timer, on_tick, 0.1, 0.);
  unsigned turns = ev_iteration(loop);
  int64_t end = clock_monotonic_us() + 200000;
  while (clock_monotonic_us() < end) {
    ev_timer_set(&timer, 0.1, 0.);
    ev_timer_start(loop, &timer);
    ev_run(loop, EVRUN_ONCE);
    ev_timer_stop(loop, &timer);
  }
  assert_true(ev_iteration(loop) - turns < 8);
  close(fd);
}

static void a_taken_port_is_an_error_that_says_so(void **state) {
  (void)state;
  char *reason = NULL;
  struct http_options options = {.host = "127.0.0.1", .port = http_address(server) + 10};
  assert_null(http_start(loop, &options, &reason));
  assert_non_null(strstr(reason, "in use"));
  free(reason);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, start, stop)
  const struct CMUnitTest tests[] = {
      CASE(live_is_live),
      CASE(ready_shows_every_check),
      CASE(before_the_first_check_the_broker_is_starting),
      CASE(health_is_one_word_or_the_reasons),
      CASE(head_has_the_headers_only),
      CASE(other_methods_are_refused),
      CASE(an_unknown_path_is_not_found),
      CASE(metrics_are_refreshed_and_rendered),
      CASE(an_idle_server_uses_no_time),
      CASE(a_taken_port_is_an_error_that_says_so),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
