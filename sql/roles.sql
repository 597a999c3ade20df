-- Roles and the schema they own.
--
-- Owns what must exist before any other file can run as pgcursus_owner. Runs first, at every
-- start of a node, as the migrating user: a superuser, or a role with CREATEROLE that owns the
-- database. Roles belong to the whole cluster, so they may be there already, made for another
-- database, by a restored dump, or by a session that creates them at this very moment. What
-- each role may do is in grants.sql and nowhere else.

DO $$
DECLARE
  _role text;
BEGIN
  FOREACH _role IN ARRAY ARRAY['pgcursus_owner', 'pgcursus_broker', 'pgcursus_reader',
                               'pgcursus_writer'] LOOP
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = _role) THEN
      BEGIN
        EXECUTE pg_catalog.format('CREATE ROLE %I NOLOGIN', _role);
      EXCEPTION WHEN duplicate_object OR unique_violation THEN
        NULL;  -- another session was first
      END;
    END IF;
  END LOOP;

  -- The installing user acts as owner here and as broker in the daemon. Being a member is not enough:
  -- since PostgreSQL 16 who creates a role is a member that may not use it.
  FOREACH _role IN ARRAY ARRAY['pgcursus_owner', 'pgcursus_broker'] LOOP
    IF NOT pg_catalog.pg_has_role(current_user, _role, 'USAGE') OR NOT EXISTS (
      SELECT FROM pg_catalog.pg_auth_members m
        JOIN pg_catalog.pg_roles g ON g.oid = m.roleid
        JOIN pg_catalog.pg_roles u ON u.oid = m.member
       WHERE g.rolname = _role AND u.rolname = current_user) THEN
      BEGIN
        EXECUTE pg_catalog.format('GRANT %I TO %I', _role, current_user);
      EXCEPTION WHEN unique_violation THEN
        NULL;
      END;
    END IF;
  END LOOP;

  -- Standbys are visible to this privilege only. Without it the replica count stays at 1, so a
  -- topic that asks for more in-sync replicas refuses acks=all: safe, but worth knowing.
  IF NOT pg_catalog.pg_has_role('pgcursus_owner', 'pg_read_all_stats', 'USAGE') THEN
    BEGIN
      GRANT pg_read_all_stats TO pgcursus_owner;
    EXCEPTION
      WHEN unique_violation THEN
        NULL;
      WHEN insufficient_privilege THEN
        RAISE NOTICE 'pgcursus_owner has no pg_read_all_stats: standbys are not seen and the in-sync replica count is always 1'
          USING HINT = 'A superuser may run: GRANT pg_read_all_stats TO pgcursus_owner';
    END;
  END IF;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
    MESSAGE = pg_catalog.format('role %s may not install or upgrade pgcursus: %s', current_user, SQLERRM),
    HINT = pg_catalog.format('Migrate as a superuser or as a role with CREATEROLE that owns the database. Once the roles exist, a superuser may run: GRANT pgcursus_owner, pgcursus_broker TO %I', current_user);
END
$$;

-- IF NOT EXISTS would ask for CREATE on the database even when there is nothing to create.
DO $$
BEGIN
  IF pg_catalog.to_regnamespace('pgcursus') IS NULL THEN
    CREATE SCHEMA pgcursus AUTHORIZATION pgcursus_owner;
  END IF;
END
$$;

-- A dump restored with --no-owner, or into a cluster that lacked the roles, leaves everything
-- to whoever restored it. Hand it back, else no later file could change it.
DO $$
DECLARE
  _object record;
BEGIN
  FOR _object IN
    SELECT pg_catalog.format('ALTER SCHEMA %I OWNER TO pgcursus_owner', n.nspname) AS command
      FROM pg_catalog.pg_namespace n
     WHERE n.nspname = 'pgcursus' AND n.nspowner <> 'pgcursus_owner'::regrole
    UNION ALL
    SELECT pg_catalog.format('ALTER %s %s OWNER TO pgcursus_owner',
                             CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE'
                                            WHEN 'c' THEN 'TYPE' ELSE 'TABLE' END,
                             c.oid::regclass)
      FROM pg_catalog.pg_class c
     WHERE c.relnamespace = pg_catalog.to_regnamespace('pgcursus')
       AND c.relkind IN ('r', 'v', 'S', 'c') AND c.relowner <> 'pgcursus_owner'::regrole
       AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d  -- owned sequences follow their table
                        WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
                          AND d.deptype IN ('a', 'i') AND c.relkind = 'S')
    UNION ALL
    SELECT pg_catalog.format('ALTER ROUTINE %s OWNER TO pgcursus_owner', p.oid::regprocedure)
      FROM pg_catalog.pg_proc p
     WHERE p.pronamespace = pg_catalog.to_regnamespace('pgcursus')
       AND p.proowner <> 'pgcursus_owner'::regrole
  LOOP
    EXECUTE _object.command;
  END LOOP;
END
$$;
