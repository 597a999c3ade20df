/* The files of sql/, compiled into the daemon by tools/embed-sql, so that a node brings its own
 * schema.
 *
 * Arrays are in the order in which the files are applied: bytewise by name. A name is the path
 * below sql/, such as "migrations/0002_topics.sql". */
#ifndef PGCURSUS_DB_EMBEDDED_SQL_H
#define PGCURSUS_DB_EMBEDDED_SQL_H

#include <stddef.h>

struct embedded_sql {
  const char *name;
  const char *text;
};

extern const struct embedded_sql embedded_roles;

extern const struct embedded_sql embedded_migrations[];
extern const size_t embedded_migration_count;

extern const struct embedded_sql embedded_functions[];
extern const size_t embedded_function_count;

extern const struct embedded_sql embedded_views[];
extern const size_t embedded_view_count;

extern const struct embedded_sql embedded_grants;

#endif
