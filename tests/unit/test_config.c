/* Configuration: the order of its layers, what is refused and how it is said, and that secrets stay
 * secret. */
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "config/config.h"
#include "unit.h"

static char directory[] = "/tmp/pgcursus-config-XXXXXX";

static int make_directory(void **state) {
  (void)state;
  return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state) {
  (void)state;
  return rmdir(directory);
}

/* A file in the test's directory; the path is valid until the next call. */
static const char *file(const char *name, const char *text) {
  static char paths[4][128];
  static unsigned next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", directory, name);
  FILE *out = fopen(path, "w");
  assert_non_null(out);
  fputs(text, out);
  fclose(out);
  return path;
}

enum { ARGUMENTS_MAX = 12 };

static struct config *load_list(char **error, va_list list) {
  char *argv[ARGUMENTS_MAX + 2] = {(char *)(uintptr_t) "pgcursusd"};
  int argc = 1;
  for (char *argument; (argument = va_arg(list, char *));) argv[argc++] = argument;
  return config_load(argc, argv, error);
}

/* Arguments end with NULL. */
static struct config *load(const char *unused, ...) {
  char *error = NULL;
  va_list list;
  va_start(list, unused);
  struct config *config = load_list(&error, list);
  va_end(list);
  if (!config) fail_msg("%s", error);
  return config;
}

static void assert_refused(const char *message, ...) {
  char *error = NULL;
  va_list list;
  va_start(list, message);
  struct config *config = load_list(&error, list);
  va_end(list);
  if (config) fail_msg("accepted, although: %s", message);
  if (!strstr(error, message)) fail_msg("\"%s\" does not say \"%s\"", error, message);
  free(error);
}

static char *printed(const struct config *config) {
  char *text;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  config_print_effective(config, out);
  fclose(out);
  return text;
}

static void assert_warned(const struct config *config, const char *message) {
  for (unsigned i = 0; i < config->warning_count; i++) {
    if (strstr(config->warnings[i], message)) return;
  }
  fail_msg("no warning says \"%s\"", message);
}

/* Layers */

static void defaults_are_those_of_the_specification(void **state) {
  (void)state;
  struct config *config = load("", NULL);
  assert_int_equal(config->action, CONFIG_RUN);
  assert_string_equal(config->listen.host, "127.0.0.1");
  assert_string_equal(config->listen.port, "9000");
  assert_string_equal(config->http.port, "9080");
  assert_null(config->advertise.host);
  assert_null(config->advertise.port);
  assert_string_equal(config->database, "");
  assert_int_equal(config->min_insync_replicas, 1);
  assert_true(config->enabled_distribution);
  assert_int_equal(config->max_client_connections, 1000);
  assert_int_equal(config->stream_timeout, 1800000);
  assert_int_equal(config->consumer_session_timeout_ms, 30000);
  assert_int_equal(config->log_retention_bytes, -1);
  assert_int_equal(config->request_memory_bytes, 268435456);
  assert_true(config->log_min_cleanable_dirty_ratio == 0.5);
  assert_string_equal(config->log_cleanup_policy, "delete");
  assert_int_equal(config->log_level, LOG_INFO);
  assert_int_equal(config->warning_count, 0);
  assert_string_equal(config_origin_of(config, "max_topics"), "default");
  config_free(config);
}

static void a_flag_wins_over_the_environment_and_that_over_the_file(void **state) {
  (void)state;
  const char *path = file("a.yaml",
                          "# comment\n"
                          "max_topics: 1\n"
                          "max_partitions: 1\n"
                          "min_insync_replicas: 1\n");
  setenv("PGCURSUS_MAX_PARTITIONS", "2", 1);
  setenv("PGCURSUS_MIN_INSYNC_REPLICAS", "2", 1);
  struct config *config = load("", "--config", path, "--min-insync-replicas", "3", NULL);
  assert_int_equal(config->max_topics, 1);
  assert_int_equal(config->max_partitions, 2);
  assert_int_equal(config->min_insync_replicas, 3);
  char origin[160];
  snprintf(origin, sizeof origin, "file %s:2", path);
  assert_string_equal(config_origin_of(config, "max_topics"), origin);
  assert_string_equal(config_origin_of(config, "max-partitions"),
                      "environment PGCURSUS_MAX_PARTITIONS");
  assert_string_equal(config_origin_of(config, "min.insync.replicas"),
                      "flag --min-insync-replicas");
  config_free(config);
  unsetenv("PGCURSUS_MAX_PARTITIONS");
  unsetenv("PGCURSUS_MIN_INSYNC_REPLICAS");
  unlink(path);
}

static void the_file_may_be_named_by_the_environment_and_be_json(void **state) {
  (void)state;
  const char *path = file("a.json", "{\"max.topics\": 5, \"log_level\": \"debug\"}\n");
  setenv("PGCURSUS_CONFIG", path, 1);
  struct config *config = load("", NULL);
  assert_int_equal(config->max_topics, 5);
  assert_int_equal(config->log_level, LOG_DEBUG);
  config_free(config);
  unsetenv("PGCURSUS_CONFIG");
  unlink(path);
}

static void a_named_file_must_exist_and_be_yaml(void **state) {
  (void)state;
  assert_refused("No such file", "--config", "/nonexistent/x.yaml", NULL);
  const char *path = file("bad.yaml", "a: [1\nb: 2\n");
  assert_refused("bad.yaml:", "--config", path, NULL);
  path = file("bad.yaml", "- a\n");
  assert_refused("settings are expected", "--config", path, NULL);
  path = file("bad.yaml", "max_topics: 1\nmax-topics: 2\n");
  assert_refused("set twice", "--config", path, NULL);
  path = file("bad.yaml", "max_topics: [1]\n");
  assert_refused("bad.yaml:1: max_topics: one value is expected", "--config", path, NULL);
  path = file("bad.yaml", "config: other.yaml\n");
  assert_refused("cannot be set in a file", "--config", path, NULL);
  unlink(path);
}

static void a_name_without_a_value_in_the_file_changes_nothing(void **state) {
  (void)state;
  const char *path = file("a.yaml", "database:\nmax_topics: ~\nhttp: \"\"\n");
  struct config *config = load("", "--config", path, NULL);
  assert_string_equal(config_origin_of(config, "max_topics"), "default");
  assert_null(config->http.host);
  config_free(config);
  path = file("a.yaml", "");
  config_free(load("", "--config", path, NULL));
  unlink(path);
}

/* Command line */

static void the_command_line_has_two_commands_and_two_questions(void **state) {
  (void)state;
  static const struct {
    const char *argument;
    enum config_action action;
  } cases[] = {{"migrate", CONFIG_MIGRATE},
               {"check-config", CONFIG_CHECK_CONFIG},
               {"--help", CONFIG_HELP},
               {"-h", CONFIG_HELP},
               {"--version", CONFIG_VERSION}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct config *config = load("", "--database", "dbname=x", cases[i].argument, NULL);
    CHECK(cases[i].argument, config->action == cases[i].action);
    config_free(config);
  }
  assert_refused("unexpected \"serve\"", "serve", NULL);
  assert_refused("unexpected", "migrate", "check-config", NULL);
  assert_refused("needs a value", "--max-topics", NULL);
}

static void a_boolean_flag_needs_no_value(void **state) {
  (void)state;
  struct config *config = load("", "--no-migrate", "--enable-idempotence", "true",
                               "--enable-exporter=off", "check-config", NULL);
  assert_true(config->no_migrate);
  assert_true(config->enable_idempotence);
  assert_false(config->enable_exporter);
  assert_int_equal(config->action, CONFIG_CHECK_CONFIG);
  config_free(config);
}

/* Names */

static void an_unknown_name_is_an_error_that_names_the_nearest(void **state) {
  (void)state;
  assert_refused("did you mean --min-insync-replicas?", "--min-insync-replica", "1", NULL);
  assert_refused("did you mean --listen?", "--listn=1:2", NULL);
  assert_refused("--help lists all", "--zzzzzzzzzzzzzzzz", "1", NULL);
  setenv("PGCURSUS_MAX_TOPIC", "1", 1);
  assert_refused("did you mean PGCURSUS_MAX_TOPICS?", NULL);
  unsetenv("PGCURSUS_MAX_TOPIC");
  const char *path = file("a.yaml", "max_topics: 1\nuse_tsl: true\n");
  assert_refused("a.yaml:2: unknown setting \"use_tsl\"; did you mean use_tls?", "--config", path,
                 NULL);
  unlink(path);
}

static void settings_of_the_reference_that_mean_nothing_here_are_ignored(void **state) {
  (void)state;
  const char *path = file("a.yaml",
                          "log_dir: /x\n"
                          "raft_peers: [a, b]\n"
                          "topic_channel_buffer_size: 4\n"
                          "static_cluster_members: {a: b}\n");
  setenv("PGCURSUS_DISK_FLUSH", "1", 1);
  struct config *config = load("", "--config", path, "--linger-ms", "5", NULL);
  assert_int_equal(config->warning_count, 6);
  assert_warned(config, "log_dir means nothing");
  assert_warned(config, "environment PGCURSUS_DISK_FLUSH");
  assert_warned(config, "flag --linger-ms");
  config_free(config);
  unsetenv("PGCURSUS_DISK_FLUSH");
  unlink(path);
}

static void variables_that_are_no_settings_are_left_alone(void **state) {
  (void)state;
  static const char *const variables[][2] = {
      {"PGCURSUS_PORT", "tcp://10.0.0.1:9000"},
      {"PGCURSUS_BROKER_PORT", "tcp://10.0.0.1:9000"}, /* of a service named pgcursus-broker */
      {"PGCURSUS_SERVICE_HOST", "10.0.0.1"},
      {"PGCURSUS_SERVICE_PORT_CLIENTS", "9000"},
      {"PGCURSUS_PORT_9000_TCP_ADDR", "10.0.0.1"},
      {"PGCURSUS_TOKEN", "of the command line client"},
      {"PGCURSUS_MAX_TOPICS", ""},
  };
  size_t count = sizeof variables / sizeof variables[0];
  for (size_t i = 0; i < count; i++) setenv(variables[i][0], variables[i][1], 1);
  struct config *config = load("", NULL);
  assert_int_equal(config->broker_port, 9000);
  assert_string_equal(config_origin_of(config, "broker_port"), "default");
  assert_int_equal(config->warning_count, 0);
  config_free(config);
  for (size_t i = 0; i < count; i++) unsetenv(variables[i][0]);
}

/* Values */

static void numbers_out_of_range_fall_back_with_a_warning(void **state) {
  (void)state;
  struct config *config =
      load("", "--max-topics", "0", "--log-retention-bytes", "-2", "--stream-timeout", "0s",
           "--log-min-cleanable-dirty-ratio", "1", "--log-cleanup-policy", "shred", NULL);
  assert_int_equal(config->max_topics, 10000);
  assert_int_equal(config->log_retention_bytes, -1);
  assert_int_equal(config->stream_timeout, 1800000);
  assert_true(config->log_min_cleanable_dirty_ratio == 0.5);
  assert_string_equal(config->log_cleanup_policy, "delete");
  assert_int_equal(config->warning_count, 5);
  assert_warned(config, "flag --max-topics: max_topics: 0 is below 1; using the default, 10000");
  config_free(config);
}

static void text_that_is_no_value_is_an_error(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"--max-topics", "ten"},    {"--max-topics", "10x"},
      {"--max-topics", ""},       {"--max-topics", "99999999999999999999"},
      {"--broker-port", "65536"}, {"--stream-timeout", "30"},
      {"--stream-timeout", "m"},  {"--stream-timeout", "9999999999999999999h"},
      {"--use-tls=maybe", NULL},  {"--log-level", "loud"},
      {"--listen", "localhost"},  {"--listen", "host:port"},
      {"--listen", "::1:9000"},   {"--listen", "[::1:9000"},
      {"--listen", "h:70000"},    {"--listen", "off"},
      {"--database", "host"},     {"--log-min-cleanable-dirty-ratio", "half"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    assert_refused(cases[i][0][2] == 'u' ? "neither true" : "flag --", cases[i][0], cases[i][1],
                   NULL);
  }
}

static void durations_and_addresses_have_their_own_forms(void **state) {
  (void)state;
  struct config *config = load("", "--stream-timeout", "1h30m5s10ms", "--listen", "[::1]:0",
                               "--http", "*:8080", "--advertise", "lb.example:19000", NULL);
  assert_int_equal(config->stream_timeout, 5405010);
  assert_string_equal(config->listen.host, "::1");
  assert_string_equal(config->listen.port, "0");
  assert_string_equal(config->http.host, "");
  assert_int_equal(config->health_check_port, 8080);
  assert_string_equal(config->advertise.host, "lb.example");
  assert_string_equal(config->advertise.port, "19000");
  config_free(config);
}

static void the_two_names_of_a_port_agree(void **state) {
  (void)state;
  const char *path = file("a.yaml", "broker_port: 9100\nhealth_check_port: 9180\n");
  struct config *config = load("", "--config", path, NULL);
  assert_string_equal(config->listen.host, "127.0.0.1");
  assert_string_equal(config->listen.port, "9100");
  assert_string_equal(config->http.port, "9180");
  config_free(config);
  /* The stronger place wins. */
  config = load("", "--config", path, "--listen", "*:9200", NULL);
  assert_string_equal(config->listen.port, "9200");
  assert_int_equal(config->broker_port, 9200);
  config_free(config);
  config = load("", "--listen", "*:9200", "--broker-port", "9300", "--http", "off", NULL);
  assert_string_equal(config->listen.port, "9300");
  assert_string_equal(config->listen.host, "");
  assert_null(config->http.port);
  config_free(config);
  unlink(path);
}

static void the_advertised_address_has_two_more_names(void **state) {
  (void)state;
  struct config *config = load("", "--advertised-client-host", "lb", NULL);
  assert_string_equal(config->advertise.host, "lb");
  assert_string_equal(config->advertise.port, "9000");
  config_free(config);
  config = load("", "--advertised-broker-port", "19000", NULL);
  assert_null(config->advertise.host);
  assert_string_equal(config->advertise.port, "19000");
  config_free(config);
  config = load("", "--advertised-broker-port", "19000", "--advertise", "a:1", NULL);
  assert_string_equal(config->advertise.host, "a");
  assert_string_equal(config->advertise.port, "1");
  config_free(config);
}

static void the_heartbeat_check_stays_below_the_session_timeout(void **state) {
  (void)state;
  struct config *config = load("", "--consumer-session-timeout-ms", "3000", NULL);
  assert_int_equal(config->consumer_heartbeat_check_ms, 1500);
  config_free(config);
}

static void cleanup_policies_are_stored_in_one_form(void **state) {
  (void)state;
  struct config *config = load("", "--log-cleanup-policy", " Compact , DELETE,compact", NULL);
  assert_string_equal(config->log_cleanup_policy, "delete,compact");
  config_free(config);
}

/* Security */

static void users_are_read_from_the_file_and_from_a_file_of_their_own(void **state) {
  (void)state;
  const char *users =
      "- {principal: alice, token: s3cret, permissions: [topic.read, Group]}\n"
      "- {principal: root, token: \" x \", permissions: ['*']}\n";
  const char *list = file("users.yaml", users);
  struct config *config = load("", "--enable-sasl", "--sasl-users", list, NULL);
  assert_int_equal(config->sasl_users.count, 2);
  struct config_user *alice = &config->sasl_users.items[0];
  assert_string_equal(alice->principal, "alice");
  assert_string_equal(alice->token, "s3cret");
  assert_int_equal(alice->permissions, CONFIG_PERMISSION_TOPIC_READ | CONFIG_PERMISSION_GROUP);
  assert_string_equal(config->sasl_users.items[1].token, " x ");
  assert_int_equal(config->sasl_users.items[1].permissions, CONFIG_PERMISSION_ALL);
  config_free(config);
  const char *path = file("a.yaml",
                          "enable_sasl: true\n"
                          "sasl_users:\n"
                          "  - principal: bob\n"
                          "    token: t\n"
                          "    permissions: [admin]\n");
  config = load("", "--config", path, NULL);
  assert_int_equal(config->sasl_users.count, 1);
  config_free(config);
  unlink(path);
  unlink(list);
}

static void unusable_users_stop_the_start_when_sasl_is_on(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"[{principal: ' ', token: t, permissions: [admin]}]", "has a blank principal"},
      {"[{token: t, permissions: [admin]}]", "has a blank principal"},
      {"[{principal: a, token: ' ', permissions: [admin]}]", "has a blank token"},
      {"[{principal: a, permissions: [admin]}]", "has a blank token"},
      {"[{principal: a, token: t, permissions: []}]", "has no permissions"},
      {"[{principal: a, token: t}]", "has no permissions"},
      {"[{principal: a, token: t, permissions: [read]}]", "unknown permission \"read\""},
      {"[{principal: a, token: t, permissions: [admin, ADMIN]}]", "twice"},
      {"[{principal: a, token: t, permissions: [admin]}, "
       "{principal: a, token: u, permissions: [admin]}]",
       "user 2 (\"a\") is there twice"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const char *path = file("users.yaml", cases[i][0]);
    assert_refused(cases[i][1], "--enable-sasl", "--sasl-users", path, NULL);
    config_free(load("", "--sasl-users", path, NULL)); /* sasl is off: nobody is admitted */
    unlink(path);
  }
  config_free(load("", "--enable-sasl", NULL)); /* there is also the table of the database */
}

static void users_of_another_shape_are_an_error_in_any_case(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"a: b", "a list is expected"},
      {"- x", "a mapping is expected"},
      {"- {principal: a, password: p}", "not password"},
      {"- {principal: [a]}", "text expected for principal"},
      {"- {principal: a, permissions: admin}", "a list is expected for permissions"},
      {"- {permissions: [a], permissions: [b]}", "twice"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const char *path = file("users.yaml", cases[i][0]);
    assert_refused(cases[i][1], "--sasl-users", path, NULL);
    unlink(path);
  }
}

static void tls_needs_files_that_can_be_read(void **state) {
  (void)state;
  const char *path = file("cert.pem", "x");
  assert_refused("use_tls needs tls_cert_path", "--use-tls", NULL);
  assert_refused("use_tls needs tls_key_path", "--use-tls", "--tls-cert-path", path, NULL);
  assert_refused("/nonexistent", "--use-tls", "--tls-cert-path", path, "--tls-key-path",
                 "/nonexistent", NULL);
  assert_refused("use_tls needs tls_ca_path", "--use-tls", "--tls-cert-path", path,
                 "--tls-key-path", path, "--require-client-cert", NULL);
  config_free(load("", "--use-tls", "--tls-cert-path", path, "--tls-key-path", path, NULL));
  unlink(path);
}

static void secrets_are_never_shown(void **state) {
  (void)state;
  const char *users = file("users.yaml", "[{principal: a, token: hush1, permissions: [admin]}]");
  struct config *config =
      load("", "--sasl-users", users, "--database",
           "postgresql://u:hush2@h1,h2/db?sslpassword=hush3&target_session_attrs=read-write", NULL);
  char *text = printed(config);
  assert_null(strstr(text, "hush"));
  assert_non_null(strstr(text, "target_session_attrs=read-write"));
  assert_non_null(strstr(text, "host=h1,h2"));
  assert_non_null(strstr(text, "token: \"***\""));
  free(text);
  config_free(config);
  char *masked = config_mask_database("host=h password='hu sh' user=u");
  assert_string_equal(masked, "user=u password=*** host=h");
  free(masked);
  masked = config_mask_database("password hush");
  assert_string_equal(masked, "***");
  free(masked);
  char *error = NULL;
  char *argv[] = {(char *)(uintptr_t) "pgcursusd", (char *)(uintptr_t) "--database=password hush"};
  assert_null(config_load(2, argv, &error));
  assert_null(strstr(error, "hush"));
  free(error);
  unlink(users);
}

static void static_groups_are_read(void **state) {
  (void)state;
  const char *path = file("a.yaml",
                          "static_consumer_groups:\n"
                          "  - name: g\n"
                          "    consumer_count: 3\n"
                          "    topics: [a, b]\n"
                          "    topic_partitions: {b: 4, c: 2}\n"
                          "  - {name: h, topics: [a]}\n");
  struct config *config = load("", "--config", path, NULL);
  assert_int_equal(config->static_consumer_groups.count, 2);
  struct config_group *group = &config->static_consumer_groups.items[0];
  assert_string_equal(group->name, "g");
  assert_int_equal(group->consumer_count, 3);
  assert_int_equal(group->topic_count, 3);
  assert_int_equal(group->topics[0].partitions, 0);
  assert_int_equal(group->topics[1].partitions, 4);
  assert_string_equal(group->topics[2].topic, "c");
  config_free(config);
  path = file("a.yaml", "static_consumer_groups: [{topics: [a]}]");
  assert_refused("a group needs a name", "--config", path, NULL);
  path = file("a.yaml", "static_consumer_groups: [{name: g h, topics: [a]}]");
  assert_refused("without blanks", "--config", path, NULL);
  path = file("a.yaml", "static_consumer_groups: [{name: g}]");
  assert_refused("no topics for group g", "--config", path, NULL);
  path = file("a.yaml", "static_consumer_groups: [{name: g, consumer_count: 0}]");
  assert_refused("a number from 1", "--config", path, NULL);
  unlink(path);
}

/* Output and reload */

static void what_check_config_prints_is_a_file_with_the_same_meaning(void **state) {
  (void)state;
  struct config *config =
      load("", "--listen", "[::1]:0", "--node-id", "a \"b\" # c", "--http", "off",
           "--log-cleanup-policy", "compact,delete", "--advertised-client-host", "lb", NULL);
  char *first = printed(config);
  const char *path = file("copy.yaml", first);
  struct config *copy = load("", "--config", path, NULL);
  assert_string_equal(copy->node_id, "a \"b\" # c");
  assert_string_equal(copy->listen.host, "::1");
  assert_string_equal(copy->listen.port, "0");
  assert_string_equal(copy->advertise.host, "lb");
  assert_null(copy->advertise.port);
  assert_null(copy->http.host);
  assert_string_equal(copy->log_cleanup_policy, "delete,compact");
  free(first);
  config_free(copy);
  config_free(config);
  unlink(path);
}

static void help_names_every_setting(void **state) {
  (void)state;
  char *text;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  config_print_help(out);
  fclose(out);
  assert_non_null(strstr(text, "--min-insync-replicas N"));
  assert_non_null(strstr(text, "[127.0.0.1:9000]"));
  assert_non_null(strstr(text, "PGCURSUS_MIN_INSYNC_REPLICAS"));
  free(text);
}

static void a_reload_changes_what_may_change_and_warns_of_the_rest(void **state) {
  (void)state;
  const char *path = file("a.yaml", "log_level: info\nmax_topics: 5\n");
  struct config *config = load("", "--config", path, NULL);
  file("a.yaml",
       "log_level: debug\nmax_topics: 6\nlisten: '*:1'\n"
       "sasl_users: [{principal: a, token: t, permissions: [admin]}]\n");
  char *error = NULL;
  struct config *changed = config_reload(config, &error);
  assert_non_null(changed);
  assert_int_equal(changed->log_level, LOG_DEBUG);
  assert_int_equal(changed->sasl_users.count, 1);
  assert_int_equal(changed->max_topics, 5);
  assert_string_equal(changed->listen.port, "9000");
  assert_warned(changed, "a changed max_topics takes effect at the next start");
  assert_warned(changed, "a changed listen takes effect at the next start");
  config_free(config);

  file("a.yaml", "log_level: loud\n");
  assert_null(config_reload(changed, &error));
  assert_non_null(strstr(error, "loud"));
  free(error);
  config_free(changed);
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(defaults_are_those_of_the_specification),
      cmocka_unit_test(a_flag_wins_over_the_environment_and_that_over_the_file),
      cmocka_unit_test(the_file_may_be_named_by_the_environment_and_be_json),
      cmocka_unit_test(a_named_file_must_exist_and_be_yaml),
      cmocka_unit_test(a_name_without_a_value_in_the_file_changes_nothing),
      cmocka_unit_test(the_command_line_has_two_commands_and_two_questions),
      cmocka_unit_test(a_boolean_flag_needs_no_value),
      cmocka_unit_test(an_unknown_name_is_an_error_that_names_the_nearest),
      cmocka_unit_test(settings_of_the_reference_that_mean_nothing_here_are_ignored),
      cmocka_unit_test(variables_that_are_no_settings_are_left_alone),
      cmocka_unit_test(numbers_out_of_range_fall_back_with_a_warning),
      cmocka_unit_test(text_that_is_no_value_is_an_error),
      cmocka_unit_test(durations_and_addresses_have_their_own_forms),
      cmocka_unit_test(the_two_names_of_a_port_agree),
      cmocka_unit_test(the_advertised_address_has_two_more_names),
      cmocka_unit_test(the_heartbeat_check_stays_below_the_session_timeout),
      cmocka_unit_test(cleanup_policies_are_stored_in_one_form),
      cmocka_unit_test(users_are_read_from_the_file_and_from_a_file_of_their_own),
      cmocka_unit_test(unusable_users_stop_the_start_when_sasl_is_on),
      cmocka_unit_test(users_of_another_shape_are_an_error_in_any_case),
      cmocka_unit_test(tls_needs_files_that_can_be_read),
      cmocka_unit_test(secrets_are_never_shown),
      cmocka_unit_test(static_groups_are_read),
      cmocka_unit_test(what_check_config_prints_is_a_file_with_the_same_meaning),
      cmocka_unit_test(help_names_every_setting),
      cmocka_unit_test(a_reload_changes_what_may_change_and_warns_of_the_rest),
  };
  return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
