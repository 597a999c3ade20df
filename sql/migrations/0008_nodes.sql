-- Broker nodes. The public view owns the name `nodes`; the table is node_registrations.
--
-- A node is alive while its session holds the advisory lock (1885823844, lock_key), so a crash
-- shows at once and nothing has to be written to stay alive. A node that stops removes its row; one
-- that died leaves it, and housekeeping notes since when and forgets it later.

CREATE TABLE pgcursus.node_registrations (
  node_id    text        COLLATE "C" NOT NULL PRIMARY KEY CHECK (octet_length(node_id) BETWEEN 1 AND 300),
  lock_key   int         GENERATED ALWAYS AS IDENTITY UNIQUE,
  address    text        NOT NULL,  -- host:port that clients are told
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  lost_at    timestamptz            -- when it was found dead; NULL while it is not known to be
);
