/* pgcursusd: reads the configuration, brings the schema up to date, runs one node until it is told
 * to stop. */
#include <ev.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/service.h"
#include "config/config.h"
#include "db/migrate.h"
#include "node.h"

static void on_stop_signal(struct ev_loop *loop, ev_signal *watcher, int events) {
  (void)loop;
  (void)events;
  service_notify_stopping();
  node_drain(watcher->data);
}

static void on_reload_signal(struct ev_loop *loop, ev_signal *watcher, int events) {
  (void)loop;
  (void)events;
  service_notify_reloading();
  node_reload(watcher->data);
  service_notify_ready(NULL);
}

static bool bring_schema(const struct config *config, bool apply) {
  char *problem = migrate_run(config->database, apply);
  if (problem == NULL) return true;
  log_event(LOG_ERROR, "the database's schema is not as it must be", "reason", problem, NULL);
  free(problem);
  return false;
}

static int run(struct config *config) {
  if (!bring_schema(config, !config->no_migrate)) {
    config_free(config);
    return EXIT_FAILURE;
  }
  struct ev_loop *loop = ev_default_loop(EVFLAG_AUTO);
  struct node *node = node_open(loop, config);
  if (node == NULL) return EXIT_FAILURE;
  ev_signal terminate, interrupt, reload;
  ev_signal_init(&terminate, on_stop_signal, SIGTERM);
  ev_signal_init(&interrupt, on_stop_signal, SIGINT);
  ev_signal_init(&reload, on_reload_signal, SIGHUP);
  terminate.data = interrupt.data = reload.data = node;
  ev_signal_start(loop, &terminate);
  ev_signal_start(loop, &interrupt);
  ev_signal_start(loop, &reload);
  ev_run(loop, 0);
  ev_signal_stop(loop, &terminate);
  ev_signal_stop(loop, &interrupt);
  ev_signal_stop(loop, &reload);
  node_close(node);
  ev_loop_destroy(loop);
  log_event(LOG_INFO, "stopped", NULL);
  return EXIT_SUCCESS;
}

static int migrate(struct config *config) {
  bool done = bring_schema(config, true);
  config_free(config);
  return done ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int finish(struct config *config) {
  config_free(config);
  return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN);
  srand48((long)time(NULL) ^ (long)getpid() << 16);
  char *error = NULL;
  struct config *config = config_load(argc, argv, &error);
  if (config == NULL) {
    fprintf(stderr, "pgcursusd: %s\n", error);
    free(error);
    return 2;
  }
  switch (config->action) {
    case CONFIG_HELP:
      config_print_help(stdout);
      return finish(config);
    case CONFIG_VERSION:
      puts("pgcursusd " PGCURSUS_VERSION);
      return finish(config);
    case CONFIG_CHECK_CONFIG:
      config_print_effective(config, stdout);
      return finish(config);
    case CONFIG_RUN:
    case CONFIG_MIGRATE:
      break;
  }
  log_set_level((enum log_level)config->log_level);
  log_set_format((enum log_format)config->log_format);
  for (unsigned i = 0; i < config->warning_count; i++) {
    log_event(LOG_WARN, "configuration", "warning", config->warnings[i], NULL);
  }
  return config->action == CONFIG_MIGRATE ? migrate(config) : run(config);
}
