/* Owns the schema's history: which embedded files a database has, which it lacks, and applying
 * those.
 *
 * Migrations run once each, in order, in a transaction each. Functions, views and grants describe
 * what shall be; they are applied together, in one transaction, whenever one of them changed, so
 * nodes of both versions see either all of the old or all of the new. Must never change a
 * migration's recorded past, and must never touch a schema that is newer than this binary. */
#include "db/migrate.h"

#include <libpq-fe.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "db/connect.h"
#include "db/embedded_sql.h"
#include "db/server.h"

enum { CONNECT_TIMEOUT_MS = 10000, CHECKSUM_SIZE = 65, ERROR_SIZE = 2048 };

/* The advisory lock of whoever migrates: (class, object) in the two-integer key space. */
#define MIGRATION_LOCK "1885823843, 1"

struct migration {
  PGconn *pg;
  bool apply;
  char error[ERROR_SIZE]; /* empty while all is well */
};

/* What the database has, as recorded. */
struct history {
  bool exists;       /* the history tables do */
  bool owned;        /* all roles exist and the schema belongs to its owner */
  PGresult *applied; /* version, name, checksum by version; NULL unless `exists` */
  PGresult *files;   /* name, checksum; NULL unless `exists` */
};

static bool fail(struct migration *migration, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool fail(struct migration *migration, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(migration->error, sizeof migration->error, format, arguments);
  va_end(arguments);
  size_t length = strlen(migration->error);
  while (length > 0 && migration->error[length - 1] == '\n') migration->error[--length] = '\0';
  return false;
}

/* ---------------------------------------------------------------- talking to PostgreSQL */

static void log_notice(void *unused, const PGresult *result) {
  (void)unused;
  const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
  log_event(severity && strcmp(severity, "WARNING") == 0 ? LOG_WARN : LOG_INFO,
            "PostgreSQL says while migrating", "reason",
            PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY), "hint",
            PQresultErrorField(result, PG_DIAG_MESSAGE_HINT), NULL);
}

/* Runs statements without a result that matters. `what` begins the error text. */
static bool execute(struct migration *migration, const char *sql, const char *what) {
  PGresult *result = PQexec(migration->pg, sql);
  ExecStatusType status = PQresultStatus(result);
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
    fail(migration, "%s: %s", what, PQerrorMessage(migration->pg));
  }
  PQclear(result);
  return migration->error[0] == '\0';
}

/* Runs one query; NULL when it failed. */
static PGresult *query(struct migration *migration, const char *sql, const char *what) {
  PGresult *result = PQexec(migration->pg, sql);
  if (PQresultStatus(result) == PGRES_TUPLES_OK) return result;
  fail(migration, "%s: %s", what, PQerrorMessage(migration->pg));
  PQclear(result);
  return NULL;
}

static bool record(struct migration *migration, const char *sql, const char *const values[],
                   int count) {
  PGresult *result = PQexecParams(migration->pg, sql, count, NULL, values, NULL, NULL, 0);
  if (PQresultStatus(result) != PGRES_COMMAND_OK) {
    fail(migration, "recording %s: %s", values[0], PQerrorMessage(migration->pg));
  }
  PQclear(result);
  return migration->error[0] == '\0';
}

/* The role that owns everything creates everything; files name all objects with their schema. */
static bool begin(struct migration *migration) {
  return execute(migration, "BEGIN; SET LOCAL ROLE pgcursus_owner", "acting as pgcursus_owner");
}

static bool commit(struct migration *migration, const char *what) {
  return execute(migration, "COMMIT", what);
}

/* ---------------------------------------------------------------- the embedded files */

static void checksum_of(const struct embedded_sql *file, char checksum[CHECKSUM_SIZE]) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (EVP_Digest(file->text, strlen(file->text), digest, &length, EVP_sha256(), NULL) != 1) abort();
  for (unsigned i = 0; i < length; i++) snprintf(checksum + 2 * (size_t)i, 3, "%02x", digest[i]);
}

/* "migrations/0002_topics.sql" is version 2. */
static int version_of(const struct embedded_sql *file) {
  const char *slash = strrchr(file->name, '/');
  return (int)strtol(slash ? slash + 1 : file->name, NULL, 10);
}

static int newest_embedded_version(void) {
  return version_of(&embedded_migrations[embedded_migration_count - 1]);
}

/* The files that describe what shall be, in the order of application: roles, functions, views,
 * grants. */
static size_t current_file_count(void) {
  return 2 + embedded_function_count + embedded_view_count;
}

static const struct embedded_sql *current_file(size_t index) {
  if (index == 0) return &embedded_roles;
  index--;
  if (index < embedded_function_count) return &embedded_functions[index];
  index -= embedded_function_count;
  return index < embedded_view_count ? &embedded_views[index] : &embedded_grants;
}

/* ---------------------------------------------------------------- reading the history */

static void history_release(struct history *history) {
  PQclear(history->applied);
  PQclear(history->files);
  *history = (struct history){0};
}

static bool history_read(struct migration *migration, struct history *history) {
  static const char what[] = "reading the schema's history";
  history_release(history);
  PGresult *found =
      query(migration,
            "SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            "                WHERE n.nspname = 'pgcursus' AND c.relname = 'schema_migrations'),"
            "       (SELECT count(*) = 4 FROM pg_roles WHERE rolname IN ('pgcursus_owner',"
            "          'pgcursus_broker', 'pgcursus_reader', 'pgcursus_writer'))"
            "       AND EXISTS (SELECT FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner"
            "                    WHERE n.nspname = 'pgcursus' AND r.rolname = 'pgcursus_owner')",
            what);
  if (!found) return false;
  history->exists = PQgetvalue(found, 0, 0)[0] == 't';
  history->owned = PQgetvalue(found, 0, 1)[0] == 't';
  PQclear(found);
  if (!history->exists) return true;
  history->applied = query(
      migration, "SELECT version, name, checksum FROM pgcursus.schema_migrations ORDER BY version",
      what);
  history->files =
      query(migration, "SELECT name, checksum FROM pgcursus.schema_files ORDER BY name", what);
  return history->applied && history->files;
}

static const struct embedded_sql *find_migration(int version) {
  for (size_t i = 0; i < embedded_migration_count; i++) {
    if (version_of(&embedded_migrations[i]) == version) return &embedded_migrations[i];
  }
  return NULL;
}

/* Refuses a past that is not this binary's. */
static bool check_past(struct migration *migration, const struct history *history) {
  for (int row = 0; row < PQntuples(history->applied); row++) {
    int version = atoi(PQgetvalue(history->applied, row, 0));
    const char *name = PQgetvalue(history->applied, row, 1);
    if (version > newest_embedded_version()) {
      const char *newest = PQgetvalue(history->applied, PQntuples(history->applied) - 1, 0);
      return fail(migration,
                  "the database's schema is version %s, newer than this pgcursusd, which knows "
                  "version %d: upgrade this node",
                  newest, newest_embedded_version());
    }
    const struct embedded_sql *file = find_migration(version);
    if (!file) {
      return fail(migration, "the database has migration %s, which this pgcursusd does not know",
                  name);
    }
    char checksum[CHECKSUM_SIZE];
    checksum_of(file, checksum);
    if (strcmp(checksum, PQgetvalue(history->applied, row, 2)) != 0) {
      return fail(migration,
                  "migration %s was applied to this database with other contents (SHA-256 %s, here "
                  "%s): a migration that has been released must never be edited",
                  file->name, PQgetvalue(history->applied, row, 2), checksum);
    }
  }
  return true;
}

static bool migration_is_applied(const struct history *history, const struct embedded_sql *file) {
  int version = version_of(file);
  for (int row = 0; row < PQntuples(history->applied); row++) {
    if (atoi(PQgetvalue(history->applied, row, 0)) == version) return true;
  }
  return false;
}

static bool file_is_applied(const struct history *history, const struct embedded_sql *file) {
  char checksum[CHECKSUM_SIZE];
  checksum_of(file, checksum);
  for (int row = 0; row < PQntuples(history->files); row++) {
    if (strcmp(PQgetvalue(history->files, row, 0), file->name) == 0) {
      return strcmp(PQgetvalue(history->files, row, 1), checksum) == 0;
    }
  }
  return false;
}

/* The first migration that is missing; NULL: none. */
static const struct embedded_sql *next_migration(const struct history *history) {
  for (size_t i = 0; i < embedded_migration_count; i++) {
    if (!migration_is_applied(history, &embedded_migrations[i])) return &embedded_migrations[i];
  }
  return NULL;
}

/* The name of a file that is missing, changed or no longer there; NULL: none. */
static const char *different_file(const struct history *history) {
  for (size_t i = 0; i < current_file_count(); i++) {
    if (!file_is_applied(history, current_file(i))) return current_file(i)->name;
  }
  /* All of ours are there, each once: more rows than that are files of another version. */
  return (size_t)PQntuples(history->files) == current_file_count() ? NULL : "schema_files";
}

/* ---------------------------------------------------------------- applying */

static bool apply_roles(struct migration *migration) {
  return execute(migration, "BEGIN", embedded_roles.name) &&
         execute(migration, embedded_roles.text, embedded_roles.name) &&
         commit(migration, embedded_roles.name);
}

static bool apply_migration(struct migration *migration, const struct embedded_sql *file) {
  char checksum[CHECKSUM_SIZE];
  char version[16];
  checksum_of(file, checksum);
  snprintf(version, sizeof version, "%d", version_of(file));
  const char *const values[] = {file->name, version, checksum};
  if (!begin(migration) || !execute(migration, file->text, file->name) ||
      !record(
          migration,
          "INSERT INTO pgcursus.schema_migrations (name, version, checksum) VALUES ($1, $2, $3)",
          values, 3) ||
      !commit(migration, file->name)) {
    return false;
  }
  log_event(LOG_INFO, "migration applied", "file", file->name, NULL);
  return true;
}

static bool is_view(const struct embedded_sql *file) {
  return strncmp(file->name, "views/", 6) == 0;
}

static bool apply_file(struct migration *migration, const struct history *history,
                       const struct embedded_sql *file, bool all_views) {
  char checksum[CHECKSUM_SIZE];
  checksum_of(file, checksum);
  const char *const values[] = {file->name, checksum};
  /* Replacing a view waits for those who read it, a pg_dump for instance: only when it must be. */
  bool unchanged_view = is_view(file) && !all_views && file_is_applied(history, file);
  if (file != &embedded_roles && !unchanged_view && !execute(migration, file->text, file->name)) {
    return false;
  }
  return record(migration, "INSERT INTO pgcursus.schema_files (name, checksum) VALUES ($1, $2)",
                values, 2);
}

static bool apply_files(struct migration *migration, const struct history *history,
                        bool all_views) {
  if (!begin(migration) ||
      !execute(migration,
               "SET LOCAL check_function_bodies = off; DELETE FROM pgcursus.schema_files",
               "replacing functions and views")) {
    return false;
  }
  for (size_t i = 0; i < current_file_count(); i++) {
    if (!apply_file(migration, history, current_file(i), all_views)) return false;
  }
  if (!commit(migration, "replacing functions and views")) return false;
  log_event(LOG_INFO, "functions, views and grants applied", NULL);
  return true;
}

static bool apply_all(struct migration *migration, struct history *history) {
  bool migrated = false;
  if (!apply_roles(migration)) return false;
  const struct embedded_sql *file = &embedded_migrations[0];
  if (history->exists) file = next_migration(history);
  while (file) {
    if (!apply_migration(migration, file) || !history_read(migration, history)) return false;
    migrated = true;
    file = next_migration(history);
  }
  return (!migrated && !different_file(history)) || apply_files(migration, history, migrated);
}

/* ---------------------------------------------------------------- deciding */

static bool open_session(struct migration *migration, const char *conninfo) {
  char *problem;
  migration->pg = db_open_session(conninfo, "pgcursusd migrate", CONNECT_TIMEOUT_MS, &problem);
  if (migration->pg == NULL) {
    fail(migration, "cannot connect to PostgreSQL: %s", problem);
    free(problem);
    return false;
  }
  problem = server_find_problem(migration->pg, conninfo);
  if (problem) {
    fail(migration, "%s", problem);
    free(problem);
    return false;
  }
  PQsetNoticeReceiver(migration->pg, log_notice, NULL);
  /* A role's or database's own defaults must not change what the files mean. No wait is for ever,
   * but how long it is may have been chosen. */
  return execute(
      migration,
      "SELECT set_config('lock_timeout', '60s', false) WHERE current_setting('lock_timeout') = '0';"
      "SET statement_timeout = 0;"
      "SET idle_in_transaction_session_timeout = 0; SET search_path = pg_catalog;"
      "SET default_transaction_isolation = 'read committed';"
      "SET client_min_messages = notice",
      "preparing the session");
}

static bool lock(struct migration *migration) {
  PGresult *result = PQexec(migration->pg, "SELECT pg_advisory_lock(" MIGRATION_LOCK ")");
  const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  if (state && strcmp(state, "55P03") == 0) {
    fail(
        migration,
        "another session is migrating this database and was not done within lock_timeout; it holds "
        "the advisory lock (" MIGRATION_LOCK ") in pg_locks. Try again when it is done");
  } else if (PQresultStatus(result) != PGRES_TUPLES_OK) {
    fail(migration, "locking the schema: %s", PQerrorMessage(migration->pg));
  }
  PQclear(result);
  return migration->error[0] == '\0';
}

static bool is_exact(const struct history *history) {
  return history->exists && history->owned && !next_migration(history) && !different_file(history);
}

static bool refuse_difference(struct migration *migration, const struct history *history) {
  static const char advice[] = "run `pgcursusd migrate`, or start without --no-migrate";
  if (!history->exists) return fail(migration, "the database has no pgcursus schema: %s", advice);
  if (!history->owned) {
    return fail(migration,
                "roles are missing or the schema has another owner than "
                "pgcursus_owner: %s",
                advice);
  }
  const struct embedded_sql *missing = next_migration(history);
  return fail(migration, "the database's schema is not that of this pgcursusd (%s %s): %s",
              missing ? "it lacks" : "it has another",
              missing ? missing->name : different_file(history), advice);
}

static bool bring_up_to_date(struct migration *migration, struct history *history) {
  if (!history_read(migration, history) || !check_past(migration, history)) return false;
  if (is_exact(history)) return true;
  if (!migration->apply) return refuse_difference(migration, history);
  /* What was read before the lock may have been changed by its last holder. */
  if (!lock(migration) || !history_read(migration, history) || !check_past(migration, history)) {
    return false;
  }
  return is_exact(history) || apply_all(migration, history);
}

char *migrate_run(const char *conninfo, bool apply) {
  struct migration migration = {.apply = apply};
  struct history history = {0};
  bool done = open_session(&migration, conninfo) && bring_up_to_date(&migration, &history);
  history_release(&history);
  PQfinish(migration.pg);
  return done ? NULL : memory_copy_text(migration.error);
}
