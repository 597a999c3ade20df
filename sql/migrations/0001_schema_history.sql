-- What has been applied to this database, so that a node can tell whether it fits.
--
-- schema_migrations: one row a migration; the greatest version is the schema's version.
-- schema_files: functions, views and grants, which are re-applied whenever one of them changed.

CREATE TABLE pgcursus.schema_migrations (
  version    int         NOT NULL PRIMARY KEY CHECK (version > 0),
  name       text        NOT NULL,
  checksum   text        NOT NULL,  -- SHA-256 of the file, lower-case hex
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE pgcursus.schema_files (
  name       text        NOT NULL PRIMARY KEY,
  checksum   text        NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
