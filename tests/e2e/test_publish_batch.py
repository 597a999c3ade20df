"""PUBLISH of CBV2 batches: the check table row by row, whole or not at all, what a record keeps."""

import threading

import pytest

import crs2client as crs2
from crs2client import Batch, BrokerError, Record
from refusal import Text, batch_refused, same

EVERY_BYTE = bytes(range(256))


def batch_of(topic, *payloads, **more):
    return Batch(topic, records=[Record(as_record) for as_record in payloads], **more)


def numbered(topic, *sequences, epoch=1, producer=b"p", **more):
    records = [Record(b"s%d" % n, producer_id=producer, seq_num=n, epoch=epoch) for n in sequences]
    return Batch(topic, records=records, acks="all", idempotent=True, **more)


def payloads(client, topic):
    return [r.payload for r in client.consume(topic).records]


# ---- refusals -------------------------------------------------------------------------------------

FORBIDDEN = {
    "transactional_id": {"transactional_id": b"t"},
    "transaction_state": {"transaction_state": b"open"},
    "transaction_marker": {"transaction_marker": b"commit"},
    "control_batch_type": {"control_batch_type": b"transaction"},
    "control_batch_version": {"control_batch_version": 2},
    "control_coordinator_epoch": {"control_batch_coordinator_epoch": 1},
    "control_key": {"control_batch_key": b""},
    "control_value": {"control_batch_value": b"x"},
}


@pytest.mark.parametrize("case", FORBIDDEN)
def test_transaction_and_control_fields_refuse_the_whole_batch(client, topic, case):
    batch = Batch(topic, records=[Record(b"good"), Record(b"bad", **FORBIDDEN[case]), Record(b"good")])
    batch_refused(client, batch, "transaction_metadata_forbidden", command="PUBLISH")
    assert payloads(client, topic) == []


def test_broken_batches_are_answered_even_if_they_meant_acks_0(client, topic):
    payload = crs2.encode_batch(batch_of(topic, b"x", acks="0"))
    request_id = client.send_payload("PUBLISH", payload[:-1])
    with pytest.raises(BrokerError) as caught:
        client.answer(request_id, "PUBLISH")
    assert (caught.value.code, list(caught.value.fields)) == ("batch_decode_failed", ["reason"])
    assert client.is_open() and payloads(client, topic) == []


def test_a_batch_for_the_internal_topic(client):
    batch_refused(client, batch_of("__consumer_offsets", b"x"), "internal_topic_write_forbidden",
                  topic="__consumer_offsets")


def test_a_batch_for_an_unknown_topic(client, new_name):
    name = new_name()
    batch_refused(client, batch_of(name, b"x"), "topic_not_found", topic=name)


@pytest.mark.parametrize("name", [b"'; DROP SCHEMA pgcursus CASCADE; --", b"a\0b", b"\xff", b"", b"a b"])
def test_odd_topic_names_are_just_unknown(client, name):
    request_id = client.send_payload("PUBLISH", crs2.encode_batch(batch_of(name, b"x")))
    with pytest.raises(BrokerError) as caught:
        client.answer(request_id)
    assert caught.value.code in ("topic_not_found", "missing_topic")
    assert client.is_open()


def test_a_batch_where_writing_is_denied(client, make_topic):
    topic = make_topic(auth_policy="deny_write")
    batch_refused(client, batch_of(topic, b"x", partition=9), "NOT_AUTHORIZED_FOR_TOPIC", operation="write",
                  topic=topic)


def test_a_batch_for_an_aggregate_replay_topic(client, make_topic):
    topic = make_topic(event_sourcing=True, idempotent=True, aggregate_replay=True)
    batch_refused(client, batch_of(topic, b"x", acks="all"), "aggregate_publish_requires_append_stream", topic=topic)


@pytest.mark.parametrize("partition", [-1, 1, 2147483647, -2147483648])
def test_a_batch_for_a_partition_that_is_not_there(client, topic, partition):
    batch_refused(client, batch_of(topic, b"x", partition=partition), "partition_not_found", partition=str(partition))


def test_a_batch_without_records(client, topic):
    with pytest.raises(BrokerError) as caught:
        client.publish_batch(Batch(topic))
    assert (caught.value.code, caught.value.class_name) == ("empty_messages", "validation")
    assert payloads(client, topic) == []


def test_an_idempotent_batch_needs_acks_all(client, topic):
    batch = batch_of(topic, b"x", idempotent=True, acks="1")
    batch_refused(client, batch, "invalid_acks", reason="idempotent publish requires acks=all or acks=-1")
    assert payloads(client, topic) == []


def test_a_batch_with_too_few_replicas(client, make_topic):
    topic = make_topic(min_in_sync_replicas=2)
    batch_refused(client, batch_of(topic, b"x", acks="-1"), "insufficient_in_sync_replicas", current="1", required="2")
    assert payloads(client, topic) == []


@pytest.mark.parametrize(
    "batch",
    [lambda t: Batch(t, acks="0"), lambda t: batch_of("no-such-topic", b"x", acks="0"),
     lambda t: batch_of(t, b"x", acks="none", partition=7), lambda t: batch_of(t, b"x", acks="0", idempotent=True),
     lambda t: Batch(t, records=[Record(b"x", transactional_id=b"t")], acks="none"),
     lambda t: batch_of("__consumer_offsets", b"x", acks="0")],
    ids=["empty", "unknown_topic", "unknown_partition", "idempotent", "transactional", "internal_topic"],
)
def test_refusals_with_acks_0_are_silent(client, topic, batch):
    client.send_payload("PUBLISH", crs2.encode_batch(batch(topic)))
    help_id = client.send("HELP")
    assert client.recv().request_id == help_id
    assert payloads(client, topic) == []


# ---- acknowledgements -----------------------------------------------------------------------------


@pytest.mark.parametrize("acks", ["", "1", "-1", "all"])
def test_each_acks_value_is_answered(client, topic, acks):
    assert client.publish_batch(batch_of(topic, b"a", b"b", acks=acks))["last_offset"] == 1


@pytest.mark.parametrize("acks", ["0", "none"])
def test_acks_0_and_none_store_without_an_answer(client, topic, acks):
    client.send_payload("PUBLISH", crs2.encode_batch(batch_of(topic, b"a", b"b", acks=acks)))
    assert client.call("HELP").text.startswith("OK commands=")
    assert [r.payload for r in client.consume(topic, wait_ms=5000).records] == [b"a", b"b"]


def test_the_acknowledgement_names_first_and_last(client, topic):
    records = [Record(b"a", producer_id=b"p", seq_num=7, epoch=1), Record(b"b", producer_id=b"q", seq_num=3, epoch=2)]
    request_id = client.send_payload("PUBLISH", crs2.encode_batch(Batch(topic, records=records)))
    text = client.answer(request_id).text
    assert text.startswith(
        '{"status":"OK","last_offset":1,"producer_id":"q","producer_epoch":2,"seq_start":7,"seq_end":3,"leader":"')


def test_records_of_many_producers_are_kept_apart(client, topic):
    records = [Record(b"x", producer_id=b"p%d" % (n % 3), seq_num=n * n, epoch=-n) for n in range(9)]
    client.publish_batch(Batch(topic, records=records + [Record(b"nobody")]))
    got = client.consume(topic).records
    assert [(r.producer_id, r.seq_num, r.epoch) for r in got] == [
        (r.producer_id, r.seq_num, r.epoch) for r in records] + [(b"", 0, 0)]


# ---- what a record keeps --------------------------------------------------------------------------


@pytest.mark.parametrize("compression", [0, 1, 2, 3])
def test_every_column_of_a_record_comes_back(broker, topic, compression):
    full = Record(
        EVERY_BYTE, timestamp=1_700_000_000_123, producer_id=b"p", seq_num=5, epoch=-1, key=EVERY_BYTE,
        event_type="Ünder".encode(), schema_version=3, aggregate_version=1 << 40, metadata=b"{}",
    )
    empty, negative = Record(b""), Record(b"t", timestamp=-62_135_596_800_000)
    with broker.client([compression]) as client:
        client.publish_batch(Batch(topic, records=[full, empty, negative]))
        got = client.consume(topic).records
    assert [r.offset for r in got] == [0, 1, 2]
    for sent, back in zip([full, empty, negative], got):
        for name in ("payload", "producer_id", "seq_num", "epoch", "key", "event_type", "schema_version",
                     "aggregate_version", "metadata"):
            assert getattr(back, name) == getattr(sent, name), name
    assert (got[0].timestamp, got[2].timestamp) == (full.timestamp, negative.timestamp)


def test_records_of_version_3_are_read_and_version_2_is_written(client, topic):
    client.publish_batch(Batch(topic, records=[Record(b"two", version=2), Record(b"three", version=3)]))
    assert [(r.version, r.payload) for r in client.consume(topic).records] == [(2, b"two"), (2, b"three")]


def test_event_id_and_digest_are_kept_in_a_record_of_version_3(client, second_client, topic):
    sent = [Record(b"a", event_id=b"id-1", payload_digest=b"00ff"), Record(b"b"), Record(b"c", event_id=b"id-3")]
    client.publish_batch(Batch(topic, records=sent))
    for node in (client, second_client):  # the other one has it from the database
        got = node.consume(topic).records
        assert [(r.version, r.event_id, r.payload_digest) for r in got] == [
            (3, b"id-1", b"00ff"), (2, b"", b""), (3, b"id-3", b"")]


def test_offsets_and_bounds_sent_by_the_client_are_ignored(client, topic):
    batch = Batch(topic, records=[Record(b"a", offset=99), Record(b"b", offset=5)], batch_start=77, batch_end=3)
    assert client.publish_batch(batch)["last_offset"] == 1
    assert [r.offset for r in client.consume(topic).records] == [0, 1]


@pytest.mark.parametrize("value", [b"\xff", b"a\0b"])
@pytest.mark.parametrize("name", ["producer_id", "event_type", "metadata"])
def test_text_columns_refuse_what_text_cannot_hold(client, topic, name, value):
    batch = Batch(topic, records=[Record(b"good"), Record(b"bad", **{name: value})])
    with pytest.raises(BrokerError) as caught:
        client.publish_batch(batch)
    assert caught.value.class_name == "validation"
    assert payloads(client, topic) == [] and client.is_open()


def test_present_but_empty_values_are_taken(client, topic):
    client.publish_batch(Batch(topic, records=[Record(b"x", presence=0x7F)]))
    assert payloads(client, topic) == [b"x"]


def test_a_batch_of_100000_records_is_stored_whole(client, topic):
    records = [Record(b"%d" % n, key=b"k%d" % (n % 10)) for n in range(100_000)]
    client.sock.settimeout(60)
    assert client.publish_batch(Batch(topic, records=records))["last_offset"] == 99_999
    got = client.consume_all(topic)
    assert same([(r.offset, r.payload, r.key) for r in got], [(n, r.payload, r.key) for n, r in enumerate(records)])


def test_a_large_batch_with_one_bad_record_is_refused_whole(client, topic):
    records = [Record(b"x" * 1000) for _ in range(2000)] + [Record(b"bad", event_type=b"\xff")]
    with pytest.raises(BrokerError):
        client.publish_batch(Batch(topic, records=records))
    assert payloads(client, topic) == []


def test_a_batch_larger_than_one_stored_row_is_whole_at_every_moment(broker, client, topic):
    """A reader that polls while batches of 1 MiB are appended never sees a part of one."""
    done = threading.Event()

    def write():
        with broker.client() as writer:
            for _ in range(10):
                writer.publish_batch(batch_of(topic, *[b"x" * 10_000] * 100, acks="all"))
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    sizes = set()
    while not done.is_set():
        sizes.add(int(client.call("LIST_OFFSETS", topic=topic).ok_fields["offsets"].rpartition("=")[2]))
    thread.join()
    assert {size % 100 for size in sizes} == {0}


# ---- idempotence ----------------------------------------------------------------------------------


def test_duplicates_in_front_are_skipped_and_the_rest_is_appended(client, topic):
    client.publish_batch(batch_of(topic, *[b"pad"] * 10))
    client.publish_batch(numbered(topic, 1, 2, 3))
    answer = client.publish_batch(numbered(topic, 2, 3, 4, 5))
    assert (answer["last_offset"], answer["seq_start"], answer["seq_end"]) == (14, 2, 5)
    answer = client.publish_batch(numbered(topic, 4, 5))
    assert (answer["last_offset"], answer["seq_start"], answer["seq_end"]) == (14, 4, 5)
    assert payloads(client, topic)[10:] == [b"s1", b"s2", b"s3", b"s4", b"s5"]
    batch_refused(client, numbered(topic, 6, 8), "broker_error",
                  reason=Text("idempotency gap", "producer p", "expected 7", "got 8"))
    assert len(payloads(client, topic)) == 15
    answer = client.publish_batch(numbered(topic, 6, 6, 7))
    assert (answer["last_offset"], answer["seq_start"], answer["seq_end"]) == (16, 6, 7)
    assert payloads(client, topic)[15:] == [b"s6", b"s7"]


def test_a_repeated_batch_names_its_original_offset(client, second_client, topic):
    for first in (1, 4, 7):
        client.publish_batch(numbered(topic, first, first + 1, first + 2))
    for node in (client, second_client):
        assert node.publish_batch(numbered(topic, 1, 2, 3))["last_offset"] == 2
        assert node.publish_batch(numbered(topic, 5))["last_offset"] == 4
        assert node.publish_batch(numbered(topic, 3, 4, 5))["last_offset"] == 4
        assert node.publish_batch(numbered(topic, 7, 8, 9))["last_offset"] == 8


def test_a_batch_that_does_not_start_at_1_is_refused(client, topic):
    batch_refused(client, numbered(topic, 2, 3), "broker_error", reason=Text("idempotency error"))
    assert payloads(client, topic) == []


def test_an_older_epoch_refuses_the_whole_batch(client, topic):
    client.publish_batch(numbered(topic, 1, 2, epoch=5))
    batch_refused(client, numbered(topic, 3, epoch=4), "stale_producer_epoch", producer="p", current="5", got="4")
    client.publish_batch(numbered(topic, 1, epoch=6))
    batch_refused(client, numbered(topic, 3, epoch=5), "stale_producer_epoch", producer="p", current="6", got="5")
    assert payloads(client, topic) == [b"s1", b"s2", b"s1"]


def test_a_batch_of_several_producers_is_judged_record_by_record(client, topic):
    def mixed(*pairs):
        records = [Record(b"%s%d" % (p, n), producer_id=p, seq_num=n, epoch=1) for p, n in pairs]
        return Batch(topic, records=records, acks="all", idempotent=True)

    assert client.publish_batch(mixed((b"a", 1), (b"b", 1), (b"a", 2)))["last_offset"] == 2
    batch_refused(client, mixed((b"a", 3), (b"b", 3)), "broker_error", reason=Text("idempotency gap"))
    assert client.publish_batch(mixed((b"a", 2), (b"b", 2), (b"a", 3)))["last_offset"] == 4
    assert payloads(client, topic) == [b"a1", b"b1", b"a2", b"b2", b"a3"]


def test_a_producer_id_that_is_deduplicated_has_a_greatest_length(client, topic):
    """It is part of an index entry; ids in batches are not held to the rule of identifiers otherwise."""
    longest, longer, huge = b"p" * 1024, b"p" * 1025, b"h" * 100_000
    assert client.publish_batch(numbered(topic, 1, 2, producer=longest))["last_offset"] == 1
    assert client.publish_batch(numbered(topic, 1, 2, producer=longest))["last_offset"] == 1
    for producer in (longer, huge):
        batch_refused(client, numbered(topic, 1, producer=producer), "batch_decode_failed",
                      reason=Text("producer id", "longer than 1024 bytes"))
    plain = Batch(topic, records=[Record(b"plain", producer_id=huge, seq_num=1)])
    assert client.publish_batch(plain)["last_offset"] == 2
    assert payloads(client, topic) == [b"s1", b"s2", b"plain"]


def test_records_without_producer_or_number_are_never_duplicates(client, topic):
    records = [Record(b"n"), Record(b"z", producer_id=b"p", seq_num=0, epoch=1),
               Record(b"one", producer_id=b"p", seq_num=1, epoch=1)]
    for _ in range(2):
        client.publish_batch(Batch(topic, records=records, acks="all", idempotent=True))
    assert payloads(client, topic) == [b"n", b"z", b"one", b"n", b"z"]


def test_two_nodes_that_get_the_same_batch_store_it_once(broker, second_broker, client, topic):
    gate, answers = threading.Barrier(6), []

    def send(node):
        with node.client() as connection:
            gate.wait(120)
            answers.append(connection.publish_batch(numbered(topic, *range(1, 51)))["last_offset"])

    threads = [threading.Thread(target=send, args=((broker, second_broker)[n % 2],)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert answers == [49] * 6
    assert payloads(client, topic) == [b"s%d" % n for n in range(1, 51)]


def test_a_large_idempotent_batch_is_split_and_repeated_without_a_trace(client, topic):
    big = [Record(b"x" * 1000, producer_id=b"p", seq_num=n, epoch=1) for n in range(1, 2001)]
    batch = Batch(topic, records=big, acks="all", idempotent=True)
    for _ in range(2):
        assert client.publish_batch(batch)["last_offset"] == 1999
    assert client.call("LIST_OFFSETS", topic=topic).ok_fields["offsets"].endswith("leo=2000:hwm=2000")


def test_a_large_idempotent_batch_with_a_gap_leaves_nothing(client, topic):
    big = [Record(b"x" * 1000, producer_id=b"p", seq_num=n, epoch=1) for n in range(1, 2001)]
    big.append(Record(b"gap", producer_id=b"p", seq_num=5000, epoch=1))
    batch_refused(client, Batch(topic, records=big, acks="all", idempotent=True), "broker_error",
                  reason=Text("idempotency gap"))
    assert payloads(client, topic) == []
    assert client.publish_batch(numbered(topic, 1))["last_offset"] == 0
