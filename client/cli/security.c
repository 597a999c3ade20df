/* The common options of the command line about security: TLS, and keeping a token out of sight. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"

/* A variable that is set and not empty. */
static const char *variable(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

static bool is_true(const char *value) {
  return value && strcasecmp(value, "false") != 0 && strcasecmp(value, "off") != 0 &&
         strcasecmp(value, "no") != 0 && strcmp(value, "0") != 0;
}

void cli_load_security(struct cli *cli) {
  cli->user = variable("PGCURSUS_USER");
  cli->token = cli->private_token = variable("PGCURSUS_TOKEN");
  cli->use_tls = is_true(variable("PGCURSUS_TLS"));
  cli->tls.ca_file = variable("PGCURSUS_TLS_CA");
  cli->tls.cert_file = variable("PGCURSUS_TLS_CERT");
  cli->tls.key_file = variable("PGCURSUS_TLS_KEY");
  cli->tls.server_name = variable("PGCURSUS_TLS_SERVER_NAME");
  cli->tls.insecure = is_true(variable("PGCURSUS_TLS_INSECURE"));
}

/* Whoever names a CA means TLS: to go on without it would send in clear what shall be secret. */
const struct pgcursus_tls *cli_tls(const struct cli *cli) {
  const struct pgcursus_tls *tls = &cli->tls;
  bool is_named = tls->ca_file || tls->cert_file || tls->key_file || tls->server_name;
  return cli->use_tls || is_named || tls->insecure ? tls : NULL;
}

void cli_hide_token(struct cli *cli) {
  if (!cli->token || cli->token == cli->private_token) return;
  char *copy = strdup(cli->token);
  if (!copy) return;
  /* The options hand out pointers into the arguments, which are ours to write on. */
  char *shown = (char *)(uintptr_t)cli->token;
  memset(shown, '*', strlen(shown));
  cli->token = cli->private_token = copy;
}
