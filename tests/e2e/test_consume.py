"""CONSUME: the check table row by row, where reading starts and stops, long polls, patterns, other nodes."""

import queue
import threading
import time

import pytest

import conftest
import reading
from crs2client import Batch, Record
from harness import SLOWNESS, wait_until
from refusal import Text, refused, refused_in_order, same

WAIT = {"maximum": "30000"}
REFUSALS = reading.refusals("CONSUME") | {
    "offset_missing": ({"offset": None}, "invalid_consume_syntax", {}),
    "offset_empty": ({"offset": ""}, "invalid_consume_syntax", {}),
    "member_missing": ({"member": None}, "invalid_consume_syntax", {}),
    "member_empty": ({"member": ""}, "invalid_consume_syntax", {}),
    "wait_negative": ({"wait_ms": "-1"}, "invalid_wait_ms", WAIT),
    "wait_word": ({"wait_ms": "x"}, "invalid_wait_ms", WAIT),
    "wait_too_large": ({"wait_ms": "30001"}, "fetch_wait_too_large", {"requested": "30001", **WAIT}),
    "pattern_too_long": ({"topic": "*" * 257}, "command_failed", {"reason": Text()}),
    "pattern_matches_nothing": ({"topic": "no-such-?*"}, "topic_not_found", {"topic": "no-such-?*"}),
}


def request_of(topic, changes):
    fields = dict(topic=topic, partition="0", offset="0", member="m") | changes
    return {name: value for name, value in fields.items() if value is not None}


@pytest.mark.parametrize("case", REFUSALS)
def test_consume_refuses(client, topic, case):
    changes, code, fields = REFUSALS[case]
    refused(client, "CONSUME", request_of(topic, changes), code, **fields)


def test_consume_checks_in_the_order_of_the_specification(client, make_topic):
    topic = make_topic(auth_policy="deny_read")
    refused_in_order(client, "CONSUME", reading.ALL_WRONG | {"wait_ms": "x"}, [
        ("invalid_consume_syntax", {"member": "a b"}),
        ("invalid_member", {"member": "m"}),
        *reading.STEPS_TO_BATCH,
        ("invalid_wait_ms", {"wait_ms": "99999"}),
        ("fetch_wait_too_large", {"wait_ms": "0"}),
        *reading.steps_from_topic(topic),
    ])


def test_consume_where_reading_is_denied(client, make_topic):
    for policy in ("deny_read", "acl"):
        topic = make_topic(auth_policy=policy, read_acl="*")
        refused(client, "CONSUME", request_of(topic, {}), "NOT_AUTHORIZED_FOR_TOPIC", operation="read", topic=topic)


@pytest.mark.parametrize(
    "changes",
    [{"group": ""}, {"group": "-"}, {"group": "unknown"}, {"isolation": "READ_UNCOMMITTED"}, {"batch": "8192"},
     {"isolation": "Read_Committed"}, {"generation": "-7"}, {"wait_ms": "0"}, {"autoOffsetReset": "latest"},
     {"autoOffsetReset": "nonsense"}, {"partition": "+0"}, {"offset": "00"}],
    ids=str,
)
def test_consume_accepts(client, topic, changes):
    client.publish(topic, "x")
    batch = client.call("CONSUME", **request_of(topic, changes)).batch
    assert [r.payload for r in batch.records] == [b"x"]


# ---- the answer -----------------------------------------------------------------------------------


def test_the_answer_is_a_batch_with_acks_1(client, topic):
    client.publish_batch(Batch(topic, records=[Record(b"a", producer_id=b"p", seq_num=3),
                                               Record(b"b", producer_id=b"p", seq_num=9)]))
    batch = client.consume(topic)
    assert (batch.topic, batch.partition, batch.acks, batch.idempotent) == (topic, 0, "1", False)
    assert (batch.batch_start, batch.batch_end) == (3, 9)
    empty = client.consume(topic, offset=2)
    assert (empty.topic, empty.acks, empty.batch_start, empty.batch_end, empty.records) == (topic, "1", 0, 0, [])


def test_an_offset_inside_a_stored_batch_returns_the_rest(client, topic):
    client.publish_batch(Batch(topic, records=[Record(b"0"), Record(b"1")]))
    client.publish_batch(Batch(topic, records=[Record(b"2"), Record(b"3")]))
    for offset in range(5):
        assert [(r.offset, r.payload) for r in client.consume(topic, offset=offset).records] == [
            (n, b"%d" % n) for n in range(offset, 4)]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_the_end_of_the_partition(client, topic, isolation):
    client.publish(topic, "x")
    assert client.consume(topic, offset=1, isolation=isolation).records == []


def test_read_committed_beyond_the_end_is_empty(client, topic):
    client.publish(topic, "x")
    for offset in (2, 99, (1 << 63) - 1, 1 << 63, (1 << 64) - 1):
        assert client.consume(topic, offset=offset).records == []


@pytest.mark.parametrize("offset", [2, 99, 1 << 63, (1 << 64) - 1])
def test_read_uncommitted_beyond_the_end_is_out_of_range(client, topic, offset):
    client.publish(topic, "x")
    refused(client, "CONSUME", request_of(topic, {"offset": offset, "isolation": "read_uncommitted"}),
            "OFFSET_OUT_OF_RANGE", requested=str(offset), earliest="0", latest="1")


def test_the_record_limit_cuts_anywhere(client, topic):
    client.publish_batch(Batch(topic, records=[Record(b"%d" % n) for n in range(10)]))
    client.publish_batch(Batch(topic, records=[Record(b"%d" % n) for n in range(10, 20)]))
    for offset, limit in [(0, 1), (0, 10), (0, 11), (3, 5), (3, 9), (9, 2), (19, 5)]:
        records = client.consume(topic, offset=offset, batch=limit).records
        assert [r.offset for r in records] == list(range(offset, min(20, offset + limit)))


def test_an_answer_has_8192_records_at_most(client, topic):
    client.publish_batch(Batch(topic, records=[Record(b"x")] * 9000))
    assert [r.offset for r in client.consume(topic).records] == list(range(8192))
    assert len(client.consume(topic, offset=8192).records) == 808


def test_an_answer_fits_one_frame_and_the_rest_follows(client, topic):
    payload = b"y" * (9 << 20)
    for _ in range(8):
        client.publish(topic, payload)
    first = client.consume(topic).records
    assert 1 <= len(first) <= 7, "72 MiB do not fit a frame of 64"
    rest = client.consume_all(topic, offset=len(first))
    assert [r.offset for r in first + rest] == list(range(8))
    assert all(r.payload == payload for r in first + rest)


def test_a_consumer_passes_a_record_larger_than_any_limit(start_broker, database):
    settings = dict(tail_cache_bytes=1 << 20, append_group_max_bytes=1 << 16)
    with start_broker(database, **settings).client() as client:
        client.call("CREATE", topic="t", partitions=1)
        client.publish("t", b"big" * (4 << 20))
        client.publish("t", b"small")
        assert [len(r.payload) for r in client.consume_all("t", batch=1)] == [12 << 20, 5]


def test_a_rewind_on_the_same_connection_is_obeyed(client, topic):
    for message in "abc":
        client.publish(topic, message)
    assert len(client.consume(topic, group="g").records) == 3
    assert len(client.consume(topic, offset=1, group="g").records) == 2
    assert len(client.consume(topic, group="g").records) == 3


# ---- long polls -----------------------------------------------------------------------------------


def timed(client, *arguments, **more):
    start = time.monotonic()
    batch = client.consume(*arguments, **more)
    return batch, time.monotonic() - start


def test_a_wait_at_the_end_is_over_on_time(client, make_topic):
    topic, empty = make_topic(), make_topic()
    client.publish(topic, "x")
    for name, offset in ((topic, 1), (topic, 5), (empty, 0)):
        batch, seconds = timed(client, name, offset=offset, wait_ms=300)
        assert batch.records == []
        assert 0.29 <= seconds < 0.4 * SLOWNESS


def test_a_wait_for_what_does_not_exist_is_refused_at_once(client, new_name, topic):
    start = time.monotonic()
    name = new_name()
    refused(client, "CONSUME", request_of(name, {"wait_ms": 20000}), "topic_not_found", topic=name)
    refused(client, "CONSUME", request_of(topic, {"wait_ms": 20000, "partition": 3}), "partition_not_found",
            partition="3")
    assert time.monotonic() - start < 15


def test_data_that_is_there_is_not_waited_for(client, topic):
    client.publish(topic, "x")
    assert timed(client, topic, wait_ms=25000)[1] < 15


def wakes(waiting, publishing, topic, offset=0):
    """Whether a poll that waits is answered with what is published meanwhile."""
    request_id = waiting.send("CONSUME", request_of(topic, {"wait_ms": 25000, "offset": offset}))
    time.sleep(0.2)
    publishing.publish(topic, "wake")
    return [r.payload for r in waiting.answer(request_id).batch.records] == [b"wake"]


@pytest.fixture(scope="module")
def attentive(cluster, scratch):
    """A broker of whose readers none looks by himself: who is woken was told."""
    fleet = conftest.Fleet(scratch)
    yield fleet.start(cluster.create_database(), wait_poll_interval_ms=3600000)
    fleet.stop()


def test_a_local_append_wakes_the_waiting(attentive):
    with attentive.client() as client, attentive.client() as other:
        client.call("CREATE", topic="local", partitions=1)
        assert all(wakes(client, other, "local", n) for n in range(5))


def test_an_append_on_another_node_wakes_the_waiting(client, second_client, topic):
    assert all(wakes(client, second_client, topic, n) for n in range(3))


def test_an_append_far_below_the_offset_does_not_end_the_wait(client, broker, topic):
    start = time.monotonic()
    request_id = client.send("CONSUME", request_of(topic, {"wait_ms": 600, "offset": 3}))
    with broker.client() as other:
        other.publish(topic, "x")
        assert client.answer(request_id).batch.records == []
        assert time.monotonic() - start > 0.59


def test_requests_in_flight_on_one_connection_are_answered_in_order(client, topic):
    start = time.monotonic()
    ids = [client.send("CONSUME", request_of(topic, {"wait_ms": 400})) for _ in range(2)]
    assert [client.recv().request_id for _ in ids] == ids
    assert time.monotonic() - start > 0.79, "one request at a time on a connection"


def test_many_waiting_clients_are_all_woken(attentive):
    with attentive.client() as client:
        client.call("CREATE", topic="many", partitions=1)
        waiting = [attentive.client() for _ in range(50)]
        for one in waiting:
            one.send("CONSUME", request_of("many", {"wait_ms": 25000}))
        time.sleep(0.2)
        client.publish("many", "x")
        for one in waiting:
            assert [r.payload for r in one.recv().batch.records] == [b"x"]
            one.close()


def test_the_request_budget_ends_a_wait_without_an_error(start_broker, database):
    broker = start_broker(database, client_request_timeout_ms=3000)
    with broker.client() as client:
        client.call("CREATE", topic="t", partitions=1)
        batch, seconds = timed(client, "t", wait_ms=30000)
        assert batch.records == [] and 2.9 < seconds < 25


def test_a_client_that_leaves_frees_its_wait(start_broker, database):
    broker = start_broker(database)
    with broker.client() as client:
        client.call("CREATE", topic="t", partitions=1)
        before = broker.descriptors()
        waiting = [broker.client() for _ in range(20)]
        for one in waiting:
            one.send("CONSUME", request_of("t", {"wait_ms": 30000}))
        wait_until(lambda: broker.descriptors() >= before + 20, what="connections")
        for one in waiting:
            one.close()
        wait_until(lambda: broker.descriptors() <= before, 2 * SLOWNESS, what="end of the connections")
        client.publish("t", "x")
        assert len(client.consume("t").records) == 1


def test_no_wake_up_is_lost_between_reading_and_waiting(attentive):
    """A record is published as soon as the one before it was seen, while its reader asks for it."""
    seen = queue.SimpleQueue()

    def follow():
        with attentive.client() as follower:
            for offset in range(300):
                batch = follower.consume("race", offset=offset, wait_ms=25000)
                seen.put([r.offset for r in batch.records])

    with attentive.client() as client:
        client.call("CREATE", topic="race", partitions=1)
        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        for offset in range(300):
            client.publish("race", "x")
            assert seen.get(timeout=60) == [offset]
        thread.join(120)


# ---- patterns -------------------------------------------------------------------------------------


def test_patterns_read_matching_topics_in_order_of_name(client, new_name):
    stem = new_name()
    for name, message in (("-b", "2"), ("-a", "1"), ("-ab", "3"), ("-B", "0")):
        client.call("CREATE", topic=stem + name, partitions=1)
        client.publish(stem + name, message)

    def read(pattern, **more):
        batch = client.consume(pattern, **more)
        assert batch.topic == pattern and all(r.topic == pattern for r in batch.records)
        return [r.payload for r in batch.records]

    assert read(stem + "-*") == [b"0", b"1", b"3", b"2"]
    assert read(stem + "-?") == [b"0", b"1", b"2"]
    assert read(stem + "-a*") == [b"1", b"3"]
    assert read(stem + "-*b") == [b"3", b"2"]
    assert read(stem + "-?*b") == [b"3"]
    assert read(stem + "-*", batch=2) == [b"0", b"1"]
    refused(client, "CONSUME", request_of(stem + "?*-[ab]", {}), "topic_not_found", topic=stem + "?*-[ab]")


def test_one_failing_topic_fails_the_pattern(client, new_name):
    stem = new_name()
    client.call("CREATE", topic=stem + "-a", partitions=2)
    client.call("CREATE", topic=stem + "-b", partitions=1)
    refused(client, "CONSUME", request_of(stem + "-*", {"partition": 1}), "partition_not_found", partition="1")
    client.call("CREATE", topic=stem + "-c", partitions=2, auth_policy="deny_read")
    refused(client, "CONSUME", request_of(stem + "-*", {}), "NOT_AUTHORIZED_FOR_TOPIC", operation="read",
            topic=stem + "-c")


def test_a_pattern_wait_is_woken_by_any_of_its_topics(broker, client, new_name):
    stem = new_name()
    for name in ("-a", "-b"):
        client.call("CREATE", topic=stem + name, partitions=1)
    request_id = client.send("CONSUME", request_of(stem + "-*", {"wait_ms": 25000}))
    time.sleep(0.1)
    with broker.client() as other:
        other.publish(stem + "-b", "x")
    assert [r.payload for r in client.answer(request_id).batch.records] == [b"x"]


# ---- other nodes ----------------------------------------------------------------------------------


def test_an_acknowledged_record_is_readable_on_every_node_at_once(client, second_client, topic):
    for number in range(50):
        writer, reader = (client, second_client) if number % 2 else (second_client, client)
        assert writer.publish(topic, "%d" % number)["last_offset"] == number
        assert [r.payload for r in reader.consume(topic, offset=number).records] == [b"%d" % number]
        assert [r.offset for r in reader.consume(topic, offset=0).records] == list(range(number + 1))


def test_a_new_topic_is_known_on_every_node_at_once(client, second_client, new_name):
    for _ in range(10):
        name = new_name()
        refused(second_client, "CONSUME", request_of(name, {}), "topic_not_found", topic=name)
        client.call("CREATE", topic=name, partitions=1)
        assert second_client.publish(name, "x")["last_offset"] == 0


def test_a_policy_change_is_obeyed_on_every_node_at_once(client, second_client, topic):
    second_client.publish(topic, "x")
    client.call("CREATE", topic=topic, auth_policy="deny_write")
    refused(second_client, "PUBLISH", dict(topic=topic, partition=0, producerId="p", message="y"),
            "NOT_AUTHORIZED_FOR_TOPIC", operation="write", topic=topic)
    client.call("CREATE", topic=topic, auth_policy="open", min_in_sync_replicas=3)
    refused(second_client, "PUBLISH", dict(topic=topic, partition=0, producerId="p", message="y", acks="all"),
            "insufficient_in_sync_replicas", current="1", required="3")


def test_a_refusal_is_never_made_from_what_a_node_remembers(client, second_client, topic):
    """Once a change that allows something is acknowledged, no node may go on refusing."""
    for _ in range(10):
        client.call("CREATE", topic=topic, auth_policy="deny_write")
        refused(second_client, "PUBLISH", dict(topic=topic, partition=0, producerId="p", message="y"),
                "NOT_AUTHORIZED_FOR_TOPIC", operation="write", topic=topic)
        client.call("CREATE", topic=topic, auth_policy="open")
        second_client.publish(topic, "x")
        client.call("CREATE", topic=topic, auth_policy="deny_read")
        refused(client, "CONSUME", request_of(topic, {}), "NOT_AUTHORIZED_FOR_TOPIC", operation="read", topic=topic)
        client.call("CREATE", topic=topic, auth_policy="open")
        second_client.consume(topic)


def test_reads_through_compression_of_a_large_answer(broker, topic):
    payload = bytes(range(256)) * 8192  # 2 MiB: above the size that goes to the worker threads
    with broker.client([1]) as client:
        client.publish(topic, payload)
        request_id = client.send("CONSUME", request_of(topic, {}))
        assert same(client.answer(request_id).batch.records[0].payload, payload)
