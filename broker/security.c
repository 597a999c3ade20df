/* Brings certificates from the configuration to the listener and says in the log what becomes of
 * them. Never logs what a file holds. */
#include "security.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "base/metrics.h"
#include "net/listener.h"
#include "net/tls.h"

#define EXPIRY_WARNING_SECONDS (30LL * 86400)

static struct tls_files files_of(const struct config *config) {
  return (struct tls_files){.certificate = config->tls_cert_path,
                            .key = config->tls_key_path,
                            .client_ca = config->tls_ca_path,
                            .requires_client_certificate = config->require_client_cert};
}

static void report_certificate(const struct config *config, const struct tls_server *tls) {
  static struct metric *expiry;
  if (!expiry) {
    expiry =
        metric_gauge("pgcursus_tls_certificate_expiry_timestamp_seconds",
                     "When the certificate in force expires, in seconds since 1970.", NULL, NULL);
  }
  time_t at = (time_t)tls_server_expiry(tls);
  metric_set(metric_with(expiry, NULL, NULL), (double)at);
  struct tm fields;
  char text[32] = "";
  if (gmtime_r(&at, &fields)) strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &fields);
  time_t now = time(NULL);
  if (at < now) {
    log_event(LOG_WARN, "the TLS certificate has expired: clients will refuse it", "certificate",
              config->tls_cert_path, "expired", text, NULL);
  } else if (at - now < EXPIRY_WARNING_SECONDS) {
    log_event(LOG_WARN, "the TLS certificate expires soon", "certificate", config->tls_cert_path,
              "expires", text, NULL);
  } else {
    log_event(LOG_INFO, "TLS certificate in force", "certificate", config->tls_cert_path, "expires",
              text, NULL);
  }
}

bool security_open_tls(const struct config *config, struct tls_server **tls) {
  *tls = NULL;
  if (!config->use_tls) return true;
  const struct tls_files files = files_of(config);
  char *reason = NULL;
  *tls = tls_server_open(&files, &reason);
  if (*tls) {
    report_certificate(config, *tls);
    return true;
  }
  log_event(LOG_ERROR, "cannot start with TLS", "reason", reason, NULL);
  free(reason);
  return false;
}

void security_reload_tls(const struct config *config, struct tls_server *tls) {
  if (!tls) return;
  const struct tls_files files = files_of(config);
  char *reason = NULL;
  if (tls_server_reload(tls, &files, &reason)) {
    report_certificate(config, tls);
    return;
  }
  log_event(LOG_ERROR, "the new TLS files cannot be used; the old ones stay in force", "reason",
            reason, NULL);
  free(reason);
}

void security_warn_of_clear_text(const struct config *config, const struct listener *listener) {
  if (!config->enable_sasl || config->use_tls || listener_is_local(listener)) return;
  log_event(
      LOG_WARN,
      "TOKENS AND RECORDS TRAVEL IN CLEAR: enable_sasl is on, use_tls is off and the listener "
      "is reachable from other machines; anybody on the way can read and use the tokens",
      "listen", listener_address(listener), NULL);
}
