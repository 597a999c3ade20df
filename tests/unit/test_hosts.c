/* Connection strings taken apart into the places that they name. */
#include <unistd.h>

#include "db/hosts.h"
#include "unit.h"

/* The places of a connection string, one after the other. */
static char *places(const char *conninfo, const char *preferred, int64_t *timeout_ms) {
  struct db_hosts hosts;
  db_hosts_find(&hosts, conninfo, "test", 5000);
  db_hosts_prefer(&hosts, preferred);
  char *text = NULL;
  size_t size = 0;
  FILE *stream = open_memstream(&text, &size);
  for (unsigned i = 0; i < hosts.count; i++) {
    char *name = db_host_name(&hosts.list[i]);
    fprintf(stream, "%s%s", i ? " " : "", name);
    free(name);
  }
  fclose(stream);
  *timeout_ms = hosts.timeout_ms;
  db_hosts_release(&hosts);
  return text;
}

static void check(const char *conninfo, const char *preferred, const char *want, int64_t want_ms) {
  int64_t timeout_ms;
  char *got = places(conninfo, preferred, &timeout_ms);
  CHECK(conninfo, strcmp(got, want) == 0);
  CHECK(conninfo, timeout_ms == want_ms);
  free(got);
}

static int clear_environment(void **state) {
  (void)state;
  static const char *const names[] = {"PGHOST", "PGHOSTADDR", "PGPORT", "PGSERVICE",
                                      "PGCONNECT_TIMEOUT"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
  return 0;
}

static void every_host_is_a_place(void **state) {
  (void)state;
  check("host=127.0.0.1 port=7", NULL, "127.0.0.1,127.0.0.1,7", 5000);
  check("host=127.0.0.1,127.0.0.2 port=7", NULL, "127.0.0.1,127.0.0.1,7 127.0.0.2,127.0.0.2,7",
        5000);
  check("postgresql://u@127.0.0.1:1,%2Ftmp:2/d", NULL, "127.0.0.1,127.0.0.1,1 /tmp,,2", 5000);
  check("host=a,b hostaddr=10.0.0.1,10.0.0.2 port=1,2", NULL, "a,10.0.0.1,1 b,10.0.0.2,2", 5000);
  check("hostaddr=10.0.0.1,10.0.0.2 port=1,2", NULL, ",10.0.0.1,1 ,10.0.0.2,2", 5000);
}

static void what_cannot_be_taken_apart_is_one_place(void **state) {
  (void)state;
  check("dbname=d", NULL, ",,", 5000);
  check("host=127.0.0.1,", NULL, ",,", 5000);
  check("host=,127.0.0.1", NULL, ",,", 5000);
  check("host=127.0.0.1,127.0.0.2 port=1,", NULL, ",,", 5000);
  check("host=127.0.0.1,127.0.0.2 port=1,2,3", NULL, ",,", 5000);
  check("host=a hostaddr=10.0.0.1,10.0.0.2", NULL, ",,", 5000);
  check("host=127.0.0.1,127.0.0.2 target_session_attrs=prefer-standby", NULL, ",,", 5000);
  check("not a connection string", NULL, ",,", 5000);
}

static void the_environment_and_services_count(void **state) {
  (void)state;
  setenv("PGHOST", "127.0.0.1,127.0.0.2", 1);
  setenv("PGCONNECT_TIMEOUT", "3", 1);
  check("port=7", NULL, "127.0.0.1,127.0.0.1,7 127.0.0.2,127.0.0.2,7", 3000);
  char path[] = "/tmp/pgcursus-service-XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  dprintf(file, "[here]\nhostaddr=10.0.0.1,10.0.0.2\nport=1,2\nhost=a,b\nconnect_timeout=4\n");
  close(file);
  setenv("PGSERVICEFILE", path, 1);
  check("service=here", NULL, "a,10.0.0.1,1 b,10.0.0.2,2", 4000);
  unlink(path);
  unsetenv("PGSERVICEFILE");
}

static void the_time_is_what_the_connection_string_says(void **state) {
  (void)state;
  check("host=127.0.0.1 port=7 connect_timeout=1", NULL, "127.0.0.1,127.0.0.1,7", 1000);
  check("host=127.0.0.1 port=7 connect_timeout=0", NULL, "127.0.0.1,127.0.0.1,7", 5000);
}

static void the_preferred_place_is_first_and_the_others_keep_their_order(void **state) {
  (void)state;
  const char *three = "hostaddr=10.0.0.1,10.0.0.2,10.0.0.3 port=7";
  check(three, ",10.0.0.3,7", ",10.0.0.3,7 ,10.0.0.1,7 ,10.0.0.2,7", 5000);
  check(three, ",10.0.0.1,7", ",10.0.0.1,7 ,10.0.0.2,7 ,10.0.0.3,7", 5000);
  check(three, ",10.0.0.9,7", ",10.0.0.1,7 ,10.0.0.2,7 ,10.0.0.3,7", 5000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(every_host_is_a_place, clear_environment),
      cmocka_unit_test_setup(what_cannot_be_taken_apart_is_one_place, clear_environment),
      cmocka_unit_test_setup(the_environment_and_services_count, clear_environment),
      cmocka_unit_test_setup(the_time_is_what_the_connection_string_says, clear_environment),
      cmocka_unit_test_setup(the_preferred_place_is_first_and_the_others_keep_their_order,
                             clear_environment),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
