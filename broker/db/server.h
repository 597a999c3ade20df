/* Whether what answers at the other end of a session is something the broker can work with: a
 * PostgreSQL that is new enough, and sessions of the broker's own. The broker keeps state in its
 * sessions (LISTEN, settings, prepared statements, advisory locks), so a connection pooler in
 * between must pool sessions; one that pools transactions or statements gives a server session to
 * several clients in turn. */
#ifndef PGCURSUS_DB_SERVER_H
#define PGCURSUS_DB_SERVER_H

#include <libpq-fe.h>

/* `pg` is a session opened with `conninfo`, outside a transaction. Blocks, for some seconds at
 * most, and opens one more session when there is a pooler. NULL when all is well, else a text for a
 * person that says what is wrong and what to do; free() it. A PostgreSQL with a known fault that
 * matters here is only warned of, in the log. */
char *server_find_problem(PGconn *pg, const char *conninfo) __attribute__((warn_unused_result));

#endif
