/* Connecting to several places at once ("happy eyeballs", RFC 8305), so that one that is silent
 * costs a moment and not its whole time-out.
 *
 * The first place gets a short start. While one stays silent, those that refused or take no writes
 * are asked again and again: a standby may be promoted meanwhile. Runs on a worker thread. */
#ifndef PGCURSUS_DB_RACE_H
#define PGCURSUS_DB_RACE_H

#include <libpq-fe.h>

#include "db/hosts.h"
#include "db/patience.h"

struct db_race;

/* Both stay the caller's until db_race_end(). */
struct db_race *db_race_start(const struct db_hosts *hosts, const struct db_patience *patience)
    __attribute__((returns_nonnull, warn_unused_result));

/* Waits for the next session that is there; the callee owns it. `number` is set to its place. NULL
 * when every place has refused, or patience is over. */
PGconn *db_race_next(struct db_race *race, unsigned *number) __attribute__((warn_unused_result));

/* A session that db_race_next() gave is not wanted (and is closed by the caller): the race goes
 * on. */
void db_race_refuse(struct db_race *race, unsigned number, const char *reason);

/* Ends what is still connecting. Gives what each place answered last, to be freed. */
char *db_race_end(struct db_race *race) __attribute__((returns_nonnull, warn_unused_result));

#endif
