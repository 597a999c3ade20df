"""Brokers as they are deployed: behind HAProxy, on PostgreSQL with a synchronous standby, with a pooler in between."""

import http.client
import re
import signal
import socket
import tempfile
import time

import pytest

import deployment
from crs2client import BrokerError
from deployment import (
    HAProxy, PgBouncer, Producers, Standby, dsn_of_both, listening_socket, make_synchronous, port_of_dsn,
    unreachable_socket,
)
from harness import ROOT, SLOWNESS, SqlSession, metric_of, sql, status_of, wait_until


def port_of(address):
    return int(address.rpartition(":")[2])


class Nodes:
    """Three brokers on one database behind HAProxy; each keeps its ports over restarts."""

    def __init__(self, start_broker, dsn):
        self.start_broker, self.dsn = start_broker, dsn
        self.brokers = [start_broker(dsn) for _ in range(3)]
        with self.brokers[0].client() as client:
            client.call("CREATE", topic="t", partitions=3)

    def ports(self):
        return [(port_of(broker.listen), port_of(broker.http)) for broker in self.brokers]

    def start_again(self, number):
        old = self.brokers[number]
        self.brokers[number] = self.start_broker(self.dsn, listen=old.listen, http=old.http)


@pytest.fixture
def nodes(start_broker, database):
    return Nodes(start_broker, database)


@pytest.fixture
def haproxy(nodes, scratch):
    with HAProxy(nodes.ports(), scratch) as proxy:
        yield proxy
        proxy.check()


def test_a_rolling_restart_under_load_costs_a_reconnect_and_nothing_else(nodes, haproxy):
    with Producers([haproxy.address], "t", 3) as producers:
        producers.wait_for_acks(20)
        for number in range(3):
            nodes.brokers[number].stop()
            producers.wait_for_acks(20)
            nodes.start_again(number)
            producers.wait_for_acks(20)
    assert producers.errors == []
    assert producers.reconnects >= 3, "the restarted nodes had connections"
    producers.verify(haproxy.address)


def test_a_killed_node_and_a_frozen_one_cost_a_reconnect_and_nothing_else(nodes, haproxy):
    with Producers([haproxy.address], "t", 3) as producers:
        producers.wait_for_acks(20)
        nodes.brokers[0].kill()
        producers.wait_for_acks(20)
        nodes.start_again(0)
        producers.wait_for_acks(20)
        # What the frozen node has received it will still append when it wakes up, after the producers have sent it to another.
        deployment.freeze(nodes.brokers[1])
        producers.wait_for_acks(20)
        deployment.thaw(nodes.brokers[1])
        producers.wait_for_acks(20)
    assert producers.errors == []
    assert producers.reconnects >= 2
    producers.verify(haproxy.address)


# ---- a primary and a synchronous standby ----------------------------------------------------------


class Pair:
    """A primary and its synchronous standby."""

    def __init__(self, make_cluster, directory):
        self.hanging = None
        self.primary = make_cluster()
        self.standby = Standby(directory, self.primary)
        make_synchronous(self.primary, self.standby)

    def create_database(self):
        """The connection string of a new database, with both servers in it."""
        self.primary.create_database()
        return dsn_of_both(self.primary, self.standby, f"e2e_{self.primary.names}")

    def fail_over(self, way):
        """The primary ends and the standby is promoted at once. Returns when it takes writes.

        `refusing`: nobody listens any more. `silent`, `unreachable`: a host that hangs, and one whose packets get lost,
        have taken its place. `frozen`: it hangs itself, and its sessions with it.
        """
        if way == "frozen":
            self.primary.freeze()
        else:
            self.primary.crash()
        if way == "silent":
            self.hanging = listening_socket(port_of_dsn(self.primary.dsn))
        if way == "unreachable":
            self.hanging = unreachable_socket(port_of_dsn(self.primary.dsn))
        self.standby.promote()
        return time.monotonic()

    def end(self):
        if self.hanging:
            self.hanging.close()
        for cluster in (self.primary, self.standby):
            cluster.crash()  # nobody needs it again


@pytest.fixture
def pair(make_cluster, scratch):
    """A pair that the test may break."""
    pair = Pair(make_cluster, tempfile.mkdtemp(prefix="standby-", dir=scratch))
    yield pair
    pair.end()


@pytest.fixture(scope="module")
def lasting_pair(make_cluster, scratch):
    """A pair for the tests that leave it as they found it."""
    pair = Pair(make_cluster, tempfile.mkdtemp(prefix="standby-", dir=scratch))
    yield pair
    pair.end()


@pytest.fixture
def replicated(lasting_pair):
    yield lasting_pair
    lasting_pair.standby.start()
    wait_until(lasting_pair.standby.is_synchronous, 20 * SLOWNESS, what="synchronous standby")


@pytest.mark.parametrize("way", ["refusing", "silent", "unreachable", "frozen"])
def test_publishing_resumes_soon_after_a_promotion_and_nothing_replicated_is_lost(pair, start_broker, way):
    dsn = pair.create_database()
    nodes = [start_broker(dsn) for _ in range(2)]
    with nodes[0].client() as client:
        client.call("CREATE", topic="t", partitions=3, min_in_sync_replicas=1)
    with Producers([node.listen for node in nodes], "t", 3) as producers:
        producers.wait_for_acks(100)
        promoted = pair.fail_over(way)
        producers.wait_for_acks(50)
        assert producers.first_ack_after(promoted) - promoted < 5 * SLOWNESS
    assert {error.class_name for error in producers.errors} <= {"availability"}
    assert producers.reconnects == 0, "the nodes themselves did not go away"
    wait_until(lambda: all(status_of(node, "/ready") == 200 for node in nodes), 20 * SLOWNESS, what="/ready 200")
    for node in nodes:
        producers.verify(node.listen)
        wait_until(lambda: status_of(node, "/ready") == 200, 5 * SLOWNESS, what="/ready 200")


def test_a_large_publish_to_a_frozen_primary_is_not_waited_for(pair, start_broker):
    dsn = pair.create_database()
    broker = start_broker(dsn, append_lock_timeout_ms=60000)
    with broker.client(timeout=20 * SLOWNESS) as client, SqlSession(dsn) as holder:
        client.call("CREATE", topic="t", partitions=1)
        holder.run("BEGIN; SELECT pgcursus.publish('t', NULL, 'holds the partition', partition => 0)")
        client.send("PUBLISH", dict(topic="t", partition=0, message=b"x" * (3 << 20), producerId="p", acks="1"))
        waiting = "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'pgcursus%' AND wait_event_type = 'Lock'"
        wait_until(lambda: sql(dsn, waiting), 20 * SLOWNESS, what="a publish that waits for the partition")
        pair.fail_over("frozen")
        with pytest.raises(BrokerError) as caught:
            client.answer()
        assert caught.value.retryable and "outcome unknown" in caught.value.fields["reason"]


def test_a_node_does_not_go_back_to_a_primary_that_was_left(pair, start_broker):
    broker = start_broker(pair.create_database())
    # Commits that wait for the standby, which follows no more, do not notice that nobody waits for them.
    own_sessions = ("SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'pgcursus%'"
                    " AND wait_event IS DISTINCT FROM 'SyncRep'")

    def reason():
        connection = http.client.HTTPConnection(broker.http, timeout=5 * SLOWNESS)
        connection.request("GET", "/ready")
        text = connection.getresponse().read().decode()
        connection.close()
        return text

    with broker.client() as client:
        client.call("CREATE", topic="t", partitions=1)
        pair.fail_over("frozen")
        wait_until(lambda: sql(pair.standby.dsn, own_sessions), 20 * SLOWNESS, what="sessions with the new primary")
        pair.primary.thaw()
        wait_until(lambda: not sql(pair.primary.dsn, own_sessions), 20 * SLOWNESS, what="an end of the old sessions")
        wait_until(lambda: status_of(broker, "/ready") == 200, 20 * SLOWNESS, what="/ready 200")
        assert client.publish("t", "new", acks="1")["last_offset"] == 0
        pair.standby.crash()
        wait_until(lambda: "was left for another" in reason(), 20 * SLOWNESS, what="a refusal of the old primary")
        assert status_of(broker, "/ready") == 503
        pair.standby.start()
        wait_until(lambda: status_of(broker, "/ready") == 200, 20 * SLOWNESS, what="/ready 200")
        assert [r.payload for r in client.consume("t").records] == [b"new"]


def test_what_a_fail_over_lost_is_not_served_from_a_cache(pair, start_broker):
    dsn = pair.create_database()
    nodes = [start_broker(dsn) for _ in range(2)]
    with nodes[0].client() as client, nodes[1].client() as other:
        client.call("CREATE", topic="t", partitions=1)
        client.publish("t", "kept", acks="all")
        pair.standby.stop()
        client.publish("t", "lost")
        for reader in (client, other):
            assert [r.payload for r in reader.consume("t").records] == [b"kept", b"lost"]
        pair.primary.crash()
        pair.standby.start()
        pair.standby.promote()
        wait_until(lambda: all(status_of(node, "/ready") == 200 for node in nodes), 15 * SLOWNESS, what="/ready 200")
        assert client.publish("t", "new")["last_offset"] == 1
        for reader in (client, other):
            assert [r.payload for r in reader.consume("t").records] == [b"kept", b"new"]


def test_without_its_standby_replicated_publishes_wait_and_everything_else_goes_on(replicated, start_broker):
    broker = start_broker(replicated.create_database())
    with broker.client() as client, broker.client() as other:
        client.call("CREATE", topic="t", partitions=8)
        client.call("CREATE", topic="two", partitions=1, min_in_sync_replicas=2)
        assert client.publish("two", "x", acks="all")["last_offset"] == 0
        replicated.standby.stop()
        with pytest.raises(BrokerError) as caught:
            client.publish("two", "y", acks="all")
        assert caught.value.code == "insufficient_in_sync_replicas"
        assert (caught.value.fields["current"], caught.value.fields["required"]) == ("1", "2")
        assert client.publish("two", "z", acks="1")["last_offset"] == 1, "the leader's own word is enough for acks=1"

        waiting = [broker.client() for _ in range(4)]
        for partition, producer in enumerate(waiting):
            producer.send("PUBLISH", dict(topic="t", partition=partition, producerId="p", acks="all", message="waits"))
        time.sleep(0.3)
        for partition in range(4, 8):
            assert other.publish("t", "free", partition)["last_offset"] == 0
            assert [r.payload for r in other.consume("t", partition).records] == [b"free"]
        assert other.consume("t", 0).records == [], "what waits for the standby cannot be read yet"
        assert status_of(broker, "/ready") == 200
        replicated.standby.start()
        for producer in waiting:
            assert producer.answer(command="PUBLISH").json["last_offset"] == 0
            producer.close()
        wait_until(lambda: replicated.standby.is_synchronous(), 20 * SLOWNESS, what="synchronous standby")
        assert client.publish("two", "again", acks="all")["last_offset"] == 2


def test_a_large_publish_that_waits_for_a_standby_does_not_keep_the_broker_from_stopping(replicated, start_broker):
    broker = start_broker(replicated.create_database(), drain_timeout_ms=500)
    with broker.client() as client:
        client.call("CREATE", topic="t", partitions=1)
        with replicated.standby.stopped_receiver():
            client.send("PUBLISH", dict(topic="t", partition=0, message=b"x" * (3 << 20), producerId="p", acks="all"))
            waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            wait_until(lambda: sql(replicated.primary.dsn, waiting), 10 * SLOWNESS, what="a waiting commit")
            broker.stop(within=5)


def test_a_wait_for_a_standby_that_nobody_waits_for_ends(replicated, start_broker):
    broker = start_broker(replicated.create_database(), client_request_timeout_ms=4000)
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    with broker.client() as client:
        client.call("CREATE", topic="t", partitions=1)
        with replicated.standby.stopped_receiver():
            with pytest.raises(BrokerError) as caught:
                client.publish("t", "x", acks="all")
            assert caught.value.retryable and "outcome unknown" in caught.value.fields["reason"]
            wait_until(lambda: not sql(replicated.primary.dsn, waiting), 10 * SLOWNESS, what="an end of the wait")
            assert client.publish("t", "y")["last_offset"] == 1, "the partition is free again"


def test_a_duplicate_is_acknowledged_only_when_the_standby_has_the_original(replicated, start_broker):
    broker = start_broker(replicated.create_database())
    waiting = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    with broker.client() as client:
        client.call("CREATE", topic="t", partitions=1)
        with replicated.standby.stopped_receiver():
            request = client.send("PUBLISH", dict(topic="t", partition=0, message="x", producerId="p", acks="all",
                                                  isIdempotent=True, seqNum=1))
            # Committed on the primary only: its wait for the standby is cut short, as an administrator may do. The node
            # sends it again and finds it there.
            cancel = f"SELECT pg_cancel_backend(pid) {waiting}"
            wait_until(lambda: sql(replicated.primary.dsn, cancel), 10 * SLOWNESS, what="a waiting commit")
            wait_until(lambda: sql(replicated.primary.dsn, f"SELECT 1 {waiting}"), 10 * SLOWNESS, what="a second wait")
            client.sock.settimeout(0.5)
            with pytest.raises(TimeoutError):
                client.recv()
            client.sock.settimeout(20 * SLOWNESS)
        assert client.answer(request).json["last_offset"] == 0
        assert len(client.consume_all("t")) == 1


# ---- a pooler in between --------------------------------------------------------------------------


def test_transaction_pooling_is_refused_at_the_start(database, start_broker, scratch):
    with PgBouncer(database, scratch, "transaction") as pooler:
        broker = start_broker(pooler.dsn, wait=False)
        broker.process.wait(20 * SLOWNESS)
        assert broker.process.returncode == 1
        reasons = [event["reason"] for event in broker.events() if event["level"] == "error"]
        assert len(reasons) == 1 and "transaction mode" in reasons[0] and "pool_mode=session" in reasons[0]
        broker.process.returncode = -9  # nothing left to stop
    assert sql(database, "SELECT to_regnamespace('pgcursus')") == [[""]], "nothing was installed"


def test_transaction_pooling_is_found_in_a_busy_pool(database, start_broker, scratch):
    with PgBouncer(database, scratch, "transaction") as pooler:
        sessions = [SqlSession(pooler.dsn) for _ in range(4)]
        try:
            for session in sessions:
                session.run("BEGIN; SELECT 1")
            for session in sessions[1:]:
                session.run("COMMIT")
            broker = start_broker(pooler.dsn, wait=False)
            broker.process.wait(20 * SLOWNESS)
            assert "transaction mode" in broker.log_text()
            broker.process.returncode = -9  # nothing left to stop
        finally:
            for session in sessions:
                session.__exit__()


def test_a_pooler_without_room_is_told_from_one_that_shares(database, start_broker, scratch):
    with PgBouncer(database, scratch, "session", pool_size=1) as pooler:
        broker = start_broker(pooler.dsn, wait=False)
        broker.process.wait(30 * SLOWNESS)
        assert broker.process.returncode == 1
        assert "does not serve two connections at once" in broker.log_text()
        broker.process.returncode = -9  # nothing left to stop


def test_session_pooling_works(database, start_broker, scratch):
    with PgBouncer(database, scratch, "session") as pooler:
        broker = start_broker(pooler.dsn)
        direct = start_broker(database)
        with broker.client() as client, direct.client() as other:
            client.call("CREATE", topic="t", partitions=1)
            assert client.publish("t", "x", acks="all")["last_offset"] == 0
            assert client.consume("t").records[0].payload == b"x"
            other.call("CREATE", topic="t", partitions=2)

            def knows_the_new_partition():
                try:
                    return client.publish("t", "y", 1)
                except BrokerError as error:
                    assert error.code == "partition_not_found"

            # It hears of it by a notification.
            wait_until(knows_the_new_partition, 5 * SLOWNESS, what="the new definition")
        broker.stop()
        pooler.check()


# ---- a service manager ----------------------------------------------------------------------------


def test_a_service_manager_is_told_of_start_reload_and_stop(database, start_broker, scratch, monkeypatch):
    path = scratch / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(10 * SLOWNESS)
        monkeypatch.setenv("NOTIFY_SOCKET", str(path))
        broker = start_broker(database)
        assert manager.recv(1000).decode() == f"READY=1\nSTATUS=serving clients on {broker.listen}"
        broker.process.send_signal(signal.SIGHUP)
        assert manager.recv(1000).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
        assert manager.recv(1000) == b"READY=1"
        broker.stop()
        assert manager.recv(1000) == b"STOPPING=1"


# ---- notifications --------------------------------------------------------------------------------


def test_a_growing_notification_queue_shows_and_stops_nobody(make_cluster, start_broker):
    cluster = make_cluster()
    dsn = cluster.create_database()
    nodes = [start_broker(dsn) for _ in range(2)]
    with SqlSession(dsn) as stalled, nodes[0].client() as client, nodes[1].client() as other:
        client.call("CREATE", topic="t", partitions=1)
        # A listener of somebody else, stuck in a transaction, keeps what is announced in the queue.
        stalled.run("LISTEN elsewhere; BEGIN; SELECT 1")
        fill = "SELECT count(pg_notify('elsewhere', n || repeat('x', 7900))) FROM generate_series(1, 1000) n"
        sql(dsn, fill)
        wait_until(lambda: metric_of(nodes[0], "pgcursus_notification_queue_usage") > 0.0003, 10 * SLOWNESS,
                   what="a queue in use")
        for number in range(20):
            assert client.publish("t", "x")["last_offset"] == number
        assert len(other.consume("t", wait_ms=1000).records) == 20
        transactions = ("SELECT FROM pg_stat_activity WHERE application_name LIKE 'pgcursus%'"
                        " AND state LIKE 'idle in transaction%'")
        wait_until(lambda: not sql(dsn, transactions), what="no session of a broker in a transaction")
        stalled.run("COMMIT")
        wait_until(lambda: metric_of(nodes[0], "pgcursus_notification_queue_usage") < 0.0003, 10 * SLOWNESS,
                   what="an empty queue")


# ---- what watches it ------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["prometheus/alerts.yaml", "grafana/pgcursus.json"])
def test_what_is_watched_exists(broker, file):
    text = (ROOT / "deploy" / file).read_text()
    names = {re.sub("_(bucket|sum|count)$", "", name) for name in re.findall(r"\bpgcursus_[a-z_]+", text)}
    connection = http.client.HTTPConnection(broker.http, timeout=60)
    connection.request("GET", "/metrics")
    served = set(re.findall(r"^# TYPE (\S+)", connection.getresponse().read().decode(), re.MULTILINE))
    connection.close()
    assert len(names) > 5 and names <= served, names - served


def test_every_alert_is_explained():
    names = re.findall(r"alert: (\w+)", (ROOT / "deploy" / "prometheus" / "alerts.yaml").read_text())
    page = (ROOT / "docs" / "operations.md").read_text()
    assert names and [name for name in names if f"| {name} |" not in page] == []
