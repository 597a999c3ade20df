"""PostgreSQL goes away, restarts, crashes or is blocked: retryable errors meanwhile, nothing acknowledged is lost."""

import signal
import threading
import time

import pytest

from crs2client import BrokerError
from harness import SLOWNESS, Load, SqlSession, dsn_with, sql, status_of, wait_until


@pytest.fixture(scope="module")
def own_cluster(make_cluster):
    """A cluster that may be stopped without harm to other tests."""
    return make_cluster()


@pytest.fixture
def own_database(own_cluster):
    yield own_cluster.create_database()
    own_cluster.start()  # for the next test, whatever happened here


def backends(dsn):
    own = dsn_with(dsn, application_name="e2e-test")
    return own, "FROM pg_stat_activity WHERE datname = current_database() AND application_name <> 'e2e-test'"


@pytest.mark.parametrize("way", ["stop", "crash"])
def test_a_stopped_database_comes_back_without_a_restart(start_broker, own_cluster, own_database, way):
    nodes = [start_broker(own_database) for _ in range(2)]
    with nodes[0].client() as client:
        client.call("CREATE", topic="t", partitions=4)
    with Load(nodes, "t", 4, threads=6) as load, nodes[0].client() as client:
        load.wait_for_acks(200)
        waiting = nodes[1].client()
        waiting.send("CONSUME", dict(topic="t", partition=0, offset=1_000_000, member="m", wait_ms=1500))
        getattr(own_cluster, way)()
        wait_until(lambda: status_of(nodes[0], "/ready") == 503, what="/ready 503")
        assert status_of(nodes[0], "/live") == 200
        refused_before = len(load.refusals)
        wait_until(lambda: len(load.refusals) > refused_before + 5, what="refusals")
        for command, fields in {
            "CREATE": {"topic": "u"}, "LIST": {}, "DESCRIBE": {"topic": "t"}, "LIST_OFFSETS": {"topic": "t"},
            "CONSUME": dict(topic="t", partition=0, offset=10**6, member="m", isolation="read_uncommitted"),
        }.items():
            with pytest.raises(BrokerError) as caught:
                client.call(command, **fields)
            assert caught.value.retryable and caught.value.class_name == "availability", caught.value
        assert client.call("HELP").text.startswith("OK"), "what needs no database goes on"
        own_cluster.start()
        wait_until(lambda: all(status_of(n, "/ready") == 200 for n in nodes), 15 * SLOWNESS, what="/ready 200")
        load.wait_for_acks(200)
        try:
            waiting.recv()
        finally:
            waiting.close()
    assert {error.class_name for error in load.refusals} == {"availability"}
    load.verify(nodes[1])
    load.verify(nodes[0])


def test_terminated_sessions_are_replaced_under_load(start_broker, own_cluster, own_database):
    nodes = [start_broker(own_database) for _ in range(2)]
    with nodes[0].client() as client:
        client.call("CREATE", topic="t", partitions=4)
    own, where = backends(own_database)
    with Load(nodes, "t", 4, threads=6) as load:
        for _ in range(4):
            load.wait_for_acks(100)
            assert int(sql(own, f"SELECT count(pg_terminate_backend(pid)) {where}")[0][0]) > 0
        load.wait_for_acks(200)
    assert {error.class_name for error in load.refusals} <= {"availability"}
    wait_until(lambda: all(status_of(n, "/ready") == 200 for n in nodes), what="/ready 200")
    load.verify(nodes[0])


def test_sessions_are_replaced_after_a_reload(start_broker, own_cluster, own_database):
    broker = start_broker(own_database)
    own, where = backends(own_database)

    def reloads():
        return sum(event["message"] == "configuration reloaded" for event in broker.events())

    for number in range(1, 11):
        broker.process.send_signal(signal.SIGHUP)
        wait_until(lambda: reloads() == number, what="a reload")

    def sessions():
        return {pid for pid, in sql(own, f"SELECT pid {where}")}

    before = sessions()
    sql(own, f"SELECT pg_terminate_backend(pid) {where}")
    wait_until(lambda: sessions() and before.isdisjoint(sessions()), what="new sessions")
    wait_until(lambda: status_of(broker, "/ready") == 200, what="/ready 200")


def test_idempotent_publishes_survive_terminated_sessions_without_an_error(start_broker, own_cluster, own_database):
    broker = start_broker(own_database)
    own, where = backends(own_database)
    stop = threading.Event()

    offsets = []

    def terminate():
        seen = -1
        while not stop.wait(0.3):
            if len(offsets) > seen:  # it has got on
                seen = len(offsets)
                sql(own, f"SELECT pg_terminate_backend(pid) {where}")

    with broker.client() as client:
        client.call("CREATE", topic="t", partitions=1)
        thread = threading.Thread(target=terminate)
        thread.start()
        try:
            sequence, deadline = 1, time.monotonic() + 2
            while time.monotonic() < deadline or len(offsets) <= 10:
                try:
                    answer = client.publish("t", str(sequence), acks="all", isIdempotent=True, seqNum=sequence)
                except BrokerError as error:
                    # Refused or unknown: the same number is sent again, which must be safe.
                    assert error.retryable
                    continue
                offsets.append(answer["last_offset"])
                sequence += 1
        finally:
            stop.set()
            thread.join()
        records = client.consume_all("t")
        assert offsets == list(range(len(offsets)))
        assert [r.payload for r in records][: len(offsets)] == [b"%d" % (n + 1) for n in range(len(offsets))]
        assert len(records) - len(offsets) in (0, 1)


@pytest.mark.parametrize("pause", [0, 0.05, 0.3])
def test_a_broker_stopped_while_it_reconnects_ends_cleanly(start_broker, own_cluster, own_database, pause):
    broker = start_broker(own_database, append_lanes=16, read_connections=8)
    own, where = backends(own_database)
    sql(own, f"SELECT pg_terminate_backend(pid) {where}")
    time.sleep(pause)
    broker.stop()


def test_a_broker_stopped_while_the_database_is_down_ends_cleanly(start_broker, own_cluster, own_database):
    broker = start_broker(own_database)
    own_cluster.stop()
    time.sleep(0.3)
    broker.stop()


def test_a_blocked_partition_gets_retryable_errors_and_others_go_on(start_broker, own_cluster, own_database):
    broker = start_broker(own_database, append_lock_timeout_ms=400)
    with broker.client() as client, broker.client() as other:
        client.call("CREATE", topic="t", partitions=8)
        log_id = sql(own_database, "SELECT log_id FROM pgcursus.partitions WHERE topic = 't' LIMIT 1")[0][0]
        with SqlSession(own_database) as session:
            session.run(f"SELECT pg_advisory_lock(({log_id}::bigint << 16) | 0)")
            request = dict(topic="t", partition=0, producerId="p", message="blocked")
            blocked = client.send("PUBLISH", request)
            start = time.monotonic()
            for partition in range(1, 8):
                # A neighbour on the same lane may have to wait for the lock's deadline, never longer.
                assert other.publish("t", "free", partition)["last_offset"] == 0
            assert time.monotonic() - start < 2 * SLOWNESS
            with pytest.raises(BrokerError) as caught:
                client.answer(blocked)
            assert caught.value.retryable and caught.value.class_name == "availability"
            assert client.consume("t", 1).records[0].payload == b"free", "reading goes on"
        assert client.publish("t", "after")["last_offset"] == 0
        assert [r.payload for r in client.consume("t").records] == [b"after"], "a refused record is not there"


def test_a_long_foreign_transaction_does_not_stop_publishing(start_broker, own_cluster, own_database):
    broker = start_broker(own_database)
    with broker.client() as client, SqlSession(own_database) as session:
        client.call("CREATE", topic="t", partitions=1)
        session.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
        session.run("SELECT count(*) FROM pgcursus.topics")
        for number in range(20):
            assert client.publish("t", "x")["last_offset"] == number
        assert client.call("CREATE", topic="t", retention_hours=3).ok_fields["revision"] == "2"


def test_acknowledged_records_survive_crashes_of_the_database(start_broker, own_cluster, own_database):
    broker = start_broker(own_database)
    with broker.client() as client:
        client.call("CREATE", topic="t", partitions=2)
    with Load([broker], "t", 2, threads=4, acks="1") as load:
        for _ in range(3):
            load.wait_for_acks(100)
            own_cluster.crash()
            own_cluster.start()
        load.wait_for_acks(100)
    wait_until(lambda: status_of(broker, "/ready") == 200, what="/ready 200")  # reading may come back later
    load.verify(broker)


def test_a_broker_that_starts_without_a_database_says_why_or_waits(start_broker, own_cluster, own_database):
    own_cluster.stop()
    broker = start_broker(own_database, wait=False)
    time.sleep(1.5)
    if broker.process.poll() is not None:
        # Ending is allowed, but not without a reason, and not as if all were well.
        assert broker.process.returncode not in (0, -6, -11)
        assert any(event.get("level") in ("error", "fatal") for event in broker.events())
        broker.process.returncode = -9  # nothing left to stop
        return
    own_cluster.start()
    broker.wait_ready()
    with broker.client() as client:
        assert client.call("LIST").text == "OK count=0 topics="
