"""Retention and compaction on running brokers: what clients see of records that are gone, and what outlives them."""

import pytest

import harness
from crs2client import Batch, BrokerError, Record
from harness import Load, sql, wait_until
from refusal import check
from test_stream import Stream
from test_transactions import Txn

SETTINGS = dict(log_segment_bytes=300, log_retention_check_interval_ms=50, log_compaction_check_interval_ms=50,
                log_min_cleanable_dirty_ratio=0.3)
SIZE = 100  # of a record, so that three make a segment


@pytest.fixture
def nodes(database, start_broker):
    """Two nodes with small segments."""
    return [start_broker(database, **SETTINGS) for _ in range(2)]


def offsets(client, topic, partition=0):
    text = client.call("LIST_OFFSETS", topic=topic, partition=partition).ok_fields["offsets"]
    return {name: int(value) for name, _, value in (part.partition("=") for part in text.split(":")[1:])}


def payload(number):
    return f"{number:0{SIZE}}"


def fill(client, topic, first, end):
    for number in range(first, end):
        client.publish(topic, payload(number))


def wait_for_earliest(client, topic, offset):
    wait_until(lambda: offsets(client, topic)["earliest"] >= offset, 30 * harness.SLOWNESS, what="retention")
    assert offsets(client, topic)["earliest"] == offset


def out_of_range(client, topic, requested, earliest, latest, **more):
    with pytest.raises(BrokerError) as caught:
        client.consume(topic, 0, requested, **more)
    check(caught.value, "OFFSET_OUT_OF_RANGE", requested=str(requested), earliest=str(earliest), latest=str(latest))


def is_refused(client, topic, **more):
    try:
        client.consume(topic, 0, 0, **more)
    except BrokerError as error:
        return error.code == "OFFSET_OUT_OF_RANGE"
    return False


def numbers(records):
    return [int(record.payload) for record in records]


def test_every_node_refuses_what_retention_has_removed(nodes, new_name):
    topic = new_name()
    with nodes[0].client() as one, nodes[1].client() as two:
        one.call("CREATE", topic=topic, partitions=1)
        fill(one, topic, 0, 10)
        for client in (one, two):  # both have all of it in memory now
            assert numbers(client.consume_all(topic)) == list(range(10))
        one.call("CREATE", topic=topic, retention_bytes=4 * SIZE)
        wait_for_earliest(one, topic, 6)
        assert offsets(one, topic) == {"earliest": 6, "latest": 10, "leo": 10, "hwm": 10}
        for client in (one, two):
            wait_until(lambda: is_refused(client, topic, batch=1), 10 * harness.SLOWNESS, what="the news of it")
            out_of_range(client, topic, 5, 6, 10)
            out_of_range(client, topic, 0, 6, 10, isolation="read_uncommitted")
            out_of_range(client, topic, 0, 6, 10, wait_ms=5000)
            assert numbers(client.consume(topic, 0, 6).records) == [6, 7, 8, 9]
        for node in nodes:
            with Stream(node, topic, offset=5) as stream:
                assert stream.end() == {"reason": "offset_out_of_range", "offset": "5", "requested": "5",
                                        "earliest": "6", "latest": "10"}
        with Stream(nodes[0], topic, group="a", offset=6) as near, Stream(nodes[1], topic, group="b", offset=6) as far:
            assert numbers(near.records(4)) == numbers(far.records(4)) == [6, 7, 8, 9]
            one.call("CREATE", topic=topic, retention_bytes=SIZE)
            wait_for_earliest(one, topic, 9)
            fill(one, topic, 10, 11)
            assert numbers(near.records(1)) == numbers(far.records(1)) == [10], "who has read it all goes on"
        assert not [e for node in nodes for e in node.events() if e["message"] == "a housekeeping step failed"]
        assert sum(harness.metric_of(node, 'pgcursus_housekeeping_records_total{task="retention"}')
                   for node in nodes) >= 6
        assert sum(harness.metric_of(node, 'pgcursus_housekeeping_bytes_total{task="retention"}')
                   for node in nodes) >= 6 * SIZE


def test_a_partition_that_lost_everything_knows_its_end_its_producers_and_its_consumers(start_broker, database, new_name):
    # CASES 7 and 13.
    node = start_broker(database, log_segment_roll_ms=1, log_retention_bytes=1, producer_state_ttl_ms=1, **SETTINGS)
    topic = new_name()
    with node.client() as client:
        def publish(number, **more):
            return client.publish(topic, "x" * SIZE, acks="all", isIdempotent=True, seqNum=number, **more)

        client.call("CREATE", topic=topic, partitions=1, cleanup_policy="compact")
        for number in range(1, 6):
            assert publish(number)["last_offset"] == number - 1
        joined = client.call("JOIN_GROUP", topic=topic, group="g", member="m").ok_fields
        client.call("COMMIT_OFFSET", topic=topic, partition=0, offset=2, group="g", member=joined["member"],
                    generation=joined["generation"])
        client.call("CREATE", topic=topic, cleanup_policy="delete")
        wait_for_earliest(client, topic, 5)
        assert offsets(client, topic) == {"earliest": 5, "latest": 5, "leo": 5, "hwm": 5}
        out_of_range(client, topic, 4, 5, 5)
        out_of_range(client, topic, 2, 5, 5, group="g")
        assert client.consume(topic, 0, 5).records == []
        assert sql(database, "SELECT committed, lag FROM pgcursus.group_lag WHERE \"group\" = 'g'") == [["2", "0"]]
        wait_until(lambda: sql(database, "SELECT sum(record_count) FROM pgcursus.record_batches") == [["0"]],
                   30 * harness.SLOWNESS, what="removal of the rows")
        assert publish(5)["last_offset"] == 4
        publish(1)
        assert offsets(client, topic)["leo"] == 5
        with pytest.raises(BrokerError) as caught:
            publish(7)
        assert "idempotency gap" in caught.value.fields["reason"]
        client.call("CREATE", topic=topic, cleanup_policy="compact")
        with Stream(node, topic, group="h", offset=5) as stream:
            assert publish(6)["last_offset"] == 5
            assert [record.offset for record in stream.records(1)] == [5]


def test_a_transaction_keeps_its_records_until_it_ends(nodes, new_name):
    topic = new_name()
    with nodes[0].client() as client:
        client.call("CREATE", topic=topic, partitions=1, retention_bytes=1)
        fill(client, topic, 0, 3)
        txn = Txn(client, topic).begin()
        for number in range(3, 6):
            txn.publish(topic, payload(number))
        fill(client, topic, 6, 10)
        wait_for_earliest(client, topic, 3)
        assert client.consume(topic, 0, 3).records == []
        assert numbers(client.consume(topic, 0, 3, isolation="read_uncommitted").records) == list(range(3, 10))
        assert txn.end()[0] == "committed"
        wait_for_earliest(client, topic, 9)
        assert numbers(client.consume(topic, 0, 9).records) == [9], "the marker is passed over"
        out_of_range(client, topic, 3, 9, 11)
        assert txn.status()[0] == "committed"


def keyed(topic, *pairs, **more):
    """A batch of an idempotent producer: (key, value, sequence)."""
    records = [Record(value, key=key, producer_id=b"p", seq_num=number, epoch=1) for key, value, number in pairs]
    return Batch(topic, records=records, acks="all", idempotent=True, **more)


def test_every_node_shows_what_compaction_has_left(nodes, new_name):
    topic = new_name()
    with nodes[0].client() as one, nodes[1].client() as two:
        one.call("CREATE", topic=topic, partitions=1)
        one.publish_batch(keyed(topic, (b"a", b"1", 1), (b"b", b"2", 2), (b"a", b"3", 3), (b"", b"4", 4)))
        one.publish_batch(keyed(topic, (b"b", b"5", 5), (b"a", b"6", 6)))
        one.publish(topic, "x" * 300)
        one.publish(topic, "y" * 300, key="a")  # in the active segment: supersedes nothing yet
        for client in (one, two):
            assert len(client.consume_all(topic)) == 8
        one.call("CREATE", topic=topic, cleanup_policy="compact")

        def left(client, offset=0):
            return [(r.offset, r.payload, r.key, r.seq_num) for r in client.consume_all(topic, 0, offset)][:-2]

        one.publish_batch(keyed(topic, (b"k", b"7" * 290, 7)))
        one.publish_batch(keyed(topic, (b"k", b"8" * 290, 8)))
        one.publish_batch(keyed(topic, (b"k", b"9" * 290, 9)))
        one.publish_batch(keyed(topic, (b"k", b"0" * 290, 10)))
        one.publish(topic, "z" * 300)
        expected = [(3, b"4", b"", 4), (4, b"5", b"b", 5), (6, b"x" * 300, b"", 0), (7, b"y" * 300, b"a", 0)]
        for client in (one, two):
            wait_until(lambda: left(client) == expected, 30 * harness.SLOWNESS, what="compaction")
            assert left(client, 1) == left(client, 2) == expected, "a read at a removed offset goes on"
            assert left(client, 4) == expected[1:]
            assert [r.offset for r in client.consume(topic, 0, 5, batch=1).records] == [6]
        with Stream(nodes[1], topic) as stream:
            assert [r.offset for r in stream.records(6)] == [3, 4, 6, 7, 11, 12]
        assert [row[0] for row in sql(nodes[0].dsn, f"SELECT \"offset\" FROM pgcursus.read('{topic}', 0)")] == [
            "3", "4", "6", "7", "11", "12"]
        assert offsets(one, topic) == {"earliest": 0, "latest": 13, "leo": 13, "hwm": 13}
        # Nothing of the producer was forgotten.
        assert two.publish_batch(keyed(topic, (b"a", b"1", 1)))["last_offset"] == 0
        assert two.publish_batch(keyed(topic, (b"k", b"0" * 290, 10)))["last_offset"] == 11
        assert two.publish_batch(keyed(topic, (b"n", b"n", 11)))["last_offset"] == 13
        assert sum(harness.metric_of(node, 'pgcursus_housekeeping_records_total{task="compaction"}')
                   for node in nodes) == 7


def test_nothing_that_is_retained_is_lost_while_the_keeper_dies(nodes, new_name):
    topic = new_name()
    with nodes[0].client() as client:
        client.call("CREATE", topic=topic, partitions=2, retention_bytes=2000)
    keeper = next(iter(wait_until(
        lambda: [n for n in nodes if harness.metric_of(n, "pgcursus_housekeeping_active") == 1],
        20 * harness.SLOWNESS, what="a node that keeps house")))
    other = next(node for node in nodes if node is not keeper)
    with Load([other], topic, 2) as load, other.client() as client:
        wait_until(lambda: offsets(client, topic)["earliest"] > 100, 60 * harness.SLOWNESS, what="retention")
        keeper.kill()
        seen = offsets(client, topic)["earliest"]
        wait_until(lambda: offsets(client, topic)["earliest"] > seen + 100, 60 * harness.SLOWNESS,
                   what="retention by the other node")
        load.stop()
        assert not load.wrong, load.wrong[:3]
        for partition in range(2):
            # It may go on while we read.
            wait_until(lambda: sql(other.dsn, "SELECT count(*) FROM pgcursus.log_upkeep u JOIN pgcursus.partition_states p"
                                   " USING (log_id, partition) WHERE u.closed_bytes + u.active_bytes > 2000"
                                   " AND u.closed_bytes > 0") == [["0"]], 60 * harness.SLOWNESS, what="the end of it")
            bounds = offsets(client, topic, partition)
            records = client.consume_all(topic, partition, bounds["earliest"])
            assert [r.offset for r in records] == list(range(bounds["earliest"], bounds["latest"]))
            stored = {r.payload: r.offset for r in records}
            for name, (place, offset) in load.acked.items():
                if place == partition:
                    assert stored.get(name) == (offset if offset >= bounds["earliest"] else None)
