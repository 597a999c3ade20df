-- Broker nodes. The public view owns the name `nodes`; the table is node_registrations.
--
-- A node is alive while its session holds the advisory lock that lock_key names, so a crash shows
-- at once and nothing has to be written to stay alive.

CREATE TABLE pgcursus.node_registrations (
  node_id    text        COLLATE "C" NOT NULL PRIMARY KEY,
  lock_key   int         GENERATED ALWAYS AS IDENTITY UNIQUE,
  address    text        NOT NULL,  -- host:port that clients are told
  started_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
