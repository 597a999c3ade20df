/* The places that a connection string names: every host, and every address behind a host's name.
 * libpq tries them one after the other and gives each the whole time; taken apart, they can be
 * tried at once (db/race.h). */
#ifndef PGCURSUS_DB_HOSTS_H
#define PGCURSUS_DB_HOSTS_H

#include <libpq-fe.h>
#include <stdint.h>

/* NULL: as the connection string says. */
struct db_host {
  char *host;
  char *address;
  char *port;
};

struct db_hosts {
  const char *conninfo;
  const char *application_name;
  struct db_host *list; /* at least one */
  unsigned count;
  int64_t timeout_ms; /* what the connection string says (connect_timeout), else the default */
};

/* Finds the places, in libpq's order; service files, the PG* environment and lists of ports count.
 * What cannot be taken apart (an element left empty, target_session_attrs=prefer-standby, a string
 * that is wrong) is one place that libpq makes of it what it can. Blocks while names are resolved.
 * The texts stay the caller's and must outlive the struct. */
void db_hosts_find(struct db_hosts *hosts, const char *conninfo, const char *application_name,
                   int64_t timeout_ms);
void db_hosts_release(struct db_hosts *hosts);

/* What tells one place from another; to be freed. */
char *db_host_name(const struct db_host *host);

/* Puts the place of that name first. NULL, or one that is not there, changes nothing. */
void db_hosts_prefer(struct db_hosts *hosts, const char *name);

/* Starts an asynchronous connect to one place, with the project's defaults (keepalives, a server
 * that takes writes, UTF-8), each of which the connection string may override. As
 * PQconnectStartParams(). */
PGconn *db_hosts_start(const struct db_hosts *hosts, unsigned number);

#endif
