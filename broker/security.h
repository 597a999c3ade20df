/* The node's settings about who may listen in: certificates, and a warning when there are none. */
#ifndef PGCURSUS_SECURITY_H
#define PGCURSUS_SECURITY_H

#include <stdbool.h>

#include "config/config.h"

struct listener;
struct tls_server;

/* Reads the certificate files when use_tls is on; else `*tls` becomes NULL. False, with a line in
 * the log, when they cannot be used. */
bool security_open_tls(const struct config *config, struct tls_server **tls)
    __attribute__((warn_unused_result));

/* Reads them again. Files that cannot be used leave those in force, with a line in the log. `tls`
 * may be NULL. */
void security_reload_tls(const struct config *config, struct tls_server *tls);

/* Warns when tokens would travel in clear beyond this machine. */
void security_warn_of_clear_text(const struct config *config, const struct listener *listener);

#endif
