/* Bringing a database's schema to what this binary was built with. */
#ifndef PGCURSUS_DB_MIGRATE_H
#define PGCURSUS_DB_MIGRATE_H

#include <stdbool.h>

/* Makes the schema `pgcursus` exactly that of the embedded SQL files and logs what it applied; with
 * `apply` false only checks that it is. Any number of nodes may do so at once, also beside running
 * ones: one applies, the others wait for it, for a limited time. A schema that is already exact is
 * not written to. Blocks on the network; call it before the loop starts.
 *
 * NULL, or a text for a person that says what is wrong and what to do; free() it. */
char *migrate_run(const char *conninfo, bool apply) __attribute__((warn_unused_result));

#endif
