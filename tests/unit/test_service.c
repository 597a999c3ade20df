/* The notifications to a service manager, received as the manager would. */
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/service.h"
#include "unit.h"

static char folder[] = "/tmp/pgcursus-service-XXXXXX";
static char path[64];
static int manager = -1;

/* Listens at `name` as $NOTIFY_SOCKET has it. */
static void listen_at(const char *name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  size_t length = strlen(name);
  memcpy(address.sun_path, name, length);
  if (name[0] == '@') address.sun_path[0] = '\0';
  manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  assert_true(manager >= 0);
  socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
  assert_int_equal(bind(manager, (struct sockaddr *)&address, size), 0);
  setenv("NOTIFY_SOCKET", name, 1);
}

static const char *received(void) {
  static char text[1000];
  ssize_t length = recv(manager, text, sizeof text - 1, 0);
  text[length < 0 ? 0 : length] = '\0';
  return text;
}

static int set_up(void **state) {
  (void)state;
  if (mkdtemp(folder) == NULL) return -1;
  snprintf(path, sizeof path, "%s/notify", folder);
  return 0;
}

static int clean_up(void **state) {
  (void)state;
  unlink(path);
  return rmdir(folder);
}

static int end_listening(void **state) {
  (void)state;
  close(manager);
  unlink(path);
  unsetenv("NOTIFY_SOCKET");
  return 0;
}

static void each_state_is_one_datagram(void **state) {
  (void)state;
  listen_at(path);
  service_notify_ready("serving clients on 127.0.0.1:9000");
  assert_string_equal(received(), "READY=1\nSTATUS=serving clients on 127.0.0.1:9000");
  service_notify_reloading();
  unsigned long long moment;
  assert_int_equal(sscanf(received(), "RELOADING=1\nMONOTONIC_USEC=%llu", &moment), 1);
  service_notify_ready(NULL);
  assert_string_equal(received(), "READY=1");
  service_notify_stopping();
  assert_string_equal(received(), "STOPPING=1");
  assert_string_equal(received(), "");
}

static void the_socket_may_be_in_the_abstract_space(void **state) {
  (void)state;
  char name[64];
  snprintf(name, sizeof name, "@pgcursus-service-%d", (int)getpid());
  listen_at(name);
  service_notify_stopping();
  assert_string_equal(received(), "STOPPING=1");
}

static void a_manager_that_is_not_there_or_does_not_read_is_no_trouble(void **state) {
  (void)state;
  static char too_long[200];
  memset(too_long, 'x', sizeof too_long - 1);
  too_long[0] = '/';
  const char *names[] = {"", "relative", "/no/such/socket", too_long};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    setenv("NOTIFY_SOCKET", names[i], 1);
    service_notify_stopping();
  }
  listen_at(path);
  for (unsigned i = 0; i < 2000; i++)
    service_notify_stopping(); /* the queue is full: it must not block */
  assert_string_equal(received(), "STOPPING=1");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(each_state_is_one_datagram, end_listening),
      cmocka_unit_test_teardown(the_socket_may_be_in_the_abstract_space, end_listening),
      cmocka_unit_test_teardown(a_manager_that_is_not_there_or_does_not_read_is_no_trouble,
                                end_listening),
  };
  return cmocka_run_group_tests(tests, set_up, clean_up);
}
