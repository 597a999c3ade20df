/* Connecting to several places at once. The servers are threads that know the first words of
 * PostgreSQL's protocol. */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "db/race.h"
#include "unit.h"

enum { SERVERS = 2, SESSIONS = 64 };

enum behaviour {
  REFUSING, /* nobody listens */
  SILENT,
  STANDBY,
  PRIMARY,
  PROMOTED, /* a standby for the first, a primary for the second who asks */
};

struct server {
  enum behaviour behaviour;
  int listener;
  int port;
  pthread_t thread;
  int sessions[SESSIONS];
  atomic_uint asked;
};

static struct server servers[SERVERS];
static struct db_hosts hosts;
static struct db_patience patience;
static char conninfo[200];

/* ------------------------------------------------------------------ servers */

static size_t put(char *place, char type, const void *body, size_t size) {
  uint32_t length = htonl((uint32_t)size + 4);
  place[0] = type;
  memcpy(place + 1, &length, 4);
  memcpy(place + 5, body, size);
  return size + 5;
}

static void greet(int session, bool is_standby) {
  static const char version[] =
      "server_version\0"
      "15.0";
  static const char standby[] =
      "in_hot_standby\0"
      "on",
                    primary[] =
                        "in_hot_standby\0"
                        "off";
  static const char writable[] =
      "default_transaction_read_only\0"
      "off";
  static const char zeros[8];
  char text[512];
  size_t size = put(text, 'R', zeros, 4);
  size += put(text + size, 'S', version, sizeof version);
  size += is_standby ? put(text + size, 'S', standby, sizeof standby)
                     : put(text + size, 'S', primary, sizeof primary);
  size += put(text + size, 'S', writable, sizeof writable);
  size += put(text + size, 'K', zeros, 8);
  size += put(text + size, 'Z', "I", 1);
  send(session, text, size, MSG_NOSIGNAL); /* a client that went away is none to serve */
}

static void *serve(void *argument) {
  struct server *server = argument;
  for (;;) {
    int session = accept(server->listener, NULL, NULL);
    if (session < 0) return NULL;
    char startup[1000];
    unsigned number = atomic_load(&server->asked);
    if (number == SESSIONS || read(session, startup, sizeof startup) <= 0) {
      close(session);
      continue;
    }
    server->sessions[number] = session;
    atomic_store(&server->asked, number + 1);
    greet(session, server->behaviour == STANDBY || (server->behaviour == PROMOTED && number == 0));
  }
}

static void start_server(struct server *server, enum behaviour behaviour) {
  *server = (struct server){.behaviour = behaviour};
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  server->listener = socket(AF_INET, SOCK_STREAM, 0);
  assert_int_equal(bind(server->listener, (struct sockaddr *)&address, size), 0);
  assert_int_equal(getsockname(server->listener, (struct sockaddr *)&address, &size), 0);
  server->port = ntohs(address.sin_port);
  if (behaviour != REFUSING) assert_int_equal(listen(server->listener, 64), 0);
  if (behaviour > SILENT) {
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
  }
}

static void stop_server(struct server *server) {
  shutdown(server->listener, SHUT_RDWR);
  if (server->behaviour > SILENT) pthread_join(server->thread, NULL);
  close(server->listener);
  for (unsigned i = 0; i < atomic_load(&server->asked); i++) close(server->sessions[i]);
}

static void start_servers(enum behaviour first, enum behaviour second) {
  start_server(&servers[0], first);
  start_server(&servers[1], second);
  snprintf(conninfo, sizeof conninfo,
           "host=127.0.0.1,127.0.0.1 port=%d,%d user=u sslmode=disable gssencmode=disable",
           servers[0].port, servers[1].port);
  db_hosts_find(&hosts, conninfo, "test", 60000);
  assert_int_equal(hosts.count, 2);
  patience = (struct db_patience){.deadline_us = clock_monotonic_us() + 60000000};
}

static int stop_servers(void **state) {
  (void)state;
  db_hosts_release(&hosts);
  for (unsigned i = 0; i < SERVERS; i++) stop_server(&servers[i]);
  return 0;
}

/* The place of the first session; -1 with `answers` when there is none. */
static int run(char **answers) {
  unsigned number;
  struct db_race *race = db_race_start(&hosts, &patience);
  PGconn *pg = db_race_next(race, &number);
  *answers = db_race_end(race);
  if (pg == NULL) return -1;
  PQfinish(pg);
  return (int)number;
}

static void assert_winner(int want) {
  char *answers;
  assert_int_equal(run(&answers), want);
  free(answers);
}

/* ------------------------------------------------------------------ rules */

static void a_silent_place_is_not_waited_for(void **state) {
  (void)state;
  start_servers(SILENT, PRIMARY);
  assert_winner(1);
}

static void a_place_that_refuses_is_passed_over(void **state) {
  (void)state;
  start_servers(REFUSING, PRIMARY);
  assert_winner(1);
}

static void a_standby_is_passed_over(void **state) {
  (void)state;
  start_servers(STANDBY, PRIMARY);
  assert_winner(1);
}

static void a_standby_is_asked_again_while_another_place_is_silent(void **state) {
  (void)state;
  start_servers(SILENT, PROMOTED);
  assert_winner(1);
  assert_int_equal(servers[1].asked, 2);
}

static void the_race_ends_when_all_have_refused(void **state) {
  (void)state;
  start_servers(STANDBY, REFUSING);
  char *answers, port[16];
  assert_int_equal(run(&answers), -1);
  assert_non_null(strstr(answers, "read-only"));
  assert_non_null(strstr(answers, "refused"));
  for (unsigned i = 0; i < SERVERS; i++) {
    snprintf(port, sizeof port, "port %d", servers[i].port);
    assert_non_null(strstr(answers, port));
  }
  assert_int_equal(servers[0].asked, 1);
  free(answers);
}

static void the_race_ends_when_patience_does(void **state) {
  (void)state;
  start_servers(SILENT, SILENT);
  patience.deadline_us = clock_monotonic_us() + 400000;
  char *answers;
  assert_int_equal(run(&answers), -1);
  assert_non_null(strstr(answers, "gave no answer in time"));
  free(answers);
  atomic_bool is_given_up = true;
  patience = (struct db_patience){.deadline_us = INT64_MAX, .is_given_up = &is_given_up};
  assert_int_equal(run(&answers), -1);
  free(answers);
}

static void the_race_goes_on_when_a_session_is_not_wanted(void **state) {
  (void)state;
  start_servers(PRIMARY, PRIMARY);
  struct db_race *race = db_race_start(&hosts, &patience);
  unsigned first, second;
  PGconn *pg = db_race_next(race, &first);
  assert_non_null(pg);
  db_race_refuse(race, first, "not this one");
  PQfinish(pg);
  pg = db_race_next(race, &second);
  assert_non_null(pg);
  assert_int_not_equal(first, second);
  db_race_refuse(race, second, "nor that one");
  PQfinish(pg);
  assert_null(db_race_next(race, &second));
  char *answers = db_race_end(race);
  assert_non_null(strstr(answers, "not this one"));
  assert_non_null(strstr(answers, "nor that one"));
  free(answers);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(a_silent_place_is_not_waited_for, stop_servers),
      cmocka_unit_test_teardown(a_place_that_refuses_is_passed_over, stop_servers),
      cmocka_unit_test_teardown(a_standby_is_passed_over, stop_servers),
      cmocka_unit_test_teardown(a_standby_is_asked_again_while_another_place_is_silent,
                                stop_servers),
      cmocka_unit_test_teardown(the_race_ends_when_all_have_refused, stop_servers),
      cmocka_unit_test_teardown(the_race_ends_when_patience_does, stop_servers),
      cmocka_unit_test_teardown(the_race_goes_on_when_a_session_is_not_wanted, stop_servers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
