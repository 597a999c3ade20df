"""Starting and stopping of the program itself: migrations, settings, addresses."""

import os
import subprocess

import pytest

from harness import BROKER, SANITIZER_REPORT, sql


def run(*arguments, **environment):
    done = subprocess.run([BROKER, *arguments], capture_output=True, text=True, timeout=180,
                          env=os.environ | environment)
    assert not SANITIZER_REPORT.search(done.stderr), done.stderr[:4000]
    return done


def version_of(dsn):
    return sql(dsn, "SELECT max(version), count(*) FROM pgcursus.schema_migrations")[0]


def test_migrate_prepares_a_database_and_may_be_repeated(database):
    assert run("migrate", "--database", database).returncode == 0
    first = version_of(database)
    assert int(first[0]) >= 1
    assert run("migrate", "--database", database).returncode == 0
    assert version_of(database) == first


def test_nodes_that_start_at_once_on_an_empty_database_all_serve(start_broker, database):
    nodes = [start_broker(database, wait=False) for _ in range(4)]
    for node in nodes:
        node.wait_ready()
    for number, node in enumerate(nodes):
        with node.client() as client:
            client.call("CREATE", topic=f"t{number}", partitions=1)
    for node in nodes:
        with node.client() as client:
            assert client.call("LIST").text == "OK count=4 topics=t0,t1,t2,t3"


def test_a_node_refuses_a_schema_newer_than_itself(database):
    assert run("migrate", "--database", database).returncode == 0
    sql(database, "INSERT INTO pgcursus.schema_migrations (version, name, checksum) VALUES (9999, 'future', 'x')")
    for arguments in (("migrate",), (), ("--no-migrate",)):
        done = run(*arguments, "--database", database, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
        assert done.returncode not in (0, -6, -11)
        assert "newer" in done.stderr


def test_no_migrate_leaves_an_empty_database_alone(database):
    done = run("--no-migrate", "--database", database, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
    assert done.returncode not in (0, -6, -11) and done.stderr
    assert sql(database, "SELECT count(*) FROM pg_namespace WHERE nspname = 'pgcursus'") == [["0"]]


def test_no_migrate_serves_a_prepared_database(start_broker, database):
    assert run("migrate", "--database", database).returncode == 0
    with start_broker(database).client() as client:
        client.call("CREATE", topic="t", partitions=1)
    done = run("migrate", "--database", database)
    assert done.returncode == 0


def test_an_unknown_setting_is_an_error_that_names_the_nearest(database):
    done = run("--max-topiks", "3", "--database", database)
    assert done.returncode not in (0, -6, -11)
    assert "max-topics" in done.stderr.replace("_", "-")


def test_a_named_but_missing_file_stops_the_start():
    done = run("--config", "/no/such/file.yaml")
    assert done.returncode not in (0, -6, -11) and "/no/such/file.yaml" in done.stderr


def test_check_config_says_where_each_value_came_from(scratch):
    file = scratch / "broker.yaml"
    file.write_text("max_topics: 7\nmax_partitions: 8\nmin_insync_replicas: 2\n")
    done = run("check-config", "--config", str(file), "--min-insync-replicas", "4",
               PGCURSUS_MAX_PARTITIONS="9", PGCURSUS_MIN_INSYNC_REPLICAS="3")
    assert done.returncode == 0
    rows = {}
    for line in done.stdout.splitlines():
        setting, _, origin = line.partition("  # ")
        rows[setting] = origin
    assert rows["max_topics: 7"].startswith(f"file {file}")
    assert rows["max_partitions: 9"] == "environment PGCURSUS_MAX_PARTITIONS"
    assert rows["min_insync_replicas: 4"] == "flag --min-insync-replicas"
    assert rows["max_partitions_per_topic: 1024"] == "default"


def test_help_and_version_work_without_a_database():
    assert "--database" in run("--help").stdout
    assert run("--version").stdout.strip()


def test_an_address_in_use_stops_the_start_with_a_reason(broker, database):
    # SO_REUSEPORT lets brokers share a port, so the address must belong to something else.
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        done = run("--database", database, "--listen", address, "--http", "127.0.0.1:0")
    assert done.returncode not in (0, -6, -11) and address in done.stderr


@pytest.mark.parametrize("dsn", ["host=127.0.0.1 port=1 connect_timeout=1", "not a dsn", "host=/no/such/directory"])
def test_migrate_without_a_database_says_why(dsn):
    done = run("migrate", "--database", dsn)
    assert done.returncode not in (0, -6, -11) and done.stderr.strip()
