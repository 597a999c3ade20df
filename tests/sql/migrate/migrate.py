#!/usr/bin/env python3
"""The migrator: empty, current, changed, newer and restored databases; several at once; who may run it."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from sessions import DAEMON, URI, Session, create_topic, database, equal, finish, ok, psql, wait_until_blocked

SNAPSHOT = ("SELECT md5(string_agg(t::text, ',' ORDER BY t::text)) FROM (SELECT version::text, checksum, applied_at"
            " FROM pgcursus.schema_migrations UNION ALL SELECT name, checksum, applied_at FROM pgcursus.schema_files) t")


def start(uri):
    return subprocess.Popen([DAEMON, "migrate", "--database", uri], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True)


def migrate(uri):
    process = start(uri)
    output, _ = process.communicate(timeout=90)
    return process.returncode, output


def fresh(name, owner="postgres"):
    psql(f"CREATE DATABASE {name} OWNER {owner}")
    return database(name)


def as_user(uri, user):
    scheme, _, rest = uri.partition("//")
    return f"{scheme}//{user}@{rest.partition('@')[2]}"


if not DAEMON:
    print("1..0 # SKIP there is no pgcursusd")
    sys.exit(0)

uri = fresh("twice")
status, output = migrate(uri)
ok(status == 0, "an_empty_database_is_migrated", output)
before = psql(SNAPSHOT, uri)
status, output = migrate(uri)
ok(status == 0, "migrating_twice_succeeds", output)
equal(psql(SNAPSHOT, uri), before, "migrating_twice_is_a_no_op")

uri = fresh("at_once")
outputs = [(process.communicate(timeout=90)[0], process.returncode) for process in [start(uri) for _ in range(6)]]
ok(all(status == 0 for _, status in outputs), "several_nodes_may_migrate_at_once", *outputs)
equal(sum(output.count("0002_topics") for output, _ in outputs), 1, "one_of_them_applies")

uri = fresh("changed")
migrate(uri)
psql("UPDATE pgcursus.schema_migrations SET checksum = repeat('0', 64) WHERE version = 2", uri)
status, output = migrate(uri)
ok(status != 0 and "migrations/0002_topics.sql" in output, "a_changed_migration_is_refused_by_name", output)

uri = fresh("newer")
migrate(uri)
psql("INSERT INTO pgcursus.schema_migrations VALUES (9999, 'migrations/9999_future.sql', 'x')", uri)
psql("UPDATE pgcursus.schema_files SET checksum = 'future'", uri)
before = psql(SNAPSHOT, uri)
status, output = migrate(uri)
ok(status != 0 and "9999" in output and "newer" in output, "a_newer_schema_is_refused", output)
equal(psql(SNAPSHOT, uri), before, "and_left_alone")

# An upgrade, seen from the older version's database, beside a running node.
uri = fresh("older")
migrate(uri)
psql(create_topic("t"), uri)
psql("CREATE OR REPLACE FUNCTION pgcursus.list_topics() RETURNS TABLE (topic text, auth_policy text, read_acl text,"
     " log_id bigint, partition_count int, revision bigint) LANGUAGE sql AS"
     " $$ SELECT 'old', '', '', 1::bigint, 1, 1::bigint $$;"
     "UPDATE pgcursus.schema_files SET checksum = 'old' WHERE name LIKE '%/list_topics.sql';"
     "INSERT INTO pgcursus.schema_files VALUES ('functions/topic/gone.sql', 'x')", uri)
with Session(uri) as node, Session(uri) as dump:
    node.run("BEGIN; SELECT publish('t', NULL, 'v')")
    dump.run("BEGIN; LOCK TABLE pgcursus.records, pgcursus.topics IN ACCESS SHARE MODE")
    status, output = migrate(uri)
    ok(status == 0, "an_upgrade_waits_neither_for_writers_nor_for_a_dump", output)
    node.run("COMMIT")
    equal(node.run("SELECT topic FROM list_topics()"), "t", "running_nodes_see_the_new_functions")
equal(psql("SELECT count(*) FROM pgcursus.schema_files WHERE name LIKE '%gone%' OR checksum = 'old'", uri), "0",
      "an_upgrade_re_applies_functions_and_forgets_those_that_are_gone")

# A lock that is held for ever is reported; how long to wait may be chosen.
uri = fresh("locked")
with Session(uri) as holder:
    holder.run("SELECT pg_advisory_lock(1885823843, 1)")
    status, output = migrate(uri + "?options=-c%20lock_timeout%3D200")
    ok(status != 0 and "another session is migrating" in output, "waiting_for_another_migrator_ends_in_time", output)
    waiting = start(uri)
    ok(any(psql("SELECT count(*) FROM pg_stat_activity WHERE datname = 'locked' AND wait_event = 'advisory'") == "1"
           for _ in range(200)), "a_migrator_waits_for_another")
    holder.run("SELECT pg_advisory_unlock(1885823843, 1)")
    output, _ = waiting.communicate(timeout=60)
    ok(waiting.returncode == 0, "and_goes_on_when_that_is_done", output)

# An ordinary role that owns the database.
psql("CREATE ROLE installer LOGIN CREATEROLE")
uri = as_user(fresh("plain", "installer"), "installer")
status, output = migrate(uri)
ok(status == 0, "a_role_with_createrole_that_owns_the_database_may_migrate", output)
equal(psql("SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'pgcursus'", uri), "pgcursus_owner",
      "everything_belongs_to_pgcursus_owner")
equal(psql(create_topic("t"), uri), "1", "the_installer_may_act_as_a_broker")
psql("CREATE ROLE node LOGIN IN ROLE pgcursus_broker")
status, output = migrate(as_user(uri, "node"))
ok(status == 0, "a_role_that_may_only_execute_finds_a_current_schema_current", output)
psql("UPDATE pgcursus.schema_files SET checksum = 'old' WHERE name = 'grants.sql'", uri)
status, output = migrate(as_user(uri, "node"))
ok(status != 0, "and_cannot_change_one_that_is_not", output)

psql("CREATE ROLE stranger LOGIN")
psql("CREATE DATABASE strangers OWNER stranger")
status, output = migrate(as_user(database("strangers"), "stranger"))
ok(status != 0 and "may not install" in output, "a_role_without_createrole_is_told_so", output)

# A dump that was restored without owners.
uri = fresh("orphan")
dump = subprocess.run(["pg_dump", "--no-owner", "--no-acl", database("older")], capture_output=True, text=True,
                      timeout=60).stdout
psql(dump, uri)
status, output = migrate(uri)
ok(status == 0, "a_database_restored_without_owners_is_taken_over", output)
equal(psql("SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class WHERE relnamespace = 'pgcursus'::regnamespace"
           " UNION SELECT DISTINCT pg_get_userbyid(proowner) FROM pg_proc WHERE pronamespace = 'pgcursus'::regnamespace",
           uri), "pgcursus_owner", "and_belongs_to_pgcursus_owner_again")
equal(psql("SELECT has_function_privilege('pgcursus_broker', oid, 'EXECUTE') FROM pg_proc WHERE proname = 'append'"
           " AND pronamespace = 'pgcursus'::regnamespace", uri), "t", "with_its_grants")
equal(psql("SELECT pgcursus.publish('t', NULL, 'w', 0) >= 0", uri), "t", "and_works")
finish()
