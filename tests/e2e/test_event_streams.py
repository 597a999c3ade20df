"""Event streams: APPEND_STREAM, READ_STREAM, STREAM_VERSION, snapshots and READ_STREAM_HISTORY (commands-2 5)."""

import json
import threading

import pytest

import crs2client as crs2
from crs2client import BrokerError
from harness import SLOWNESS, SqlSession, sql, wait_until
from refusal import Text, check, refused

STREAM, OK = 5, 1


@pytest.fixture
def events(make_topic):
    """The name of a new topic with event streams."""
    return make_topic(4, event_sourcing="true")


def append(client, topic, key, version, message=None, **more):
    message = f"{key}-{version}" if message is None else message
    return client.call("APPEND_STREAM", topic=topic, key=key, version=version, message=message, **more).text


def frames(client, command="READ_STREAM", /, **fields):
    """Envelope and records of an answer, whose frames are checked; an envelope that is a failure comes alone."""
    request = client.send(command, fields)
    first = client.answer(request, command)
    assert (first.kind, first.status) == (STREAM, OK)
    envelope = json.loads(first.payload)
    if envelope["status"] == "ERROR":
        assert client.is_open()
        return envelope, None
    second = client.answer(request, command)
    assert (second.kind, second.status) == (STREAM, OK)
    batch = second.batch
    assert (batch.topic, batch.partition, batch.acks, batch.idempotent) == (
        envelope["topic"], envelope["partition"], "1", False)
    return envelope, batch.records


def versions(client, topic, key, **fields):
    return [r.aggregate_version for r in frames(client, topic=topic, key=key, **fields)[1]]


def failed(client, error, command="READ_STREAM", /, **fields):
    envelope, records = frames(client, command, **fields)
    assert (envelope, records) == ({"error": error, "status": "ERROR"}, None)


# ---- the common checks ----------------------------------------------------------------------------

COMMANDS = {
    "APPEND_STREAM": dict(version=1, message="m"),
    "READ_STREAM": {},
    "STREAM_VERSION": {},
    "SAVE_SNAPSHOT": dict(version=0, message="m"),
    "READ_SNAPSHOT": {},
}


@pytest.mark.parametrize("command", COMMANDS)
def test_topic_and_key_come_first(client, topic, new_name, command):
    more, missing = COMMANDS[command], new_name()
    refused(client, command, dict(more, key="k"), "missing_topic")
    refused(client, command, dict(more, topic="", key=""), "missing_topic")
    refused(client, command, dict(more, topic=missing), "missing_key")
    refused(client, command, dict(more, topic=missing, key=""), "missing_key")
    refused(client, command, dict(topic=missing, key="k"), "topic_not_found", topic=missing)
    refused(client, command, dict(topic="a b", key="k"), "topic_not_found", topic="a b")
    refused(client, command, dict(topic=topic, key="k"), "event_sourcing_not_enabled", topic=topic)


def test_no_refusal_is_made_from_what_a_node_remembers(client, new_name, broker):
    name = new_name()
    client.call("CREATE", topic=name, partitions=1)
    refused(client, "STREAM_VERSION", dict(topic=name, key="k"), "event_sourcing_not_enabled", topic=name)
    sql(broker.dsn, f"UPDATE pgcursus.topic_definitions SET event_sourcing = true, revision = revision + 1"
                    f" WHERE name = '{name}'")
    assert append(client, name, "k", 1) == "OK version=1 offset=0 partition=0"


# ---- APPEND_STREAM --------------------------------------------------------------------------------


def test_an_event_is_appended_and_a_repeat_conflicts(client, events):
    fields = dict(topic=events, key="order-123", version=1, event_type="OrderCreated", message='{"customer":"alice"}')
    assert client.call("APPEND_STREAM", **fields).text == "OK version=1 offset=0 partition=2"
    refused(client, "APPEND_STREAM", fields, "version_conflict", current="1", expected="1")
    assert client.call("STREAM_VERSION", topic=events, key="order-123").text == "OK version=1"


def test_only_the_next_version_is_taken(client, events):
    append(client, events, "k", 1)
    for version in (0, 1, 3, 2**63 - 1):
        refused(client, "APPEND_STREAM", dict(topic=events, key="k", version=version, message="m"),
                "version_conflict", current="1", expected=str(version))
    refused(client, "APPEND_STREAM", dict(topic=events, key="new", version=2, message="m"),
            "version_conflict", current="0", expected="2")
    assert append(client, events, "k", 2).startswith("OK version=2 offset=")


def test_fields_are_checked_in_order(client, events):
    base = dict(topic=events, key="k")
    refused(client, "APPEND_STREAM", dict(base, schema_version="x"), "missing_version")
    refused(client, "APPEND_STREAM", dict(base, version=""), "missing_version")
    for version in ("x", "-1", "+1", "1.0", " 1", str(2**63), str(2**64)):
        refused(client, "APPEND_STREAM", dict(base, version=version), "invalid_version")
    refused(client, "APPEND_STREAM", dict(base, version=9, schema_version="x"), "missing_message")
    refused(client, "APPEND_STREAM", dict(base, version=9, message="", schema_version="x"), "missing_message")
    for schema in ("", "x", "-1", str(2**32)):
        refused(client, "APPEND_STREAM", dict(base, version=9, message="m", schema_version=schema),
                "invalid_schema_version")
    refused(client, "APPEND_STREAM", dict(base, version=9, message="m", event_type=b"\xff"), "invalid_event_type",
            reason=Text("UTF-8"))
    refused(client, "APPEND_STREAM", dict(base, version=9, message="m", metadata=b"a\0"), "invalid_metadata",
            reason=Text("UTF-8"))
    refused(client, "APPEND_STREAM", dict(topic=events, key="k" * 65536, version=1, message="m"), "invalid_key",
            reason=Text("65535"))
    refused(client, "APPEND_STREAM", dict(base, version=9, message="m"), "version_conflict", current="0",
            expected="9")


def test_the_internal_topic_takes_no_events(client):
    refused(client, "APPEND_STREAM", dict(topic="__consumer_offsets", key="k", version=1, message="m"),
            "internal_topic_write_forbidden", topic="__consumer_offsets")


def test_any_bytes_and_any_fields_come_back(client, second_client, events):
    key = bytes(range(1, 256)) * 3
    payload = bytes(range(256))
    client.call("APPEND_STREAM", topic=events, key=key, version=1, message=payload, event_type="Ünder",
                schema_version=2**32 - 1, metadata="m =\n x", producerId="ignored one", seqNum="x", event_id="e")
    client.call("APPEND_STREAM", topic=events, key=key, version=2, message=" padded ")
    for node in (client, second_client):
        first, second = frames(node, topic=events, key=key)[1]
        assert (first.payload, first.key, first.event_type, first.schema_version, first.aggregate_version,
                first.metadata, first.event_id, first.version) == (
            payload, key, "Ünder".encode(), 2**32 - 1, 1, b"m =\n x", b"", 2)
        assert (second.payload, second.schema_version, second.event_type) == (b" padded ", 1, b"")


def test_long_keys_are_streams_of_their_own(client, events):
    one, other = b"k" * 65535, b"k" * 65534 + b"x"
    append(client, events, one, 1, message="one")
    append(client, events, other, 1, message="other")
    append(client, events, one, 2, message="two")
    assert [r.payload for r in frames(client, topic=events, key=one)[1]] == [b"one", b"two"]


def test_events_are_ordinary_records(client, second_client, events):
    partition = int(append(client, events, "order-1", 1, event_type="T", metadata="m").rpartition("=")[2])
    client.publish(events, "plain", partition=partition)
    append(client, events, "order-1", 2)
    for node in (client, second_client):
        got = node.consume(events, partition).records
        assert [(r.payload, r.key, r.aggregate_version, r.event_type, r.metadata) for r in got] == [
            (b"order-1-1", b"order-1", 1, b"T", b"m"), (b"plain", b"", 0, b"", b""),
            (b"order-1-2", b"order-1", 2, b"", b"")]
    assert versions(client, events, "order-1") == [1, 2]


def test_a_stream_keeps_its_partition_when_partitions_are_added(client, second_client, make_topic):
    name = make_topic(1, event_sourcing="true")
    keys = [f"k{n}" for n in range(8)]
    for key in keys:
        append(client, name, key, 1)
    client.call("CREATE", topic=name, partitions=16)
    for key in keys:
        for node, version in ((client, 2), (second_client, 3)):
            assert append(node, name, key, version).endswith("partition=0")
        assert versions(client, name, key) == [1, 2, 3]
    new = {append(client, name, f"new{n}", 1).rpartition("=")[2] for n in range(20)}
    assert len(new) > 3


def test_two_nodes_that_race_for_a_version_have_one_winner(broker, second_broker, events):
    rounds, gate, results = 60, threading.Barrier(4), {}

    def race(number):
        with (broker, second_broker)[number % 2].client() as connection:
            for version in range(1, rounds + 1):
                gate.wait(120)
                try:
                    append(connection, events, "contested", version, message=f"{number}")
                    results[version, number] = "won"
                except BrokerError as error:
                    check(error, "version_conflict", current=str(version), expected=str(version))
                    results[version, number] = "lost"

    threads = [threading.Thread(target=race, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for version in range(1, rounds + 1):
        assert sorted(results.get((version, n)) for n in range(4)) == ["lost"] * 3 + ["won"], version
    with broker.client() as connection:
        records = frames(connection, topic=events, key="contested")[1]
    assert [r.aggregate_version for r in records] == list(range(1, rounds + 1))
    for record in records:
        assert results[record.aggregate_version, int(record.payload)] == "won"


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_two_that_begin_a_stream_in_different_partitions_have_one_winner(client, broker, make_topic, end):
    topic, alike = make_topic(2, event_sourcing="true"), make_topic(2, event_sourcing="true")
    mine = int(append(client, alike, "key", 1).rpartition("=")[2])
    with SqlSession(broker.dsn) as session:  # as a node does that has not heard of the last CREATE
        pid = session.run("SELECT pg_backend_pid()")[0]
        session.run("BEGIN")
        session.run(f"""
            SELECT status FROM pgcursus.append_events((SELECT log_id FROM pgcursus.topic_definition('{topic}')), NULL,
                {1 - mine}, 2, false, 1, ARRAY['key'::bytea], ARRAY[1::bigint], ARRAY['x'::bytea], NULL, NULL, NULL, NULL,
                NULL, NULL, NULL, NULL)""")
        fields = dict(topic=topic, key="key", version=1, message="m")
        request = client.send("APPEND_STREAM", fields)
        wait_until(lambda: sql(broker.dsn, f"SELECT 1 FROM pg_stat_activity WHERE {pid} = ANY (pg_blocking_pids(pid))"),
                   within=10 * SLOWNESS, what="the wait for the other transaction")
        session.run(end)
        if end == "COMMIT":
            with pytest.raises(BrokerError) as caught:
                client.answer(request, "APPEND_STREAM")
            check(caught.value, "version_conflict", current="1", expected="1")
        else:
            assert client.answer(request, "APPEND_STREAM").text == f"OK version=1 offset=0 partition={mine}"
    assert versions(client, topic, "key") == [1]


def test_streams_that_share_group_commits_do_not_mix(broker, events):
    streams, length, faults = 24, 15, []

    def write(number):
        try:
            with broker.client() as connection:
                for version in range(1, length + 1):
                    answer = append(connection, events, f"s{number}", version)
                    assert answer.startswith(f"OK version={version} offset=")
        except Exception as fault:  # pylint: disable=broad-except
            faults.append(fault)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not faults
    with broker.client() as connection:
        for number in range(streams):
            records = frames(connection, topic=events, key=f"s{number}")[1]
            assert [r.payload for r in records] == [b"s%d-%d" % (number, v) for v in range(1, length + 1)]
            offsets = [r.offset for r in records]
            assert offsets == sorted(set(offsets))


def test_an_event_is_readable_while_an_older_transaction_is_open(client, second_client, events, broker):
    partition = int(append(client, events, "k", 1).rpartition("=")[2])
    sql(broker.dsn, f"""
        WITH t AS (INSERT INTO pgcursus.transaction_states (transactional_id, producer_id, producer_epoch, state,
                                                            deadline)
                   VALUES ('{events}', 'p', 0, 'open', now() + interval '1 hour') RETURNING transaction_id)
        INSERT INTO pgcursus.transaction_partitions (transaction_id, log_id, partition, first_offset)
        SELECT t.transaction_id, d.log_id, {partition}, 1 FROM t, pgcursus.topic_definition('{events}') d""")
    append(client, events, "k", 2)
    for node in (client, second_client):
        assert node.call("STREAM_VERSION", topic=events, key="k").text == "OK version=2"
        assert versions(node, events, "k") == [1, 2]


# ---- READ_STREAM ----------------------------------------------------------------------------------


def test_the_envelope_of_a_stream(client, events):
    for version in range(1, 6):
        append(client, events, "order-123", version)
    text = client.answer(client.send("READ_STREAM", dict(topic=events, key="order-123"))).text
    assert text == f'{{"status":"OK","topic":"{events}","key":"order-123","partition":2,"count":5}}'
    assert len(client.recv().batch.records) == 5
    client.call("SAVE_SNAPSHOT", topic=events, key="order-123", version=3, message='the "state"')
    text = client.answer(client.send("READ_STREAM", dict(topic=events, key="order-123"))).text
    assert text == (f'{{"status":"OK","topic":"{events}","key":"order-123","partition":2,"count":2,'
                    '"snapshot":{"version":3,"payload":"the \\"state\\""}}')
    assert [r.aggregate_version for r in client.recv().batch.records] == [4, 5]
    envelope, records = frames(client, topic=events, key="order-123", from_version=4)
    assert ("snapshot" not in envelope, envelope["count"], len(records)) == (True, 2, 2)
    envelope, records = frames(client, topic=events, key="order-123", from_version=3)
    assert (envelope["snapshot"]["version"], [r.aggregate_version for r in records]) == (3, [4, 5])


def test_a_long_stream_is_read_whole(client, second_client, make_topic):
    topic, count = make_topic(1, event_sourcing="true"), 1100
    def send(key, version):
        return client.send("APPEND_STREAM", dict(topic=topic, key=key, version=version, message=f"{key}-{version}"))
    requests = [send("long", version) for version in range(1, 600)] + [send("other", 1)]
    requests += [send("long", version) for version in range(600, count + 1)]
    for request in requests:
        client.answer(request, "APPEND_STREAM")
    envelope, records = frames(second_client, topic=topic, key="long")
    assert envelope["count"] == count
    assert [(r.aggregate_version, r.offset, r.payload.decode()) for r in records] == [
        (version, version - 1 if version < 600 else version, f"long-{version}") for version in range(1, count + 1)]
    assert versions(client, topic, "long", from_version=50, max_events=1000) == list(range(50, 1050))
    envelope, records = frames(client, "READ_STREAM_HISTORY", topic=topic, key="long", max_records=1000)
    assert (envelope["next_version"], len(records), records[-1].aggregate_version) == (1001, 1000, 1000)


def test_an_unknown_key_is_an_empty_stream(client, events):
    envelope, records = frames(client, topic=events, key="match-42")
    assert (envelope, records) == (
        {"status": "OK", "topic": events, "key": "match-42", "partition": 3, "count": 0}, [])


@pytest.mark.parametrize("value", ["0", "x", "", "-1", str(2**63)])
def test_a_bad_from_version_is_an_envelope_of_its_own(client, events, value):
    text = client.answer(client.send("READ_STREAM", dict(topic=events, key="k", from_version=value, max_events="x")))
    assert text.text == '{"error":"invalid_from_version","status":"ERROR"}'
    failed(client, "invalid_from_version", topic=events, key="k", from_version=value)


def test_pages(client, events):
    for version in range(1, 6):
        append(client, events, "k", version)
    seen, start = [], 1
    while start:
        envelope, records = frames(client, topic=events, key="k", from_version=start, max_events=2)
        seen += [r.aggregate_version for r in records]
        assert list(envelope)[-1] == ("next_version" if envelope["has_more"] else "has_more")
        start = envelope.get("next_version")
    assert seen == [1, 2, 3, 4, 5]
    envelope, records = frames(client, topic=events, key="k", max_bytes=1024)
    assert (len(records), envelope["has_more"], envelope["next_version"]) == (3, True, 4)
    envelope, records = frames(client, topic=events, key="k", from_version=6, max_events=1)
    assert (records, envelope["has_more"], "next_version" in envelope) == ([], False, False)
    client.call("SAVE_SNAPSHOT", topic=events, key="k", version=2, message="s")
    envelope, records = frames(client, topic=events, key="k", max_events=2)
    assert (envelope["snapshot"]["version"], [r.aggregate_version for r in records], envelope["next_version"]) == (
        2, [3, 4], 5)


def test_page_limits(client, events):
    for value in ("0", "4097", "x", "", "-1"):
        refused(client, "READ_STREAM", dict(topic=events, key="k", max_events=value, max_bytes="x"),
                "invalid_max_events")
    for value in ("1023", "33554433", "x", ""):
        refused(client, "READ_STREAM", dict(topic=events, key="k", max_bytes=value), "invalid_max_bytes")
    assert versions(client, events, "k", max_events=4096, max_bytes=33554432) == []
    for version in range(1, 301):
        append(client, events, "many", version, message="m")
    assert len(versions(client, events, "many", max_bytes=33554432)) == 256
    assert len(versions(client, events, "many")) == 300


def test_events_that_do_not_fit_are_refused(client, events):
    append(client, events, "k", 1, message="x" * 1024, event_type="t", metadata="mm")
    refused(client, "READ_STREAM", dict(topic=events, key="k", max_bytes=1024), "event_exceeds_page_budget",
            version="1", bytes=str(256 + 1024 + 1 + 1 + 2), maximum="1024")
    for version in range(1, 4):
        append(client, events, "big", version, message=b"x" * (22 << 20))
    refused(client, "READ_STREAM", dict(topic=events, key="big"), "stream_requires_pagination")
    assert versions(client, events, "big", max_bytes=33554432, from_version=3) == [3]


def test_what_retention_took_is_told(client, events, broker):
    for version in range(1, 4):
        append(client, events, "k", version)
    sql(broker.dsn, f"DELETE FROM pgcursus.record_batches b USING pgcursus.topic_definition('{events}') t"
                    " WHERE b.log_id = t.log_id AND b.base_offset < 2")
    refused(client, "READ_STREAM", dict(topic=events, key="k"), "stream_index_failed", reason=Text("1 to 3"))
    assert versions(client, events, "k", from_version=3) == [3]
    client.call("SAVE_SNAPSHOT", topic=events, key="k", version=2, message="s")
    assert versions(client, events, "k") == [3]
    assert client.call("STREAM_VERSION", topic=events, key="k").text == "OK version=3"
    assert append(client, events, "k", 4).startswith("OK version=4 offset=3")


# ---- snapshots ------------------------------------------------------------------------------------


def test_snapshots_are_kept_and_only_go_forward(client, second_client, events):
    for version in range(1, 4):
        append(client, events, "order-123", version)
    assert client.call("READ_SNAPSHOT", topic=events, key="order-123").text == "OK snapshot=null"
    base = dict(topic=events, key="order-123")
    assert client.call("SAVE_SNAPSHOT", **base, version=2, message="a").text == "OK version=2 partition=2"
    assert client.call("SAVE_SNAPSHOT", **base, version=2, message='"b"\n').text == "OK version=2 partition=2"
    assert second_client.call("READ_SNAPSHOT", **base).text == 'OK snapshot={"version":2,"payload":"\\"b\\"\\n"}'
    refused(client, "SAVE_SNAPSHOT", dict(base, version=1, message="c"), "snapshot_save_failed",
            reason=Text("snapshot version regression"))
    refused(client, "SAVE_SNAPSHOT", dict(base, version=4, message="c"), "snapshot_version_exceeds_stream",
            version="4", current="3")
    assert json.loads(client.call("READ_SNAPSHOT", **base).text.partition("=")[2])["payload"] == '"b"\n'


def test_snapshot_fields_are_checked_in_order(client, events):
    base = dict(topic=events, key="k")
    refused(client, "SAVE_SNAPSHOT", dict(base), "missing_version")
    refused(client, "SAVE_SNAPSHOT", dict(base, version="x"), "invalid_version")
    refused(client, "SAVE_SNAPSHOT", dict(base, version=5), "missing_message")
    refused(client, "SAVE_SNAPSHOT", dict(base, version=5, message=""), "missing_message")
    refused(client, "SAVE_SNAPSHOT", dict(base, version=5, message="m"), "snapshot_version_exceeds_stream",
            version="5", current="0")


def test_a_snapshot_that_could_not_be_read_is_not_saved(client, events):
    append(client, events, "k", 1)
    refused(client, "SAVE_SNAPSHOT", dict(topic=events, key="k", version=1, message=b"\x01" * (12 << 20)),
            "snapshot_save_failed", reason=Text("too large"))
    big = b"s" * (12 << 20)
    client.call("SAVE_SNAPSHOT", topic=events, key="k", version=1, message=big)
    assert len(frames(client, topic=events, key="k")[0]["snapshot"]["payload"]) == len(big)


# ---- READ_STREAM_HISTORY --------------------------------------------------------------------------


def test_history_ignores_snapshots(client, events):
    for version in range(1, 6):
        append(client, events, "order-123", version)
    client.call("SAVE_SNAPSHOT", topic=events, key="order-123", version=4, message="s")
    text = client.answer(client.send("READ_STREAM_HISTORY", dict(topic=events, key="order-123", max_records=2))).text
    assert text == (f'{{"status":"OK","topic":"{events}","key":"order-123","partition":2,"next_version":3,'
                    '"head_version":5,"completeness":"complete","has_more":true}')
    assert [r.aggregate_version for r in client.recv().batch.records] == [1, 2]

    def history(**fields):
        envelope, records = frames(client, "READ_STREAM_HISTORY", topic=events, key="order-123", **fields)
        return ([r.aggregate_version for r in records], envelope.get("next_version"), envelope["has_more"],
                envelope["completeness"])

    assert history() == ([1, 2, 3, 4, 5], 6, False, "complete")
    assert history(from_version=2, to_version=3) == ([2, 3], 4, False, "complete")
    assert history(from_version=2, to_version=4, max_records=1) == ([2], 3, True, "complete")
    assert history(max_bytes=2 * (64 + 9 + 11)) == ([1, 2], 3, True, "complete")
    assert history(from_version=6) == ([], None, False, "complete")


def test_history_of_what_retention_left(client, events, broker):
    for version in range(1, 4):
        append(client, events, "k", version)

    def history(**fields):
        envelope, records = frames(client, "READ_STREAM_HISTORY", topic=events, key="k", **fields)
        return [r.aggregate_version for r in records], envelope["completeness"], envelope["has_more"]

    sql(broker.dsn, f"DELETE FROM pgcursus.record_batches b USING pgcursus.topic_definition('{events}') t"
                    " WHERE b.log_id = t.log_id AND b.base_offset < 2")
    assert history() == ([3], "partial", False)
    assert history(to_version=2) == ([], "unknown", False)


def test_history_failures(client, topic, events):
    def fails(error, **fields):
        failed(client, error, "READ_STREAM_HISTORY", **fields)

    fails("missing_topic_or_key", key="k")
    fails("missing_topic_or_key", topic=events)
    refused(client, "READ_STREAM_HISTORY", dict(topic=topic, key="k"), "event_sourcing_not_enabled", topic=topic)
    append(client, events, "k", 1, message="x" * 100)
    base = dict(topic=events, key="k")
    for value in ("0", "x", ""):
        fails("invalid_from_version", **base, from_version=value, to_version="x")
    fails("invalid_to_version", **base, to_version="x", max_records="x")
    fails("invalid_to_version", **base, from_version=2, to_version=1)
    fails("invalid_to_version", **base, to_version=2)
    for value in ("0", "1001", "x"):
        fails("invalid_max_records", **base, max_records=value, max_bytes="x")
    for value in ("0", str((4 << 20) + 1), "x"):
        fails("invalid_max_bytes", **base, max_bytes=value)
    fails("record_too_large version=1 offset=0", **base, max_bytes=100)


def test_answers_of_streams_stay_in_order(client, events):
    append(client, events, "k", 1)
    requests = [client.send("READ_STREAM", dict(topic=events, key="k")), client.send("HELP"),
                client.send("READ_STREAM", dict(topic=events, key="k", from_version=0)),
                client.send("STREAM_VERSION", dict(topic=events, key="k"))]
    got = [client.recv().request_id for _ in range(5)]
    assert got == [requests[0], requests[0], *requests[1:]]


@pytest.mark.parametrize("compression", [1, 2, 3])
def test_both_frames_are_compressed(broker, events, compression):
    with broker.client([compression]) as connection:
        append(connection, events, "k", 1, message="x" * 3_000_000)
        assert [len(r.payload) for r in frames(connection, topic=events, key="k")[1]] == [3_000_000]


def test_each_command_needs_its_permission(start_broker, database, new_name, tmp_path):
    users = tmp_path / "users.yaml"
    users.write_text("".join(f"- {{principal: {who}, token: t, permissions: [{may}]}}\n" for who, may in
                             (("admin", "admin"), ("writer", "topic.write"), ("reader", "topic.read"))))
    broker = start_broker(database, enable_sasl="true", sasl_users=str(users))
    name = new_name()

    def as_user(who):
        return dict(principal=who, auth_token="t")

    with broker.client() as connection:
        connection.call("CREATE", topic=name, event_sourcing="true", **as_user("admin"))
        connection.call("APPEND_STREAM", topic=name, key="k", version=1, message="m", **as_user("writer"))
        assert frames(connection, topic=name, key="k", **as_user("reader"))[0]["count"] == 1
    for command, wrong in (("APPEND_STREAM", "reader"), ("SAVE_SNAPSHOT", "reader"), ("READ_STREAM", "writer"),
                           ("STREAM_VERSION", "writer"), ("READ_SNAPSHOT", "writer"),
                           ("READ_STREAM_HISTORY", "writer"), ("AGGREGATE_REPLAY_PROOF", "writer"),
                           ("AGGREGATE_EVENT_RANGE_READ", "writer")):
        with broker.client() as connection, pytest.raises(crs2.BrokerError) as caught:
            connection.call(command, topic=name, key="k", version=2, message="m", **as_user(wrong))
        assert caught.value.class_name == "authorization", command
