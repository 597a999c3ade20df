"""Several nodes on one database: who is alive, who leads, waking across nodes, and what happens when one is killed."""

import json
import os
import signal
import time

import pytest

import crs2client as crs2
from crs2client import Batch, Record
from harness import SLOWNESS, sql, wait_until
from refusal import Text, refused
from test_stream import Stream


def status(client):
    text = client.call("CLUSTER_STATUS").text
    assert text.startswith("OK cluster=")
    return json.loads(text.removeprefix("OK cluster="))


def brokers_of(client):
    text = client.call("LIST_CLUSTER").text
    assert text.startswith("OK brokers=")
    return json.loads(text.removeprefix("OK brokers="))


def active(client):
    return sorted(b["id"] for b in brokers_of(client) if b["status"] == "active")


def metadata(client, topic):
    return client.call("METADATA", topic=topic).ok_fields


def leaders(client, topic):
    return metadata(client, topic)["leaders"].split(",")


class Trio:
    def __init__(self, start, dsn, names="abc"):
        self.dsn = dsn
        self.nodes = {name: start(dsn, node_id=name) for name in names}
        self.clients = {name: node.client() for name, node in self.nodes.items()}
        wait_until(lambda: all(active(c) == sorted(names) for c in self.clients.values()), what="registration")

    def address(self, name):
        return self.nodes[name].listen


@pytest.fixture
def trio(start_broker, database):
    cluster = Trio(start_broker, database)
    yield cluster
    for client in cluster.clients.values():
        client.close()


def test_three_nodes_one_killed_one_stopped(trio, new_name):
    """One start of three nodes for the whole story: they are slow to start under the sanitizers."""
    a, b = trio.clients["a"], trio.clients["b"]
    topic = new_name()
    a.call("CREATE", topic=topic, partitions=12)

    # Every node tells the same leaders, and spreads them.
    wait_until(lambda: len(set(leaders(a, topic))) == 3, what="three leaders")
    assert set(leaders(a, topic)) == {trio.address(n) for n in "abc"}
    assert leaders(a, topic) == leaders(b, topic) == leaders(trio.clients["c"], topic)
    described = a.call("DESCRIBE", topic=topic).json["partitions"]
    assert [p["leader"] for p in described] == leaders(a, topic)
    assert {(tuple(p["replicas"]), tuple(p["isr"])) for p in described} == {(("a", "b", "c"),) * 2}
    before = leaders(a, topic)

    # The listing, and the keys of the status in their order.
    assert [list(item) for item in brokers_of(b)] == [["id", "addr", "client_addr", "status", "last_seen"]] * 3
    seen = status(b)
    assert list(seen) == [
        "raft_leader", "raft_state", "raft_applied_index", "raft_commit_index", "raft_last_log_index",
        "raft_last_snapshot_index", "raft_last_snapshot_term", "broker_count", "active_brokers", "inactive_brokers",
        "partition_count", "leaderless_partitions", "under_replicated_partitions", "brokers", "partitions"]
    assert (seen["broker_count"], seen["active_brokers"], seen["partition_count"]) == (3, 3, 12)
    assert seen["brokers"][0] == {"id": "a", "status": "active", "addr": trio.address("a"),
                                  "client_addr": trio.address("a")}
    assert [p["key"] for p in seen["partitions"]] == sorted(f"{topic}-{n}" for n in range(12))
    first = seen["partitions"][0]
    assert list(first) == ["key", "topic", "partition", "leader", "leader_epoch", "replicas", "isr", "committed_hwm",
                           "leader_available", "under_replicated"]
    assert trio.address(first["leader"]) == before[first["partition"]]
    keepers = wait_until(lambda: [n for n, c in trio.clients.items() if status(c)["raft_state"] == "Leader"],
                         what="a node that keeps house")
    assert status(a)["raft_leader"] == trio.address(keepers[0])

    # The public view.
    rows = sql(trio.dsn, "SELECT node_id, address, alive FROM pgcursus.nodes ORDER BY 1")
    assert rows == [[n, trio.address(n), "t"] for n in "abc"]

    # One is killed.
    trio.nodes["c"].kill()
    wait_until(lambda: active(a) == ["a", "b"], 2 * SLOWNESS, what="the killed node to be inactive")
    wait_until(lambda: trio.address("c") not in leaders(a, topic), what="its partitions to be led by others")
    assert [x for x in zip(before, leaders(a, topic)) if x[0] != x[1] and x[0] != trio.address("c")] == []
    seen = status(a)
    assert (seen["broker_count"], seen["inactive_brokers"], seen["under_replicated_partitions"]) == (3, 1, 12)
    assert {b["id"]: b["status"] for b in seen["brokers"]} == {"a": "active", "b": "active", "c": "inactive"}
    first = seen["partitions"][0]
    assert (first["replicas"], first["isr"], first["under_replicated"]) == (["a", "b", "c"], ["a", "b"], True)

    # One stops, and leaves.
    trio.nodes["b"].stop()
    assert [item["id"] for item in brokers_of(a)] == ["a", "c"]
    wait_until(lambda: set(leaders(a, topic)) == {trio.address("a")}, what="one leader")


# ---- electing -------------------------------------------------------------------------------------


E = {"command": "ELECT_LEADER"}
ELECTION_REFUSALS = {
    "topic_missing": ({"topic": None}, "missing_topic", E),
    "topic_blank": ({"topic": " "}, "missing_topic", E),
    "partition_missing": ({"partition": None}, "invalid_partition", E),
    "partition_word": ({"partition": "x"}, "invalid_partition", E),
    "partition_negative": ({"partition": "-1"}, "invalid_partition", E),
    "broker_missing": ({"broker": None}, "missing_broker", E),
    "broker_blank": ({"broker": "  "}, "missing_broker", E),
    "topic_unknown": ({"topic": "no-such"}, "partition_not_found", {"topic": "no-such", "partition": "0"}),
    "partition_unknown": ({"partition": "9"}, "partition_not_found", {"partition": "9"}),
    "partition_33_bits": ({"partition": str(1 << 32)}, "partition_not_found", {"partition": str(1 << 32)}),
    "broker_unknown": ({"broker": "nobody"}, "leader_election_rejected",
                       {"partition": "0", "broker": "nobody", "reason": Text()}),
}


@pytest.mark.parametrize("case", ELECTION_REFUSALS)
def test_elect_leader_refuses(client, topic, case):
    changes, code, expected = ELECTION_REFUSALS[case]
    fields = dict(topic=topic, partition="0", broker="b") | changes
    if code in ("partition_not_found", "leader_election_rejected"):
        expected = {"topic": topic} | expected
    refused(client, "ELECT_LEADER", {k: v for k, v in fields.items() if v is not None}, code, **expected)


def test_elect_leader_moves_a_partition_and_counts_epochs(client, second_client, make_topic):
    topic = make_topic(2)
    ids = wait_until(lambda: (lambda found: found if len(found) >= 2 else None)(active(client)), what="two nodes")
    address = {b["id"]: b["addr"] for b in brokers_of(client)}
    here = next(i for i in ids if address[i] == leaders(client, topic)[0])
    other = next(i for i in ids if i != here)
    answer = client.call("ELECT_LEADER", topic=topic, partition=0, broker=other)
    assert list(answer.ok_fields.items()) == [
        ("topic", topic), ("partition", "0"), ("previous_leader", here), ("leader", other), ("leader_epoch", "1"),
        ("changed", "true")]
    for asked in (client, second_client):
        assert leaders(asked, topic)[0] == address[other]
        assert metadata(asked, topic)["epochs"] == "1,0"
    again = second_client.call("ELECT_LEADER", topic=topic, partition=0, broker=other).ok_fields
    assert (again["previous_leader"], again["leader_epoch"], again["changed"]) == (other, "1", "false")
    back = second_client.call("ELECT_LEADER", topic=topic, partition=0, broker=here).ok_fields
    assert (back["previous_leader"], back["leader"], back["leader_epoch"]) == (other, here, "2")


def test_without_distribution_a_node_is_alone(start_broker, database, new_name):
    start_broker(database, node_id="other")
    node, topic = start_broker(database, enabled_distribution=False, node_id="alone"), new_name()
    with node.client() as client:
        refused(client, "CLUSTER_STATUS", {}, "distribution_required", command="CLUSTER_STATUS")
        refused(client, "ELECT_LEADER", {}, "distribution_required", command="ELECT_LEADER")
        refused(client, "LIST_CLUSTER", {}, "distribution_not_enabled")
        client.call("CREATE", topic=topic, partitions=3)
        fields = metadata(client, topic)
        assert (fields["leaders"], fields["epochs"]) == (",".join([node.listen] * 3), "0,0,0")
        partition = client.call("DESCRIBE", topic=topic).json["partitions"][0]
        assert (partition["leader"], partition["replicas"], partition["isr"]) == (node.listen, ["alone"], ["alone"])


def test_one_address_for_all_is_told_when_it_is_advertised(start_broker, database, new_name):
    topic = new_name()
    nodes = [start_broker(database, node_id=name, advertise="balancer.example:9000") for name in "ab"]
    with nodes[0].client() as client:
        client.call("CREATE", topic=topic, partitions=4)
        wait_until(lambda: len(active(client)) == 2, what="both nodes")
        assert set(leaders(client, topic)) == {"balancer.example:9000"}
        assert {b["client_addr"] for b in brokers_of(client)} == {"balancer.example:9000"}


# ---- waking across nodes --------------------------------------------------------------------------


def test_readers_on_another_node_wake_without_a_look(start_broker, database, new_name):
    """Nobody looks by himself here (wait_poll_interval_ms), so what arrives was announced."""
    reader, writer = [start_broker(database, wait_poll_interval_ms=3600000) for _ in range(2)]
    topic = new_name()
    with writer.client() as publisher, reader.client() as client:
        publisher.call("CREATE", topic=topic, partitions=1)
        with Stream(reader, topic) as stream:
            end = 0

            def hear():
                nonlocal end
                end = publisher.publish(topic, "hello")["last_offset"]
                try:
                    frame = stream.frame(0.5 / SLOWNESS)
                except TimeoutError:
                    return None
                return frame.payload and frame.batch.records

            # Until the nodes know each other nothing is announced.
            heard = wait_until(hear, what="an announcement")
            stream.records(end - heard[-1].offset)
            for n in range(20):
                publisher.publish(topic, f"{n}")
                assert stream.payloads(1) == [b"%d" % n]
        for n in range(end + 21, end + 31):
            request = client.send("CONSUME", dict(topic=topic, partition=0, offset=n, member="m", wait_ms=25000))
            time.sleep(0.02)
            publisher.publish(topic, f"{n}")
            assert [r.payload for r in client.answer(request).batch.records] == [b"%d" % n]


def test_an_append_is_announced_at_most_once(broker, second_broker, second_client, make_topic):
    topic = make_topic(40)
    streams = [Stream(broker, topic, partition=n) for n in range(40)]
    try:
        before = second_broker.metric("pgcursus_announcements_total")
        for n in range(40):
            second_client.send_payload("PUBLISH", crs2.encode_batch(Batch(topic, n, [Record(b"x")])))
        for _ in range(40):
            second_client.answer()
        assert [s.payloads(1) for s in streams] == [[b"x"]] * 40
        assert 1 <= second_broker.metric("pgcursus_announcements_total") - before <= 40
    finally:
        for stream in streams:
            stream.client.close()


def test_a_node_that_is_alone_announces_nothing(start_broker, database, new_name):
    node, topic = start_broker(database), new_name()
    with node.client() as client:
        client.call("CREATE", topic=topic, partitions=1)

        def nothing_is_announced():
            before = node.metric("pgcursus_announcements_total")
            for n in range(20):
                client.publish(topic, f"{n}")
            return node.metric("pgcursus_announcements_total") == before

        wait_until(nothing_is_announced, what="a silent node")  # once it has registered and knows who else is there


def test_a_newer_stream_on_another_node_takes_over(broker, second_broker, client, topic):
    client.publish(topic, "a")
    with Stream(broker, topic, group="one") as older:
        assert older.payloads(1) == [b"a"]
        with Stream(second_broker, topic, group="one", offset=1) as newer:
            assert older.end() == {"reason": "removed", "offset": "1"}
            client.publish(topic, "b")
            assert newer.payloads(1) == [b"b"]



LISTENER = """SELECT a.pid FROM pg_stat_activity a WHERE a.datname = current_database()
               AND a.application_name = 'pgcursus {node}'
               AND a.query LIKE '%pg_notification_queue_usage%'"""


def test_a_listener_that_is_terminated_is_replaced_and_delivery_goes_on(start_broker, database, new_name):
    topic = new_name()
    reader, writer = start_broker(database, node_id="reader"), start_broker(database, node_id="writer")
    with writer.client() as client:
        client.call("CREATE", topic=topic, partitions=1)
        with Stream(reader, topic) as stream:
            client.publish(topic, "a")
            assert stream.payloads(1) == [b"a"]
            # Its last statement is the ping, from two seconds after the start on.
            ours = LISTENER.format(node="reader")
            old = wait_until(lambda: sql(database, ours), what="the listener")
            sql(database, ours.replace("SELECT a.pid", "SELECT pg_terminate_backend(a.pid)"))
            sent = time.monotonic()
            client.publish(topic, "b")
            assert stream.payloads(1) == [b"b"]
            assert time.monotonic() - sent < 1 * SLOWNESS
            wait_until(lambda: [row for row in sql(database, ours) if row not in old], 5 * SLOWNESS,
                       what="another listener")


def test_while_the_listener_is_silent_delivery_goes_on(start_broker, database, new_name):
    """The listener's server process is stopped: its packets are lost as far as the node can tell."""
    topic = new_name()
    reader, writer = start_broker(database, node_id="reader"), start_broker(database, node_id="writer")
    with writer.client() as client:
        client.call("CREATE", topic=topic, partitions=1)
        with Stream(reader, topic) as stream:
            client.publish(topic, "a")
            assert stream.payloads(1) == [b"a"]
            ours = LISTENER.format(node="reader")
            (pid,), = wait_until(lambda: sql(database, ours), what="the listener")
            os.kill(int(pid), signal.SIGSTOP)
            try:
                for n in range(5):
                    sent = time.monotonic()
                    client.publish(topic, f"{n}")
                    assert stream.payloads(1) == [b"%d" % n]
                    assert time.monotonic() - sent < 1 * SLOWNESS
                wait_until(lambda: [row for row in sql(database, ours) if row != [pid]], 10 * SLOWNESS,
                           what="another listener")
            finally:
                os.kill(int(pid), signal.SIGCONT)
