"""STREAM: the check table, where a stream begins, what it pushes, how it ends, and that it is in nobody's way."""

import time

import pytest

import crs2client as crs2
import reading
from crs2client import Batch, Closed, Record
from harness import SLOWNESS, sql, wait_until
from refusal import Text, check, refused_in_order

REFUSALS = reading.refusals("STREAM") | {
    "group_missing": ({"group": None}, "invalid_stream_syntax", {}),
    "group_empty": ({"group": ""}, "invalid_stream_syntax", {}),
    "topic_pattern": ({"topic": "no-*"}, "topic_not_found", {"topic": "no-*"}),
}


def refused_stream(client, fields, code, **expected):
    """The refusal is one stream frame with status ERROR, and the connection stays usable."""
    request_id = client.send("STREAM", {name: value for name, value in fields.items() if value is not None})
    frame = client.recv()
    assert (frame.kind, frame.status, frame.request_id) == (crs2.STREAM, crs2.ERROR, request_id)
    error = crs2.decode_error(frame.payload)
    check(error, code, **expected)
    assert client.is_open()


@pytest.mark.parametrize("case", REFUSALS)
def test_stream_refuses(client, topic, case):
    changes, code, fields = REFUSALS[case]
    refused_stream(client, dict(topic=topic, partition="0", group="g") | changes, code, **fields)


def test_stream_checks_in_the_order_of_the_specification(client, make_topic):
    topic = make_topic(auth_policy="deny_read")
    refused_in_order(client, "STREAM", reading.ALL_WRONG, [
        ("invalid_stream_syntax", {"group": "a b"}),
        ("invalid_group", {"group": "g"}),
        *reading.STEPS_TO_BATCH,
        *reading.steps_from_topic(topic),
    ])


# ---- an open stream -------------------------------------------------------------------------------


class Stream:
    """A connection that carries a stream. Every frame is checked to be a stream frame of its request."""

    def __init__(self, broker, topic, group="g", partition=0, compressions=(0,), **fields):
        self.client = broker.client(compressions)
        self.request_id = self.client.send("STREAM", dict(topic=topic, partition=partition, group=group, **fields))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()

    def frame(self, within=20.0):
        self.client.sock.settimeout(within * SLOWNESS)
        frame = self.client.recv()
        assert (frame.kind, frame.request_id) == (crs2.STREAM, self.request_id)
        assert frame.command == self.client.commands["STREAM"]
        return frame

    def data(self, within=20.0):
        """The records of the next data frame; keepalives are passed over."""
        deadline = time.monotonic() + within * SLOWNESS
        while True:
            assert time.monotonic() < deadline, "nothing but keepalives"
            frame = self.frame(within)
            assert frame.status == crs2.OK, frame.payload
            if frame.payload:
                assert frame.batch.records, "a data frame without a record"
                return frame.batch.records

    def records(self, count, within=20.0):
        out = []
        while len(out) < count:
            out += self.data(within)
        return out

    def payloads(self, count, within=20.0):
        return [record.payload for record in self.records(count, within)]

    def end(self, within=20.0):
        """The fields of the close frame; the connection is closed after it."""
        deadline = time.monotonic() + within * SLOWNESS
        while True:
            assert time.monotonic() < deadline, "no close frame"
            frame = self.frame(within)
            if frame.status != crs2.STREAM_END:
                continue
            words = frame.text.split(" ")
            assert words[:2] == ["STREAM_CONTROL", "type=CLOSE"]
            with pytest.raises(Closed):
                self.client.recv()
            return dict(word.split("=", 1) for word in words[2:])

    def is_quiet(self, seconds):
        try:
            frame = self.frame(seconds / SLOWNESS)
        except TimeoutError:
            return True
        return frame.payload == b""


def test_what_is_there_and_what_comes_is_pushed(broker, client, topic):
    client.publish(topic, "a")
    with Stream(broker, topic) as stream:
        assert stream.payloads(1) == [b"a"]
        for n in range(20):
            client.publish(topic, f"b{n}")
        records = stream.records(20)
    assert [(r.offset, r.payload) for r in records] == [(n + 1, b"b%d" % n) for n in range(20)]


@pytest.mark.parametrize("compression", [0, 1, 2, 3])
def test_frames_are_compressed_as_negotiated(broker, client, topic, compression):
    client.publish(topic, "x" * 1000)
    with Stream(broker, topic, compressions=(compression,)) as stream:
        frame = stream.frame()
        assert frame.compression == compression
        assert [r.payload for r in frame.batch.records] == [b"x" * 1000]


def test_the_batch_of_a_data_frame(broker, client, topic):
    client.publish_batch(Batch(topic, records=[Record(b"a", producer_id=b"p", seq_num=3),
                                               Record(b"b", producer_id=b"p", seq_num=9)]))
    with Stream(broker, topic) as stream:
        batch = stream.frame().batch
    assert (batch.topic, batch.partition, batch.acks, batch.idempotent) == (topic, 0, "1", False)
    assert (batch.batch_start, batch.batch_end) == (3, 9)


def test_a_frame_holds_at_most_batch_records(broker, client, topic):
    client.publish_batch(Batch(topic, records=[Record(b"%d" % n) for n in range(10)]))
    with Stream(broker, topic, batch=4) as stream:
        sizes = [[r.offset for r in stream.data()] for _ in range(3)]
    assert sizes == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_a_stream_begins_at_its_offset_even_inside_a_stored_batch(broker, client, topic):
    client.publish_batch(Batch(topic, records=[Record(b"%d" % n) for n in range(10)]))
    with Stream(broker, topic, offset=7) as stream:
        assert stream.payloads(3) == [b"7", b"8", b"9"]


def test_without_an_offset_auto_offset_reset_decides(broker, client, topic):
    client.publish(topic, "old")
    with Stream(broker, topic, group="late", autoOffsetReset="latest") as late:
        with Stream(broker, topic, group="early", autoOffsetReset="earliest") as early:
            assert early.payloads(1) == [b"old"]
            assert late.is_quiet(0.3)
            client.publish(topic, "new")
            assert early.payloads(1) == [b"new"]
            assert late.payloads(1) == [b"new"]


def test_an_offset_beyond_the_end_waits_for_it(broker, client, topic):
    with Stream(broker, topic, offset=2) as stream:
        for n in range(3):
            client.publish(topic, f"{n}")
        assert [(r.offset, r.payload) for r in stream.records(1)] == [(2, b"2")]


def test_a_large_backlog_arrives_whole_and_in_order(broker, client, topic):
    body, large = b"x" * 1000, 5 << 18
    for _ in range(4):
        client.publish_batch(Batch(topic, records=[Record(body)] * 200))
    client.publish_batch(Batch(topic, records=[Record(b"y" * large)]))
    with Stream(broker, topic) as stream:
        records = stream.records(801)
    assert [r.offset for r in records] == list(range(801))
    assert len(records[-1].payload) == large


def test_keepalives_every_5_seconds_compressed_as_usual(broker, topic):
    started = time.monotonic()
    with Stream(broker, topic, compressions=(1,)) as stream:
        frame = stream.frame()
        waited = time.monotonic() - started
    assert (frame.status, frame.payload, frame.compression) == (crs2.OK, b"", 1)
    assert 4.9 < waited < 5 + 2 * SLOWNESS


def test_what_the_client_sends_is_ignored(broker, client, topic):
    with Stream(broker, topic) as stream:
        stream.client.send_raw(b"\xff" * (1 << 20))
        stream.client.send("HELP")
        client.publish(topic, "x")
        assert stream.payloads(1) == [b"x"]


def test_requests_behind_a_refused_stream_are_answered(client, topic):
    client.send("STREAM", dict(topic="no-such-topic", partition=0, group="g"), request_id=5)
    client.send("HELP", request_id=6)
    assert (client.recv().request_id, client.recv().request_id) == (5, 6)


# ---- ends -----------------------------------------------------------------------------------------


def test_a_newer_stream_of_the_group_takes_over(broker, client, topic):
    client.publish(topic, "a")
    with Stream(broker, topic, group="one") as older, Stream(broker, topic, group="other") as other:
        assert older.payloads(1) == other.payloads(1) == [b"a"]
        with Stream(broker, topic, group="one", offset=1) as newer:
            assert older.end() == {"reason": "removed", "offset": "1"}
            client.publish(topic, "b")
            assert newer.payloads(1) == other.payloads(1) == [b"b"]


def test_a_draining_node_closes_its_streams_as_stopped(start_broker, database, new_name):
    broker, topic = start_broker(database), new_name()
    with broker.client() as client:
        client.call("CREATE", topic=topic, partitions=1)
        client.publish(topic, "a")
    with Stream(broker, topic) as stream:
        assert stream.payloads(1) == [b"a"]
        broker.terminate()
        assert stream.end() == {"reason": "stopped", "offset": "1"}
        broker.process.wait(120)


def test_a_log_that_is_gone_closes_the_stream_as_removed(broker, client, topic, shared):
    """Also when no notification says so: the slow look finds it."""
    with Stream(broker, topic) as stream:
        client.publish(topic, "a")
        assert stream.payloads(1) == [b"a"]
        sql(shared.dsn, f"UPDATE pgcursus.topic_definitions SET log_id = nextval('pgcursus.log_ids') WHERE name = '{topic}'")
        assert stream.end() == {"reason": "removed", "offset": "1"}


def test_an_offset_below_the_earliest_closes_the_stream(broker, client, topic, shared):
    for n in range(3):
        client.publish(topic, f"{n}")
    sql(shared.dsn, f"""UPDATE pgcursus.partition_states SET earliest_offset = 2
                         WHERE log_id = (SELECT log_id FROM pgcursus.topic_definitions WHERE name = '{topic}')""")
    with Stream(broker, topic, offset=1) as stream:
        assert stream.end() == {"reason": "offset_out_of_range", "offset": "1", "requested": "1",
                                "earliest": "2", "latest": "3"}


def test_a_reader_that_takes_nothing_times_out(start_broker, database, new_name):
    broker, topic = start_broker(database, stream_timeout="1s"), new_name()
    with broker.client() as client:
        client.call("CREATE", topic=topic, partitions=1)
        with Stream(broker, topic) as stream:
            for _ in range(24):
                client.publish_batch(Batch(topic, records=[Record(b"x" * (1 << 20))]))
            # What the kernel holds is read; then the connection ends, too early for all of it.
            wait_until(lambda: broker.metric("pgcursus_connections") == 1, 15 * SLOWNESS, what="the end of the stream")
            taken = 0
            with pytest.raises((Closed, crs2.CodecError, ConnectionResetError)):
                while True:
                    taken += len(stream.data())
            assert taken < 24


def test_no_more_streams_than_the_setting_allows(start_broker, database, new_name):
    broker, topic = start_broker(database, max_stream_connections=2), new_name()
    with broker.client() as client:
        client.call("CREATE", topic=topic, partitions=1)
        client.publish(topic, "x")
        with Stream(broker, topic, group="a") as a, Stream(broker, topic, group="b") as b:
            a.payloads(1), b.payloads(1)
            refused_stream(client, dict(topic=topic, partition=0, group="c"), "command_failed", reason=Text())
        wait_until(lambda: broker.metric("pgcursus_connections") == 1, what="the end of the streams")
        with Stream(broker, topic, group="c") as c:
            assert c.payloads(1) == [b"x"]


def test_a_client_that_goes_away_takes_its_stream_along(start_broker, database, new_name):
    broker, topic = start_broker(database), new_name()
    with broker.client() as client:
        client.call("CREATE", topic=topic, partitions=1)
        stream = Stream(broker, topic)
        wait_until(lambda: broker.metric("pgcursus_connections") == 2, what="the stream's connection")
        stream.client.close()
        wait_until(lambda: broker.metric("pgcursus_connections") == 1, what="its end")


# ---- isolation ------------------------------------------------------------------------------------


def test_nothing_from_an_open_transaction_on_is_pushed(broker, second_client, topic, shared):
    """The rows are marked by hand, and published through the other node, so that this one has none of them cached."""
    for name in "atc":
        second_client.publish(topic, name)
    sql(shared.dsn, f"""
        INSERT INTO pgcursus.transaction_states (transactional_id, producer_id, producer_epoch, state, deadline)
        VALUES ('{topic}', 'p', 1, 'open', 'infinity');
        INSERT INTO pgcursus.transaction_partitions (transaction_id, log_id, partition, first_offset)
        SELECT x.transaction_id, t.log_id, 0, 1 FROM pgcursus.transaction_states x, pgcursus.topic_definitions t
         WHERE x.transactional_id = '{topic}' AND t.name = '{topic}';
        UPDATE pgcursus.record_batches b SET transaction_id = x.transaction_id
          FROM pgcursus.transaction_partitions x WHERE (b.log_id, b.base_offset) = (x.log_id, 1)
           AND x.transaction_id = (SELECT transaction_id FROM pgcursus.transaction_states
                                    WHERE transactional_id = '{topic}')""")
    with Stream(broker, topic, group="c") as committed, \
            Stream(broker, topic, group="u", isolation="read_uncommitted") as uncommitted:
        assert uncommitted.payloads(3) == [b"a", b"t", b"c"]
        assert committed.payloads(1) == [b"a"]
        second_client.publish(topic, "d")
        assert uncommitted.payloads(1) == [b"d"]
        assert committed.is_quiet(0.7)
        sql(shared.dsn, f"""
            UPDATE pgcursus.transaction_partitions SET resolved = true WHERE transaction_id =
              (SELECT transaction_id FROM pgcursus.transaction_states WHERE transactional_id = '{topic}');
            UPDATE pgcursus.transaction_states SET state = 'committed' WHERE transactional_id = '{topic}'""")
        second_client.publish(topic, "e")
        assert committed.payloads(4) == [b"t", b"c", b"d", b"e"]


# ---- cost -----------------------------------------------------------------------------------------


def test_a_hundred_streams_cost_one_fetch_a_batch_at_most(start_broker, database, new_name):
    broker, topic = start_broker(database, wait_poll_interval_ms=3600000), new_name()
    with broker.client() as client:
        client.call("CREATE", topic=topic, partitions=1)
        streams = [Stream(broker, topic, group=f"g{n}") for n in range(100)]
        try:
            client.publish(topic, "first")
            assert [s.payloads(1) for s in streams] == [[b"first"]] * 100
            queries, batches = broker.metric("pgcursus_read_queries_total"), 20
            for n in range(batches):
                client.publish(topic, f"{n}")
                assert [s.payloads(1) for s in streams] == [[b"%d" % n]] * 100
            assert broker.metric("pgcursus_read_queries_total") - queries <= batches
        finally:
            for stream in streams:
                stream.client.close()


def test_idle_readers_cost_next_to_nothing(broker, client, make_topic):
    topics = [make_topic() for _ in range(10)]
    def statements(seconds):
        before = broker.metric("pgcursus_database_statements_total")
        time.sleep(seconds)
        return broker.metric("pgcursus_database_statements_total") - before

    idle = statements(2)
    streams = [Stream(broker, topics[n % 10], group=f"idle{n}") for n in range(50)]
    polls = [broker.client() for _ in range(50)]
    try:
        for n, poll in enumerate(polls):
            poll.send("CONSUME", dict(topic=topics[n % 10], partition=0, offset=0, member="m", wait_ms=20000))
        # Once all are waiting, what is left is the slow look, and what a node does without readers. A loaded machine
        # may take a while until all are.
        wait_until(lambda: broker.metric("pgcursus_connections") >= 101, what="the connections")
        assert min(statements(2) for _ in range(4)) - idle < 2 * 5
    finally:
        for stream in streams:
            stream.client.close()
        for poll in polls:
            poll.close()


def test_readers_that_stopped_reading_hold_little_and_stop_nobody(start_broker, database, new_name):
    """Each is owed 20 MB, of which the kernel takes some; of the node's memory each holds one frame."""
    broker, topic = start_broker(database), new_name()
    with broker.client((3,)) as client:
        client.call("CREATE", topic=topic, partitions=1)
        for _ in range(20):
            client.publish_batch(Batch(topic, records=[Record(b"x" * (100 << 10))] * 10))
        stuck = [Stream(broker, topic, group=f"stuck{n}") for n in range(20)]
        try:
            wait_until(lambda: broker.metric("pgcursus_request_memory_bytes") > 1 << 20, what="stuck output")
            with Stream(broker, topic, group="quick", offset=200) as quick:
                client.publish(topic, "y")
                assert quick.payloads(1) == [b"y"]
            time.sleep(0.5)
            assert broker.metric("pgcursus_request_memory_bytes") < 20 * (512 << 10)
        finally:
            for stream in stuck:
                stream.client.close()
